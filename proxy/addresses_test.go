package proxy

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/admission"
)

// closedPort is an address at which nobody listens.
func closedPort(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// What was not sent is tried once more at another address, and an address that
// keeps failing is left out for a while.
func TestSeveralAddresses(t *testing.T) {
	dead, alive := closedPort(t), echoOrigin(t)
	g := startGateway(t, func(_ *Options, p *Policy) {
		origin, err := NewOrigin(OriginOptions{
			URLs: []string{"http://" + dead, "http://" + alive}, ConnectTimeout: time.Second, MaxConnections: 8,
			IdleTimeout: time.Second, EjectAfter: 3, EjectFor: time.Hour,
		})
		if err != nil {
			t.Fatal(err)
		}
		p.Origin = origin
	}, alive)
	for i := range 20 {
		got := raw(t, g.addr, "POST /pub HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi")
		if !strings.HasPrefix(got, "HTTP/1.1 200 ") {
			t.Fatalf("request %d: %s", i, got)
		}
	}
	status := g.policy.Origin.Status()
	if status[0].InUse || !status[1].InUse || status[0].LastError == "" {
		t.Errorf("status: %+v", status)
	}
	for _, e := range g.events.all() {
		if e.Outcome != admission.Answered || e.Failure != admission.None {
			t.Errorf("observed: %+v", e)
		}
	}
}

// Where every address is left out, the origin is tried all the same.
func TestAllAddressesFail(t *testing.T) {
	g := startGateway(t, nil, closedPort(t), closedPort(t))
	for range 10 {
		got := raw(t, g.addr, "GET /pub HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 502 ") || !strings.Contains(got, `"reason":"origin_unreachable"`) || !strings.Contains(got, "Retry-After: ") {
			t.Fatalf("got %s", got)
		}
	}
	for _, e := range g.events.all() {
		if e.Outcome != admission.NotSent {
			t.Errorf("observed: %+v", e)
		}
	}
}

// The active health check takes an address out of use while it says that it is
// not well, and back.
func TestHealthCheck(t *testing.T) {
	var well atomic.Bool
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" || !well.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer origin.Close()
	o, err := NewOrigin(OriginOptions{URLs: []string{origin.URL}, ConnectTimeout: time.Second, MaxConnections: 8, IdleTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		HealthCheck{Path: "/healthz", Every: 5 * time.Millisecond, Timeout: 5 * time.Second}.Run(ctx, o, slog.New(slog.DiscardHandler))
	}()
	for _, want := range []bool{false, true, false} {
		well.Store(want)
		eventually(t, "the address is in or out of use", func() bool { return o.Status()[0].InUse == want })
	}
	stop()
	<-done
	if !o.Status()[0].InUse {
		t.Error("out of use without a health check that says so")
	}
}

// A connection older than allowed is replaced, so that a changed DNS entry is
// followed; one within its age is kept.
func TestConnectionAge(t *testing.T) {
	for age, want := range map[time.Duration]int64{time.Nanosecond: 3, time.Hour: 1} {
		var conns atomic.Int64
		addr := scriptOrigin(t, func(_ int, c net.Conn, r *bufio.Reader) {
			conns.Add(1)
			for {
				if _, _, err := readRawRequest(r); err != nil {
					return
				}
				if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
					return
				}
			}
		})
		g := startGateway(t, func(_ *Options, p *Policy) {
			origin, err := NewOrigin(OriginOptions{
				URLs: []string{"http://" + addr}, ConnectTimeout: time.Second, MaxConnections: 8, IdleTimeout: time.Minute, MaxConnectionAge: age,
			})
			if err != nil {
				t.Fatal(err)
			}
			p.Origin = origin
		}, addr)
		for range 3 {
			if got := raw(t, g.addr, "GET /pub HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
				t.Fatal(got)
			}
		}
		if got := conns.Load(); got != want {
			t.Errorf("at most %v old: %d connections for 3 requests, want %d", age, got, want)
		}
	}
}
