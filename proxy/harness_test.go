package proxy

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/admission"
)

// gateway is a Server on a loopback port in front of an origin.
type gateway struct {
	*Server
	addr   string
	policy *Policy
	events *recorder
}

// startGateway starts a gateway in front of the given origin addresses. edit
// may change its options and policy.
func startGateway(t testing.TB, edit func(*Options, *Policy), origins ...string) *gateway {
	t.Helper()
	urls := make([]string, len(origins))
	for i, o := range origins {
		urls[i] = "http://" + o
	}
	if len(urls) == 0 {
		urls = []string{"http://127.0.0.1:1"} // edit sets another origin
	}
	origin, err := NewOrigin(OriginOptions{
		URLs: urls, ConnectTimeout: time.Second, MaxConnections: 512, IdleTimeout: 30 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	events := &recorder{}
	opts := Options{
		Limits: Limits{
			Target: 8 << 10, Headers: 16 << 10,
			HeaderTimeout: 2 * time.Second, IdleTimeout: 10 * time.Second, WriteTimeout: 5 * time.Second,
		},
		Via: "sluice", Observer: events, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	buffered := RoutePolicy{MaxBody: 1 << 20, MaxAnswer: 8 << 20, Timeout: 2 * time.Second, BodyTimeout: 2 * time.Second}
	streamed := RoutePolicy{Stream: true, Upgrade: true, Timeout: 2 * time.Second, BodyTimeout: 2 * time.Second}
	policy := &Policy{
		Controller: &admission.Controller{Classifier: byPrefix{}, Identifier: byHeader{}},
		Origin:     origin,
		Routes:     []RoutePolicy{buffered, streamed},
		Unmatched:  streamed,
		Classes:    []string{"critical", "standard"},
		XForwarded: true,
		RateLimit:  true,
	}
	if edit != nil {
		edit(&opts, policy)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{Server: NewServer(opts, policy), addr: ln.Addr().String(), policy: policy, events: events}
	served := make(chan error, 1)
	go func() { served <- g.Serve(ln) }()
	t.Cleanup(func() {
		g.Drain()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := g.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		origin.Close()
	})
	return g
}

// routes of the tests: /pub is buffered, /stream is streamed, all else unmatched.
var (
	routePub    = &admission.Route{ID: "pub", Index: 0, Class: 1, Cost: 1}
	routeStream = &admission.Route{ID: "stream", Index: 1, Class: 0, Cost: 1}
)

type byPrefix struct{}

func (byPrefix) Route(r *admission.Request) admission.Refusal {
	switch {
	case strings.HasPrefix(r.Path, "/pub"):
		r.Route = routePub
	case strings.HasPrefix(r.Path, "/stream"):
		r.Route = routeStream
	}
	return admission.Refusal{}
}

func (byPrefix) Class(r *admission.Request) { r.Class = r.Route.Class }

type byHeader struct{}

func (byHeader) Identify(r *admission.Request) admission.Refusal {
	r.Tenant, _ = r.Header.Get("X-Tenant-Id")
	if r.Tenant == "" {
		r.Tenant = "anonymous"
	}
	return admission.Refusal{}
}

// recorder is an observer that keeps what it is told.
type recorder struct {
	begun atomic.Int64
	mu    sync.Mutex
	list  []admission.Event
}

func (r *recorder) Begin() { r.begun.Add(1) }

func (r *recorder) Observe(e *admission.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := *e
	kept.Request = nil
	r.list = append(r.list, kept)
}

func (r *recorder) all() []admission.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]admission.Event(nil), r.list...)
}

// scriptOrigin is an origin that runs the given script on each connection.
func scriptOrigin(t testing.TB, script func(n int, c net.Conn, r *bufio.Reader)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	wg.Add(1)
	go func() {
		defer wg.Done()
		for n := 0; ; n++ {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[c] = true
			mu.Unlock()
			wg.Add(1)
			go func() {
				defer wg.Done()
				defer c.Close()
				script(n, c, bufio.NewReader(c))
			}()
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return ln.Addr().String()
}

// readRawRequest reads one request off r as bytes: its head, and its body.
func readRawRequest(r *bufio.Reader) (head, body string, err error) {
	var b strings.Builder
	for {
		line, err := r.ReadString('\n')
		b.WriteString(line)
		if err != nil {
			return b.String(), "", err
		}
		if line == "\r\n" {
			break
		}
	}
	head = b.String()
	req, err := http.ReadRequest(bufio.NewReader(io.MultiReader(strings.NewReader(head), r)))
	if err != nil {
		return head, "", err
	}
	got, err := io.ReadAll(req.Body)
	return head, string(got), err
}

// echoOrigin answers every request with what it received.
func echoOrigin(t testing.TB) string {
	return scriptOrigin(t, func(_ int, c net.Conn, r *bufio.Reader) {
		for {
			head, body, err := readRawRequest(r)
			if err != nil {
				return
			}
			answer := head + body
			if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: "+
				itoa(len(answer))+"\r\n\r\n"+answer); err != nil {
				return
			}
		}
	})
}

func itoa(n int) string { return string(appendInt(nil, n)) }

func appendInt(b []byte, n int) []byte {
	if n >= 10 {
		b = appendInt(b, n/10)
	}
	return append(b, byte('0'+n%10))
}

// raw sends bytes to addr and returns everything that comes back until the
// connection ends.
func raw(t testing.TB, addr, request string) string {
	t.Helper()
	c := dial(t, addr)
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(c)
	return string(got)
}

func dial(t testing.TB, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	t.Cleanup(func() { c.Close() })
	return c
}
