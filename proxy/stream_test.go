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
	"sync/atomic"
	"testing"
	"time"

	"sluice/admission"
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

// refusing is a gate that says no.
type refusing struct{}

func (refusing) Reserve(time.Time, *admission.Request, *admission.Decision) (admission.Permit, admission.Refusal) {
	return admission.Permit{}, admission.Refusal{Reason: admission.Shed, RetryAfter: 3 * time.Second}
}
func (refusing) GiveBack(time.Time, admission.Permit)               {}
func (refusing) End(time.Time, admission.Permit, admission.Outcome) {}

// Property 3: a client that asks before it uploads is refused before it does.
func TestExpectRefused(t *testing.T) {
	for _, path := range []string{"/pub", "/stream"} {
		for _, framing := range []string{"Content-Length: 5", "Transfer-Encoding: chunked"} {
			t.Run(framing+" to "+path, func(t *testing.T) {
				baseline(t)
				origin := newLedger(t)
				g := startGateway(t, func(_ *Options, p *Policy) {
					p.Controller.Gates = []admission.Gate{refusing{}}
				}, origin.addr)
				c := dial(t, g.addr)
				if _, err := io.WriteString(c, "POST "+path+" HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"+framing+"\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				got := readReply(t, bufio.NewReader(c), "POST")
				if got.StatusCode != 503 || got.reason() != "shed" || !got.Close || got.Header.Get("Retry-After") != "3" {
					t.Errorf("answered with %d %v %s", got.StatusCode, got.Header, got.body)
				}
				if requests, rest := origin.take(); len(requests) > 0 || rest != "" {
					t.Errorf("the origin received %q %q", requests, rest)
				}
			})
		}
	}
}

// A client that asks before it uploads is told to go on, and by us: the origin
// sees no Expect.
func TestExpectAccepted(t *testing.T) {
	for _, path := range []string{"/pub", "/stream"} {
		for _, tc := range []struct{ framing, body string }{{"Content-Length: 5", "hello"}, {"Transfer-Encoding: chunked", chunked5}} {
			t.Run(tc.framing+" to "+path, func(t *testing.T) {
				baseline(t)
				origin := newLedger(t)
				g := startGateway(t, nil, origin.addr)
				c := dial(t, g.addr)
				r := bufio.NewReader(c)
				requests := 2 // on one connection
				if path == "/stream" {
					// An answer may overtake the upload's end, which closes it.
					requests = 1
				}
				for range requests {
					if _, err := io.WriteString(c, "POST "+path+" HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"+tc.framing+"\r\n\r\n"); err != nil {
						t.Fatal(err)
					}
					want := string(continueLine)
					got := make([]byte, len(want))
					if _, err := io.ReadFull(r, got); err != nil || string(got) != want {
						t.Fatalf("told %q, %v", got, err)
					}
					if _, err := io.WriteString(c, tc.body); err != nil {
						t.Fatal(err)
					}
					if got := readReply(t, r, "POST"); got.StatusCode != 200 || got.Close && path == "/pub" {
						t.Errorf("answered with %d %v", got.StatusCode, got.Header)
					}
				}
				received, rest := origin.take()
				if len(received) != requests || rest != "" || strings.Contains(received[0], "Expect") || !strings.Contains(received[requests-1], "hello") {
					t.Errorf("the origin received %q %q", received, rest)
				}
			})
		}
	}
}

// A client that writes its whole request before it reads can read why it was
// refused, ten times of ten.
func TestNaiveClientReadsTooLarge(t *testing.T) {
	const size = 8 << 20
	for _, tc := range []struct{ name, path, framing string }{
		{"counted", "/pub", "Content-Length: " + itoa(size)},
		{"chunked, found out amid the upload", "/pub", "Transfer-Encoding: chunked"},
		{"chunked stream, found out amid the upload", "/stream", "Transfer-Encoding: chunked"},
		{"counted stream", "/stream", "Content-Length: " + itoa(size)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			baseline(t)
			g := startGateway(t, func(_ *Options, p *Policy) { p.Routes[1].MaxBody = 1 << 20 }, newLedger(t).addr)
			for i := range 10 {
				c := dial(t, g.addr)
				if _, err := io.WriteString(c, "POST "+tc.path+" HTTP/1.1\r\nHost: a\r\n"+tc.framing+"\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				var to io.Writer = c
				if tc.framing[0] == 'T' {
					to = chunkWriter{c}
				}
				if _, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{&pattern{left: size}}, make([]byte, 32<<10)); err != nil {
					t.Fatalf("client %d could not write its request: %v", i, err)
				}
				r := bufio.NewReader(c)
				if got := readReply(t, r, "POST"); got.StatusCode != 413 || got.reason() != "too_large" || !got.Close {
					t.Fatalf("client %d was answered with %d %s", i, got.StatusCode, got.body)
				}
				if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
					t.Errorf("client %d: after the answer %q, %v", i, rest, err)
				}
				c.Close()
			}
		})
	}
}

