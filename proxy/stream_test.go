package proxy

import (
	"bufio"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Server-sent events arrive one by one, and the headers before the first.
func TestEventsArriveAsTheyAreSent(t *testing.T) {
	baseline(t)
	send := make(chan string)
	addr := scriptOrigin(t, func(_ int, c net.Conn, r *bufio.Reader) {
		if _, err := readWire(r); err != nil {
			return
		}
		_, _ = io.WriteString(c, head200+"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
		for {
			select {
			case s := <-send:
				_, _ = fmt.Fprintf(c, "%x\r\n%s\r\n", len(s), s)
				if s == "" {
					return
				}
			case <-t.Context().Done():
				return
			}
		}
	})
	g := startGateway(t, nil, addr)
	c := dial(t, g.addr)
	if _, err := io.WriteString(c, "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	events := bufio.NewReader(res.Body)
	for i := range 50 {
		want := "data: " + strings.Repeat("x", i*97) + "\n\n"
		send <- want // and the next only once this one has arrived
		got := make([]byte, len(want))
		if _, err := io.ReadFull(events, got); err != nil || string(got) != want {
			t.Fatalf("event %d: %v, %q", i, err, got)
		}
	}
	send <- ""
	if rest, err := io.ReadAll(events); err != nil || len(rest) > 0 {
		t.Errorf("after the last event: %q, %v", rest, err)
	}
}

// Property 13: memory does not grow with what passes through, either way.
func TestLargeBodiesTakeLittleMemory(t *testing.T) {
	size := int64(256 << 20)
	if testing.Short() {
		size = 16 << 20
	}
	addr := scriptOrigin(t, func(_ int, c net.Conn, r *bufio.Reader) {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if req.Method == "POST" {
			sum, n := checksum(req.Body)
			answer := fmt.Sprintf("%d %d", n, sum)
			_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer)
			return
		}
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size)
		_, _ = io.Copy(c, &pattern{left: size})
	})
	g := startGateway(t, nil, addr)
	wantSum, _ := checksum(&pattern{left: size})

	peak := watchHeap(t)
	c := dial(t, g.addr)
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
	if _, err := io.WriteString(c, "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if sum, n := checksum(res.Body); n != size || sum != wantSum {
		t.Errorf("downloaded %d bytes with checksum %d, want %d with %d", n, sum, size, wantSum)
	}
	for _, framing := range []string{"Content-Length: " + fmt.Sprint(size), "Transfer-Encoding: chunked"} {
		c := dial(t, g.addr)
		_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
		if _, err := io.WriteString(c, "POST /stream HTTP/1.1\r\nHost: a\r\n"+framing+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		var to io.Writer = c
		if strings.HasPrefix(framing, "T") {
			to = chunkWriter{c}
		}
		if _, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{&pattern{left: size}}, make([]byte, 64<<10)); err != nil {
			t.Fatal(err)
		}
		if to != io.Writer(c) {
			_, _ = io.WriteString(c, "0\r\n\r\n")
		}
		got := readReply(t, bufio.NewReader(c), "POST")
		if want := fmt.Sprintf("%d %d", size, wantSum); string(got.body) != want {
			t.Errorf("uploaded %s, want %s", got.body, want)
		}
	}
	const allowed = 16 << 20
	grown := peak()
	t.Logf("%d MiB down and twice up took at most %.1f MiB of heap more, client and origin included", size>>20, float64(grown)/(1<<20))
	if grown > allowed {
		t.Errorf("the heap grew by %d bytes", grown)
	}
}

// pattern is a reader of bytes that differ from place to place.
type pattern struct{ at, left int64 }

// block has a length that no buffer has, so a piece out of place shows.
var block = func() []byte {
	b := make([]byte, 1_000_003)
	for i := range b {
		b[i] = byte(i * 31 >> 3)
	}
	return b
}()

func (p *pattern) Read(b []byte) (n int, err error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	n = copy(b[:min(int64(len(b)), p.left)], block[p.at%int64(len(block)):])
	p.at += int64(n)
	p.left -= int64(n)
	return n, nil
}

func checksum(r io.Reader) (sum uint32, n int64) {
	table := crc32.MakeTable(crc32.Castagnoli)
	buf := make([]byte, 64<<10)
	for {
		m, err := r.Read(buf)
		sum = crc32.Update(sum, table, buf[:m])
		n += int64(m)
		if err != nil {
			return sum, n
		}
	}
}

// chunkWriter writes each piece as a chunk.
type chunkWriter struct{ io.Writer }

func (w chunkWriter) Write(p []byte) (int, error) {
	if _, err := fmt.Fprintf(w.Writer, "%x\r\n", len(p)); err != nil {
		return 0, err
	}
	if _, err := w.Writer.Write(p); err != nil {
		return 0, err
	}
	_, err := io.WriteString(w.Writer, "\r\n")
	return len(p), err
}

// watchHeap samples the heap until the function it returns is called, which
// tells by how much it grew at most.
func watchHeap(t testing.TB) (peak func() uint64) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse
	}
	runtime.GC()
	first, most := heap(), uint64(0)
	stop, done := make(chan bool), make(chan bool)
	go func() {
		defer close(done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			most = max(most, heap())
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	return func() uint64 {
		close(stop)
		<-done
		return max(most, first) - first
	}
}

// Upload and download at the same time: what has been sent comes back before
// the rest is sent.
func TestBothWaysAtOnce(t *testing.T) {
	baseline(t)
	addr := scriptOrigin(t, func(_ int, c net.Conn, r *bufio.Reader) {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, headTE)
		buf := make([]byte, 1024)
		for {
			n, err := req.Body.Read(buf)
			if n > 0 {
				_, _ = fmt.Fprintf(c, "%x\r\n%s\r\n", n, buf[:n])
			}
			if err != nil {
				break
			}
		}
		_, _ = io.WriteString(c, "0\r\n\r\n")
	})
	g := startGateway(t, nil, addr)
	for _, framing := range []string{"Transfer-Encoding: chunked", "Content-Length: 600"} {
		c := dial(t, g.addr)
		if _, err := io.WriteString(c, "POST /stream HTTP/1.1\r\nHost: a\r\n"+framing+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		var to io.Writer = c
		if framing[0] == 'T' {
			to = chunkWriter{c}
		}
		for i := range 100 {
			want := fmt.Sprintf("%05d\n", i)
			if _, err := io.WriteString(to, want); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(want))
			if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != want {
				t.Fatalf("%s: %v, %q, want %q", framing, err, got, want)
			}
		}
		if framing[0] == 'T' {
			_, _ = io.WriteString(c, "0\r\n\r\n")
		}
		if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
			t.Errorf("%s: at the end %q, %v", framing, rest, err)
		}
	}
	for i, e := range g.waitEvents(t, 2) {
		if e != (event{"answered", "none", 200}) {
			t.Errorf("request %d was reported as %v", i, e)
		}
	}
}

