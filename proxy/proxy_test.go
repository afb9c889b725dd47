package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/admission"
)

func TestRoundTrip(t *testing.T) {
	g := startGateway(t, nil, echoOrigin(t))
	for _, path := range []string{"/pub?a=b", "/stream", "/elsewhere"} {
		got := raw(t, g.addr, "POST "+path+" HTTP/1.1\r\nHost: api.example\r\nX-Tenant-Id: acme\r\nCookie: a=\"1\"; =x\r\nx-lOwEr: v\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello")
		t.Log(got)
		if !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") || !strings.HasSuffix(got, "hello") {
			t.Errorf("%s: unexpected answer", path)
		}
	}
}

func TestKeepAliveAndPipelining(t *testing.T) {
	g := startGateway(t, nil, echoOrigin(t))
	c := dial(t, g.addr)
	one := "POST /pub HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"
	two := "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n"
	if _, err := io.WriteString(c, one+two+one); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	for i, want := range []string{"abcde", "\r\n\r\n", "abcde"} {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || !strings.HasSuffix(string(body), want) {
			t.Errorf("answer %d: %v %q", i, err, body)
		}
	}
}

// Property 3: a request for which no connection is free is refused, and has
// changed nothing.
func TestNoConnectionToBeHad(t *testing.T) {
	entered, release := make(chan bool, 1), make(chan bool)
	addr := scriptOrigin(t, func(_ int, c net.Conn, r *bufio.Reader) {
		if _, _, err := readRawRequest(r); err == nil {
			entered <- true
			<-release
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	gate := &countingGate{}
	g := startGateway(t, func(_ *Options, p *Policy) {
		origin, err := NewOrigin(OriginOptions{URLs: []string{"http://" + addr}, ConnectTimeout: time.Second, MaxConnections: 1, IdleTimeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		p.Origin = origin
		p.Controller.Gates = []admission.Gate{gate}
	}, addr)
	request := "POST /pub HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx"
	first := make(chan string)
	go func() { first <- raw(t, g.addr, request) }()
	<-entered
	if got := raw(t, g.addr, request); !strings.HasPrefix(got, "HTTP/1.1 503 ") || !strings.Contains(got, `"reason":"origin_full"`) || !strings.Contains(got, "\r\nRetry-After: 1\r\n") {
		t.Errorf("got %s", got)
	}
	events := g.events.all()
	if len(events) != 1 || events[0].Decision.Verdict != admission.Refuse || events[0].Decision.Reason != admission.OriginFull || events[0].Outcome != admission.NotTried {
		t.Errorf("observed: %+v", events)
	}
	close(release)
	if got := <-first; !strings.HasPrefix(got, "HTTP/1.1 200 ") {
		t.Errorf("the first got %s", got)
	}
	if reserved, back, ended := gate.reserved.Load(), gate.back.Load(), gate.ended.Load(); reserved != 2 || back != 1 || ended != 1 {
		t.Errorf("%d reserved, %d given back, %d ended", reserved, back, ended)
	}
}

// countingGate lets everything pass and counts.
type countingGate struct{ reserved, back, ended atomic.Int64 }

func (g *countingGate) Anticipate(*admission.Request) {}

func (g *countingGate) Reserve(time.Time, *admission.Request, *admission.Decision) (admission.Permit, admission.Refusal) {
	g.reserved.Add(1)
	return admission.Permit{Ref: g}, admission.Refusal{}
}

func (g *countingGate) GiveBack(time.Time, admission.Permit) { g.back.Add(1) }

func (g *countingGate) End(time.Time, admission.Permit, admission.Outcome) { g.ended.Add(1) }