// An origin may answer before it has read the request, and then read no more:
// its answer counts.
func TestEarlyAnswer(t *testing.T) {
	const size = 16 << 20 // more than sockets hold
	const early = "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 5\r\n\r\nearly"
	for _, path := range []string{"/pub", "/stream"} {
		for _, after := range []string{"reads no more", "closes", "reads on"} {
			t.Run(path+" "+after, func(t *testing.T) {
				baseline(t)
				over := make(chan bool)
				addr := scriptOrigin(t, func(_ int, c net.Conn, r *bufio.Reader) {
					if _, err := http.ReadRequest(r); err != nil {
						return
					}
					_, _ = io.WriteString(c, early)
					switch after {
					case "reads no more":
						<-over
					case "reads on":
						_, _ = io.Copy(io.Discard, r)
					}
				})
				g := startGateway(t, func(_ *Options, p *Policy) {
					p.Routes[0].MaxBody, p.Routes[0].BodyTimeout = 2*size, time.Minute
				}, addr)
				c := dial(t, g.addr)
				go func() {
					_, _ = io.WriteString(c, "POST "+path+" HTTP/1.1\r\nHost: a\r\nContent-Length: "+itoa(size)+"\r\n\r\n")
					_, _ = io.Copy(c, &pattern{left: size})
				}()
				got := readReply(t, bufio.NewReader(c), "POST")
				if got.StatusCode != 413 || string(got.body) != "early" {
					t.Errorf("answered with %d %s", got.StatusCode, got.body)
				}
				if e := g.waitEvents(t, 1)[0]; e != (event{"answered", "none", 413}) {
					t.Errorf("reported as %v", e)
				}
				close(over)
			})
		}
	}
}

// The time for an answer begins when the upload ends, however long that took
// and in however many pieces the answer's head comes.
func TestSlowUploadLeavesTimeForTheAnswer(t *testing.T) {
	baseline(t)
	const timeout = 150 * time.Millisecond
	piece := make(chan bool)
	addr := scriptOrigin(t, func(_ int, c net.Conn, r *bufio.Reader) {
		request, err := readWire(r)
		if err != nil || strings.Contains(request, "/mute") {
			_, _ = io.Copy(io.Discard, r)
			return
		}
		for _, s := range []string{"HTTP/1.1 103 Early Hints\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-", "Length: 5\r\n", "\r\nhello"} {
			<-piece
			_, _ = io.WriteString(c, s)
		}
	})
	g := startGateway(t, func(_ *Options, p *Policy) { p.Routes[1].Timeout = timeout }, addr)
	c := dial(t, g.addr)
	if _, err := io.WriteString(c, "POST /stream HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"); err != nil {
		t.Fatal(err)
	}
	// A second request runs into the timeout meanwhile, which proves it is over.
	if got := ask(t, g.addr, "GET /stream/mute HTTP/1.1\r\nHost: a\r\n\r\n"); got.StatusCode != 504 {
		t.Fatalf("answered with %d", got.StatusCode)
	}
	if _, err := io.WriteString(c, "0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	piece <- true
	if got := readReply(t, r, "POST"); got.StatusCode != 103 {
		t.Fatalf("answered with %d %s", got.StatusCode, got.body)
	}
	for range 3 {
		piece <- true
	}
	if got := readReply(t, r, "POST"); got.StatusCode != 200 || string(got.body) != "hello" {
		t.Errorf("answered with %d %s", got.StatusCode, got.body)
	}
}

// Property 1: an origin that breaks off during an upload has failed; it is not
// the client that went away.
func TestOriginEndsDuringUpload(t *testing.T) {
	for _, reset := range []bool{false, true} {
		t.Run(fmt.Sprintf("reset %v", reset), func(t *testing.T) {
			baseline(t)
			var conns atomic.Int32
			addr := scriptOrigin(t, func(_ int, c net.Conn, r *bufio.Reader) {
				conns.Add(1)
				if _, err := http.ReadRequest(r); err != nil {
					return
				}
				if reset {
					_ = c.(*net.TCPConn).SetLinger(0)
				}
			})
			g := startGateway(t, nil, addr)
			c := dial(t, g.addr)
			go func() {
				_, _ = io.WriteString(c, "POST /stream HTTP/1.1\r\nHost: a\r\nContent-Length: "+itoa(32<<20)+"\r\n\r\n")
				_, _ = io.Copy(c, &pattern{left: 32 << 20})
			}()
			got := readReply(t, bufio.NewReader(c), "POST")
			if got.StatusCode != 502 || got.reason() != "origin_failed" || !got.Close {
				t.Errorf("answered with %d %s", got.StatusCode, got.body)
			}
			if e := g.waitEvents(t, 1)[0]; e != (event{"unknown", "origin_failed", 502}) {
				t.Errorf("reported as %v", e)
			}
			if n := conns.Load(); n != 1 {
				t.Errorf("the origin saw %d connections", n)
			}
		})
	}
}

const (
	upgradeRequest = "GET /stream/ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n\r\n"
	upgradeAnswer  = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n"
)

// webSocketOrigin switches protocols, says hello in the same breath, and then
// gives everything back.
func webSocketOrigin(t testing.TB) string {
	return scriptOrigin(t, func(_ int, c net.Conn, r *bufio.Reader) {
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		_, _ = io.WriteString(c, upgradeAnswer+"hello from the origin;")
		// Hidden, so that no pipe is opened to splice through, and kept.
		_, _ = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{r})
	})
}

