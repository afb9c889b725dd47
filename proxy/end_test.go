package proxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// heldOrigin answers requests when it is told to.
type heldOrigin struct {
	addr    string
	arrived chan string
	answer  chan bool
}

func newHeldOrigin(t testing.TB) *heldOrigin {
	h := &heldOrigin{arrived: make(chan string, 100), answer: make(chan bool)}
	h.addr = scriptOrigin(t, func(_ int, c net.Conn, r *bufio.Reader) {
		for {
			request, err := readWire(r)
			if err != nil {
				return
			}
			h.arrived <- request
			select {
			case <-h.answer:
			case <-t.Context().Done():
				return
			}
			if _, err := io.WriteString(c, head5+"hello"); err != nil {
				return
			}
		}
	})
	return h
}

// Property 11: while draining, everything that comes is still served, and every
// answer closes its connection so that clients move on.
func TestDrain(t *testing.T) {
	baseline(t)
	g := startGateway(t, nil, newPlayer(t, nil).addr)
	const ok = "GET /pub/ok HTTP/1.1\r\nHost: a\r\n\r\n"
	kept := dial(t, g.addr)
	r := bufio.NewReader(kept)
	if _, err := io.WriteString(kept, ok); err != nil {
		t.Fatal(err)
	}
	if got := readReply(t, r, "GET"); got.StatusCode != 200 || got.Close {
		t.Errorf("before: answered with %d %v", got.StatusCode, got.Header)
	}
	silent := dial(t, g.addr)
	g.Drain()
	for name, c := range map[string]net.Conn{"kept": kept, "opened before": silent, "opened since": dial(t, g.addr)} {
		if _, err := io.WriteString(c, ok); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(c)
		if got := readReply(t, r, "GET"); got.StatusCode != 200 || !got.Close {
			t.Errorf("on a connection %s: answered with %d %v", name, got.StatusCode, got.Header)
		}
		if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
			t.Errorf("on a connection %s: then %q, %v", name, rest, err)
		}
	}
}

// Property 11: Shutdown lets what has begun come to its end: a request at the
// origin, a head or a body that is arriving, a request already in the socket of
// an idle connection. Idle connections close at once.
func TestShutdownFinishesWhatHasBegun(t *testing.T) {
	baseline(t)
	h := newHeldOrigin(t)
	g := startGateway(t, nil, h.addr)
	const head = "POST /pub HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n"
	running := []struct {
		name, first, rest string
		c                 net.Conn
	}{
		{name: "at the origin", first: head + "0123456789"},
		{name: "in its head", first: head[:20], rest: head[20:] + "0123456789"},
		{name: "in its body", first: head + "01234", rest: "56789"},
	}
	for i := range running {
		running[i].c = dial(t, g.addr)
		if _, err := io.WriteString(running[i].c, running[i].first); err != nil {
			t.Fatal(err)
		}
	}
	idle := dial(t, g.addr)
	<-h.arrived
	eventually(t, "all connections are known, and those with a head busy", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		busy := 0
		for c := range g.conns {
			if c.state.Load() != connIdle {
				busy++
			}
		}
		return len(g.conns) == 4 && busy == 3
	})
	g.Drain()
	over := make(chan error)
	go func() { over <- g.Shutdown(context.Background()) }()
	if rest, err := io.ReadAll(idle); err != nil || len(rest) > 0 {
		t.Errorf("an idle connection was told %q, %v", rest, err)
	}
	if c, err := net.Dial("tcp", g.addr); err == nil {
		c.Close()
		t.Error("a new connection was accepted")
	}
	for _, r := range running {
		if _, err := io.WriteString(r.c, r.rest); err != nil {
			t.Errorf("%s: %v", r.name, err)
		}
	}
	for range running {
		h.answer <- true
	}
	for _, r := range running {
		got := readReply(t, bufio.NewReader(r.c), "POST")
		if got.StatusCode != 200 || string(got.body) != "hello" || !got.Close {
			t.Errorf("a request %s was answered with %d %s", r.name, got.StatusCode, got.body)
		}
	}
	if err := <-over; err != nil {
		t.Error(err)
	}
	g.waitEvents(t, len(running))
}

// Property 11: a request that lies in the socket of an idle connection when
// that is woken is served.
func TestShutdownServesWhatIsThere(t *testing.T) {
	baseline(t)
	g := startGateway(t, nil, newPlayer(t, nil).addr)
	g.Drain()
	for range 200 {
		c := dial(t, g.addr)
		eventually(t, "the connection is open", func() bool { return g.Connections() == 1 })
		if _, err := io.WriteString(c, "GET /pub/ok HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		g.wakeIdle()
		if got := readReply(t, bufio.NewReader(c), "GET"); got.StatusCode != 200 || !got.Close {
			t.Fatalf("answered with %d", got.StatusCode)
		}
		c.Close()
		eventually(t, "the connection is gone", func() bool { return g.Connections() == 0 })
	}
}

// Property 11: what does not end by itself is cut off at the deadline, and says
// so: a tunnel, a stream, a request that the origin sits on. Each is reported.
func TestShutdownCutsOff(t *testing.T) {
	for _, tc := range []struct{ name, request, want string }{
		{"tunnel", upgradeRequest, upgradeAnswer},
		{"stream", "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n", ""},
		{"held request", get(""), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			baseline(t)
			begun, ended := make(chan bool), make(chan bool)
			addr := scriptOrigin(t, func(_ int, c net.Conn, r *bufio.Reader) {
				if _, err := readWire(r); err != nil {
					return
				}
				_, _ = io.WriteString(c, tc.want)
				close(begun)
				_, _ = io.Copy(io.Discard, r)
				close(ended)
			})
			g := startGateway(t, func(_ *Options, p *Policy) {
				for i := range p.Routes {
					p.Routes[i].Timeout = time.Second
				}
			}, addr)
			c := dial(t, g.addr)
			if _, err := io.WriteString(c, tc.request); err != nil {
				t.Fatal(err)
			}
			<-begun
			if tc.want != "" {
				got := make([]byte, len(tc.want))
				if _, err := io.ReadFull(c, got); err != nil || string(got) != tc.want {
					t.Fatalf("%v %q", err, got)
				}
			}
			g.Drain()
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			if err := g.Shutdown(ctx); err == nil || !strings.Contains(err.Error(), "cut off") {
				t.Errorf("Shutdown says %v", err)
			}
			_, _ = io.ReadAll(c)
			<-ended
			g.waitEvents(t, 1)
		})
	}
}

