package proxy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// ledger is an origin that keeps every byte it is sent. It answers each
// request with 200 and an empty body.
type ledger struct {
	addr string

	mu       sync.Mutex
	requests []string // head and body as they were sent, framing included
	rest     bytes.Buffer
	conns    int
}

func newLedger(t testing.TB) *ledger {
	l := &ledger{}
	l.addr = scriptOrigin(t, func(_ int, c net.Conn, r *bufio.Reader) {
		l.mu.Lock()
		l.conns++
		l.mu.Unlock()
		for {
			request, err := readWire(r)
			l.mu.Lock()
			if err == nil {
				l.requests = append(l.requests, request)
			} else {
				l.rest.WriteString(request)
			}
			l.mu.Unlock()
			if err != nil {
				return
			}
			if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
				return
			}
		}
	})
	return l
}

// take returns the requests received since the last call, and any bytes that
// were no complete request.
func (l *ledger) take() (requests []string, rest string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	requests, rest = l.requests, l.rest.String()
	l.requests = nil
	l.rest.Reset()
	return requests, rest
}

// readWire reads one request byte for byte: head and body, with its framing.
// It is written for these tests alone and shares no code with what it tests.
func readWire(r *bufio.Reader) (string, error) {
	var b strings.Builder
	length, chunked := 0, false
	line := func() (string, error) {
		s, err := r.ReadString('\n')
		b.WriteString(s)
		return s, err
	}
	for {
		s, err := line()
		if err != nil {
			return b.String(), err
		}
		if s == "\r\n" {
			break
		}
		name, value, _ := strings.Cut(s, ":")
		switch strings.ToLower(name) {
		case "content-length":
			length = number(strings.TrimSpace(value), 10)
		case "transfer-encoding":
			chunked = true
		}
	}
	body := func(n int) error {
		p := make([]byte, n)
		n, err := io.ReadFull(r, p)
		b.Write(p[:n])
		return err
	}
	if !chunked {
		err := body(length)
		return b.String(), err
	}
	for {
		s, err := line()
		if err != nil {
			return b.String(), err
		}
		size, _, _ := strings.Cut(strings.TrimSpace(s), ";")
		n := number(size, 16)
		if err := body(n + 2); err != nil {
			return b.String(), err
		}
		if n == 0 {
			return b.String(), nil
		}
	}
}

func number(s string, base int) (n int) {
	for _, c := range strings.ToLower(s) {
		n = n*base + strings.IndexRune("0123456789abcdef", c)
	}
	return n
}

// reply is one answer as a client reads it.
type reply struct {
	*http.Response
	body []byte
}

// reason is the problem document's reason; "" where it is none.
func (r reply) reason() string {
	var p struct{ Reason string }
	_ = json.Unmarshal(r.body, &p)
	return p.Reason
}

// readReply reads one answer to a request with the given method.
func readReply(t testing.TB, r *bufio.Reader, method string) reply {
	t.Helper()
	got, err := tryReply(r, method)
	if err != nil {
		t.Fatalf("no complete answer: %v (so far: %v %q)", err, got.Response, got.body)
	}
	return got
}

func tryReply(r *bufio.Reader, method string) (reply, error) {
	res, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return reply{res, body}, err
}

// ask sends one request on a connection of its own and reads its answer.
func ask(t testing.TB, addr, request string) reply {
	t.Helper()
	c := dial(t, addr)
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	return readReply(t, bufio.NewReader(c), method)
}

// stillWorks proves that a gateway serves requests after whatever a test did
// to it. The origin must echo or answer plain requests to /ok.
func stillWorks(t testing.TB, g *gateway) {
	t.Helper()
	for _, path := range []string{"/pub/ok", "/stream/ok"} {
		if got := ask(t, g.addr, "GET "+path+" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"); got.StatusCode != 200 {
			t.Errorf("afterwards %s is answered with %d %s", path, got.StatusCode, got.body)
		}
	}
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("it never came about that %s", what)
		}
		runtime.Gosched()
		<-time.After(time.Millisecond)
	}
}

// events waits until the gateway has reported n requests, and returns them.
func (g *gateway) waitEvents(t testing.TB, n int) []event {
	t.Helper()
	eventually(t, itoa(n)+" requests have been reported", func() bool { return len(g.events.all()) >= n })
	list := g.events.all()
	if len(list) > n {
		t.Errorf("%d requests were reported, want %d", len(list), n)
	}
	if begun := g.events.begun.Load(); begun != int64(len(list)) {
		t.Errorf("%d requests began and %d were reported (property 15)", begun, len(list))
	}
	out := make([]event, len(list))
	for i, e := range list {
		out[i] = event{e.Outcome.String(), e.Failure.String(), e.Status}
	}
	return out
}

// event is what most tests look at in a report.
type event struct {
	outcome, failure string
	status           int
}

// baseline notes the goroutines and file descriptors there are, and checks at
// the end of the test, after everything the test started has been stopped, that
// no more are left. Call it before starting anything.
func baseline(t testing.TB) {
	t.Helper()
	fds := openFiles()
	goroutines := ourGoroutines()
	t.Cleanup(func() {
		ok := func() bool { return openFiles() <= fds && ourGoroutines() <= goroutines }
		for end := time.Now().Add(15 * time.Second); !ok() && time.Now().Before(end); {
			<-time.After(5 * time.Millisecond)
		}
		if now := openFiles(); now > fds {
			t.Errorf("%d file descriptors are open, %d were before", now, fds)
		}
		if now := ourGoroutines(); now > goroutines {
			buf := make([]byte, 1<<20)
			t.Errorf("%d goroutines of the proxy are left, %d were before:\n%s", now, goroutines, buf[:runtime.Stack(buf, true)])
		}
	})
}

func openFiles() int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0 // no such view on this system: only goroutines are compared
	}
	return len(list)
}

// ourGoroutines counts goroutines that run code of this package. fasthttp's
// housekeeping goroutines end on their own schedule and hold nothing of ours.
func ourGoroutines() (n int) {
	buf := make([]byte, 4<<20)
	buf = buf[:runtime.Stack(buf, true)]
	for _, g := range strings.Split(string(buf), "\n\n") {
		if strings.Contains(g, "sluice/proxy.") && !strings.Contains(g, "testing.tRunner") {
			n++
		}
	}
	return n
}