// A switched connection carries bytes both ways, early ones included, until
// both sides have ended.
func TestUpgrade(t *testing.T) {
	baseline(t)
	g := startGateway(t, nil, webSocketOrigin(t))
	c := dial(t, g.addr)
	if _, err := io.WriteString(c, upgradeRequest+"early;"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != 101 || res.Header.Get("Upgrade") != "websocket" || res.Header.Get("Connection") != "Upgrade" || res.Header.Get("Sec-WebSocket-Accept") != "x" {
		t.Errorf("answered with %d %v", res.StatusCode, res.Header)
	}
	expect := func(want string) {
		t.Helper()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(r, got); err != nil || string(got) != want {
			t.Fatalf("%v, %q, want %q", err, got, want)
		}
	}
	expect("hello from the origin;early;")
	for i := range 50 {
		message := fmt.Sprintf("message %d; GET / HTTP/1.1\r\n\r\n", i)
		if _, err := io.WriteString(c, message); err != nil {
			t.Fatal(err)
		}
		expect(message)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Errorf("at the end %q, %v", rest, err)
	}
	if e := g.waitEvents(t, 1)[0]; e != (event{"answered", "none", 101}) {
		t.Errorf("reported as %v", e)
	}
	stillWorksAfterUpgrade(t, g)
}

func stillWorksAfterUpgrade(t testing.TB, g *gateway) {
	t.Helper()
	if s := g.policy.Origin.Status()[0]; s.Connections != 0 {
		t.Errorf("%d connections are kept of a switched one", s.Connections)
	}
}

// A tunnel whose client resets, or whose origin ends, ends.
func TestUpgradeEnds(t *testing.T) {
	for _, by := range []string{"client resets", "client closes", "origin ends"} {
		t.Run(by, func(t *testing.T) {
			baseline(t)
			ended := make(chan bool)
			addr := scriptOrigin(t, func(_ int, c net.Conn, r *bufio.Reader) {
				if _, err := http.ReadRequest(r); err != nil {
					return
				}
				_, _ = io.WriteString(c, upgradeAnswer)
				if by != "origin ends" {
					_, _ = io.Copy(io.Discard, r)
				}
				close(ended)
			})
			g := startGateway(t, nil, addr)
			c := dial(t, g.addr)
			if _, err := io.WriteString(c, upgradeRequest); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(upgradeAnswer))
			if _, err := io.ReadFull(c, got); err != nil || string(got) != upgradeAnswer {
				t.Fatalf("%v %q", err, got)
			}
			switch by {
			case "client resets":
				_ = c.(*net.TCPConn).SetLinger(0)
				c.Close()
			case "client closes":
				c.Close()
			case "origin ends":
				if rest, err := io.ReadAll(c); err != nil || len(rest) > 0 {
					t.Errorf("%q, %v", rest, err)
				}
				c.Close()
			}
			<-ended
			g.waitEvents(t, 1)
		})
	}
}

// A route without upgrades passes the request on as a plain one, and an origin
// that switches all the same has failed.
func TestUpgradeNotAllowed(t *testing.T) {
	baseline(t)
	g := startGateway(t, nil, webSocketOrigin(t))
	got := ask(t, g.addr, strings.ReplaceAll(upgradeRequest, "/stream", "/pub"))
	if got.StatusCode != 502 || got.reason() != "origin_failed" {
		t.Errorf("answered with %d %s", got.StatusCode, got.body)
	}
}