// Connections are limited in all and by client, and who is turned away can read
// why; who leaves makes room.
func TestConnectionLimits(t *testing.T) {
	for _, tc := range []struct {
		name string
		set  func(*Limits)
	}{
		{"in all", func(l *Limits) { l.Connections = 5 }},
		{"per client", func(l *Limits) { l.PerClient = 5 }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			baseline(t)
			g := startGateway(t, func(o *Options, _ *Policy) { tc.set(&o.Limits) }, newPlayer(t, nil).addr)
			var held []net.Conn
			for range 5 {
				held = append(held, dial(t, g.addr))
			}
			eventually(t, "five connections are open", func() bool { return g.Connections() == 5 })
			for i := range 10 {
				c := dial(t, g.addr)
				if i%2 == 0 {
					// Some clients have sent their request before they are turned away.
					if _, err := io.WriteString(c, post("Content-Length: 5\r\n", "hello")); err != nil {
						t.Fatal(err)
					}
				}
				r := bufio.NewReader(c)
				got := readReply(t, r, "GET")
				if got.StatusCode != 503 || got.reason() != "too_many_connections" || !got.Close || got.Header.Get("Retry-After") == "" {
					t.Errorf("answered with %d %v %s", got.StatusCode, got.Header, got.body)
				}
				if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
					t.Errorf("after the answer %q, %v", rest, err)
				}
				c.Close()
			}
			if n := g.TurnedAway(); n != 10 {
				t.Errorf("%d were turned away, want 10", n)
			}
			for i, c := range held { // they are served all the same
				if _, err := io.WriteString(c, "GET /pub/ok HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				if got := readReply(t, bufio.NewReader(c), "GET"); got.StatusCode != 200 {
					t.Errorf("held connection %d: answered with %d", i, got.StatusCode)
				}
			}
			held[0].Close()
			eventually(t, "there is room", func() bool { return g.Connections() == 4 })
			if got := ask(t, g.addr, "GET /pub/ok HTTP/1.1\r\nHost: a\r\n\r\n"); got.StatusCode != 200 {
				t.Errorf("with room again: answered with %d", got.StatusCode)
			}
			g.waitEvents(t, 6)
		})
	}
}

// Property 10: limits and policy are swapped under running connections.
func TestReloadUnderConnections(t *testing.T) {
	baseline(t)
	g := startGateway(t, nil, newPlayer(t, nil).addr)
	c := dial(t, g.addr)
	r := bufio.NewReader(c)
	long := "GET /pub/ok?" + strings.Repeat("x", 500) + "/ok HTTP/1.1\r\nHost: a\r\n\r\n"
	long = strings.Replace(long, "?", "/", 1)
	if _, err := io.WriteString(c, long); err != nil {
		t.Fatal(err)
	}
	if got := readReply(t, r, "GET"); got.StatusCode != 200 {
		t.Fatalf("answered with %d %s", got.StatusCode, got.body)
	}
	limits := *g.limits.Load()
	limits.Target = 100
	g.SetLimits(limits)
	if _, err := io.WriteString(c, long); err != nil {
		t.Fatal(err)
	}
	if got := readReply(t, r, "GET"); got.StatusCode != 414 {
		t.Errorf("answered with %d", got.StatusCode)
	}
}

// Property 13: a large head leaves the request behind it whole.
func TestRequestBehindALargeHead(t *testing.T) {
	baseline(t)
	origin := newLedger(t)
	g := startGateway(t, func(o *Options, _ *Policy) { o.Limits.Headers = 1 << 20 }, origin.addr)
	c := dial(t, g.addr)
	large := get("X: " + strings.Repeat("x", 200<<10) + "\r\n")
	go func() { _, _ = io.WriteString(c, strings.Repeat(large+next, 3)) }()
	r := bufio.NewReader(c)
	for i := range 6 {
		if got := readReply(t, r, "GET"); got.StatusCode != 200 {
			t.Fatalf("request %d was answered with %d %s", i, got.StatusCode, got.body)
		}
	}
	if requests, rest := origin.take(); len(requests) != 6 || rest != "" || !strings.HasPrefix(requests[5], "GET /pub/smuggled HTTP/1.1\r\n") {
		t.Errorf("the origin received %d requests and %q", len(requests), rest)
	}
}