// A client that goes away ends its request at the origin, whatever that is
// doing at the time; and the origin is not to blame.
func TestGoneClientEndsTheOriginsRequest(t *testing.T) {
	const stream = "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n"
	const upload = "POST /stream HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
	for _, tc := range []struct {
		name, request, answer string // the origin is silent after the answer
		flow                  bool   // or it goes on for ever
		then                  string // what the client sends after the answer
		status                int
	}{
		{name: "before the head", request: stream},
		{name: "after the head", request: stream, answer: headTE, status: 200},
		{name: "after an event", request: stream, answer: headTE + "5\r\nhello\r\n", status: 200},
		{name: "while events flow", request: stream, answer: headTE, flow: true, status: 200},
		{name: "amid an upload", request: upload},
		{name: "amid an upload that is being answered", request: upload, answer: headTE + "5\r\nhello\r\n", status: 200},
		{name: "after an upload that was answered early", request: upload, answer: headTE + "5\r\nhello\r\n", then: "0\r\n\r\n", status: 200},
		{name: "after an upload", request: upload + "0\r\n\r\n", answer: headTE + "5\r\nhello\r\n", status: 200},
	} {
		t.Run(tc.name, func(t *testing.T) {
			baseline(t)
			read, uploaded, ended := make(chan bool), make(chan bool), make(chan bool)
			addr := scriptOrigin(t, func(_ int, c net.Conn, r *bufio.Reader) {
				_, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, tc.answer)
				close(read)
				for tc.flow && err == nil {
					_, err = io.WriteString(c, "5\r\nhello\r\n")
				}
				for seen := ""; tc.then != "" && !strings.HasSuffix(seen, tc.then); {
					b, err := r.ReadByte()
					if err != nil {
						return
					}
					seen += string(b)
				}
				close(uploaded)
				_, _ = io.Copy(io.Discard, r) // until the gateway ends it
				close(ended)
			})
			g := startGateway(t, func(_ *Options, p *Policy) {
				p.Routes[1].Timeout, p.Routes[1].BodyTimeout = time.Minute, time.Minute
			}, addr)
			c := dial(t, g.addr)
			if _, err := io.WriteString(c, tc.request); err != nil {
				t.Fatal(err)
			}
			<-read
			if tc.answer != "" {
				got := make([]byte, 12)
				if _, err := io.ReadFull(c, got); err != nil {
					t.Fatal(err)
				}
			}
			if tc.then != "" {
				if _, err := io.WriteString(c, tc.then); err != nil {
					t.Fatal(err)
				}
				<-uploaded
			}
			c.Close()
			select {
			case <-ended:
			case <-time.After(10 * time.Second):
				t.Fatal("the origin's request goes on")
			}
			e := g.waitEvents(t, 1)[0]
			if e.outcome != "unknown" || e.failure == "origin_failed" || e.failure == "origin_timeout" {
				t.Errorf("reported as %v", e)
			}
			if s := g.policy.Origin.Status()[0]; s.LastError != "" {
				t.Errorf("the origin is blamed: %s", s.LastError)
			} else if s.Connections != 0 {
				t.Errorf("a connection whose answer goes on is kept (property 13)")
			}
		})
	}
}
