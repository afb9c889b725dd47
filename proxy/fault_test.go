package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/admission"
	"sluice/internal/testcert"
)

// counting is a gate that counts how its permits end.
type counting struct {
	mu          sync.Mutex
	reserved    int64
	back, ended map[int64]int
	outcomes    []admission.Outcome
	panicIn     string // "reserve", "give back" or "end"; "" never
}

func newCounting(panicIn string) *counting {
	return &counting{back: map[int64]int{}, ended: map[int64]int{}, panicIn: panicIn}
}

func (g *counting) Anticipate(*admission.Request) {}

func (g *counting) Reserve(time.Time, *admission.Request, *admission.Decision) (admission.Permit, admission.Refusal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.panicIn == "reserve" {
		panic("a bug in Reserve")
	}
	g.reserved++
	return admission.Permit{Ref: g, Amount: g.reserved}, admission.Refusal{}
}

func (g *counting) GiveBack(_ time.Time, p admission.Permit) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.back[p.Amount]++
	if g.panicIn == "give back" {
		panic("a bug in GiveBack")
	}
}

func (g *counting) End(_ time.Time, p admission.Permit, o admission.Outcome) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended[p.Amount]++
	g.outcomes = append(g.outcomes, o)
	if g.panicIn == "end" {
		panic("a bug in End")
	}
}

// check checks that every permit has ended once, and how often each way.
func (g *counting) check(t *testing.T, back, ended int) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.back) != back || len(g.ended) != ended || int(g.reserved) != back+ended {
		t.Errorf("of %d permits %d were given back and %d ended, want %d and %d", g.reserved, len(g.back), len(g.ended), back, ended)
	}
	for n := range g.reserved {
		if times := g.back[n+1] + g.ended[n+1]; times != 1 {
			t.Errorf("permit %d ended %d times (property 4)", n+1, times)
		}
	}
}

// panicky panics where a test says so.
type panicky struct {
	byPrefix
	byHeader
	*recorder
	in string
}

func (p panicky) at(where string) {
	if p.in == where {
		panic("a bug in " + where)
	}
}

func (p panicky) Route(r *admission.Request) admission.Refusal {
	p.at("Route")
	return p.byPrefix.Route(r)
}

func (p panicky) Identify(r *admission.Request) admission.Refusal {
	p.at("Identify")
	return p.byHeader.Identify(r)
}

func (p panicky) Class(r *admission.Request) { p.at("Class"); p.byPrefix.Class(r) }
func (p panicky) Begin()                     { p.recorder.Begin(); p.at("Begin") }
func (p panicky) Observe(e *admission.Event) { p.at("Observe"); p.recorder.Observe(e) }

// logged is a log handler that keeps what is logged.
type logged struct {
	mu   sync.Mutex
	list []string
}

func (l *logged) Enabled(context.Context, slog.Level) bool { return true }
func (l *logged) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logged) WithGroup(string) slog.Handler            { return l }
func (l *logged) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += "\n" + a.String(); return true })
	l.list = append(l.list, text)
	return nil
}

func (l *logged) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.list...)
}

// Property 4: a bug costs its request a 500 and the log a line with a stack. It
// costs neither the process nor a permit nor a place in the pool, and what was
// not sent is not counted as if it had been.
func TestPanics(t *testing.T) {
	for _, tc := range []struct {
		in          string
		status      int
		outcome     string
		back, ended int // of the good gate's permits
	}{
		{"Begin", 500, "not_tried", 0, 0},
		{"Route", 500, "not_tried", 0, 0},
		{"Identify", 500, "not_tried", 0, 0},
		{"Class", 500, "not_tried", 0, 0},
		{"reserve", 500, "not_tried", 1, 0},
		{"end", 500, "answered", 0, 1},
		{"Observe", 200, "", 0, 1},
	} {
		for _, path := range []string{"/pub", "/stream"} {
			t.Run(tc.in+" of "+path, func(t *testing.T) {
				baseline(t)
				origin := newLedger(t)
				good, bad := newCounting(""), newCounting(tc.in)
				log := &logged{}
				g := startGateway(t, func(o *Options, p *Policy) {
					o.Log = slog.New(log)
					bug := panicky{in: tc.in, recorder: o.Observer.(*recorder)}
					o.Observer = bug
					p.Controller = &admission.Controller{Classifier: bug, Identifier: bug, Gates: []admission.Gate{good, bad}}
				}, origin.addr)
				c := dial(t, g.addr)
				if _, err := io.WriteString(c, "POST "+path+" HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"); err != nil {
					t.Fatal(err)
				}
				r := bufio.NewReader(c)
				got := readReply(t, r, "POST")
				status := tc.status
				if tc.in == "end" && path == "/stream" {
					status = 200 // it has gone out by then
				}
				if got.StatusCode != status || status == 500 && (got.reason() != "internal" || !got.Close) {
					t.Errorf("answered with %d %s", got.StatusCode, got.body)
				}
				if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
					t.Errorf("after the answer %q, %v", rest, err)
				}
				if tc.outcome != "" {
					if e := g.waitEvents(t, 1)[0]; e.outcome != tc.outcome || e.status != status {
						t.Errorf("reported as %v", e)
					}
				}
				eventually(t, "the panic is logged", func() bool { return len(log.all()) > 0 })
				if lines := log.all(); len(lines) != 1 || !strings.Contains(lines[0], "a bug in") || !strings.Contains(lines[0], "fault_test.go") {
					t.Errorf("the log has %q", lines)
				}
				if strings.Contains(string(got.body), "bug") {
					t.Errorf("the client is told about it: %s", got.body)
				}
				good.check(t, tc.back, tc.ended)
				if requests, _ := origin.take(); len(requests) > 1 || len(requests) == 1 && tc.outcome == "not_tried" {
					t.Errorf("the origin received %d requests", len(requests))
				}
			})
		}
	}
}

// Property 13: a bug in what runs while a head is read costs its connection.
func TestPanicWhileReading(t *testing.T) {
	baseline(t)
	ca := testcert.New(t)
	log := &logged{}
	g := startGateway(t, func(o *Options, _ *Policy) {
		o.Log = slog.New(log)
		o.TLS = &tls.Config{
			Certificates: []tls.Certificate{ca.Issue(t, "gateway")},
			ClientAuth:   tls.VerifyClientCertIfGiven, ClientCAs: ca.Pool,
		}
		o.CertName = func(c *x509.Certificate) string {
			if c.Subject.CommonName == "bad" {
				panic("a bug in CertName")
			}
			return c.Subject.CommonName
		}
	}, echoOrigin(t))
	request := func(name string) (string, error) {
		c, err := tls.Dial("tcp", g.addr, &tls.Config{RootCAs: ca.Pool, Certificates: []tls.Certificate{ca.Issue(t, name)}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.WriteString(c, get("Connection: close\r\n"))
		got, err := io.ReadAll(c)
		return string(got), err
	}
	if got, _ := request("bad"); got != "" {
		t.Errorf("answered with %q", got)
	}
	if got, err := request("good"); err != nil || !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") || !strings.Contains(got, "X-Forwarded-Proto: https\r\n") {
		t.Errorf("answered with %q, %v", got, err)
	}
	if lines := log.all(); len(lines) != 1 || !strings.Contains(lines[0], "a bug in CertName") {
		t.Errorf("the log has %q", lines)
	}
}

// Property 4: permits end once whatever the client, the origin and the policy
// do.
func TestPermitsEndOnce(t *testing.T) {
	gone := func(c net.Conn) { c.Close() }
	read := func(c net.Conn) { _, _ = io.ReadAll(c) }
	for _, tc := range []struct {
		name, request string
		play          script
		do            func(net.Conn)
		back, ended   int
	}{
		{"answered", get("Connection: close\r\n"), sayOn(head5 + "hello"), read, 0, 1},
		{"answered, streamed", "GET /stream HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", sayOn(headTE + chunked5), read, 0, 1},
		{"failed", get("Connection: close\r\n"), say("xyz"), read, 0, 1},
		{"cut, streamed", "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n", say(headTE), read, 0, 1},
		{"client gone", get(""), sayOn(head5 + "hello"), gone, 0, 1},
		{"client gone, streamed", "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n", sayMute(headTE), gone, 0, 1},
		{"body short, asked first", post("Expect: 100-continue\r\nContent-Length: 5\r\n", ""), sayOn(head5 + "hello"), gone, 1, 0},
		{"body malformed, asked first", post("Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n", "xyz\r\n"), sayOn(head5 + "hello"), read, 1, 0},
		{"body malformed, streamed", "POST /stream HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", sayMute(""), read, 0, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			baseline(t)
			gate := newCounting("")
			p := newPlayer(t, tc.play)
			g := startGateway(t, func(_ *Options, p *Policy) { p.Controller.Gates = []admission.Gate{gate} }, p.addr)
			c := dial(t, g.addr)
			if _, err := io.WriteString(c, tc.request); err != nil {
				t.Fatal(err)
			}
			tc.do(c)
			g.waitEvents(t, 1)
			gate.check(t, tc.back, tc.ended)
		})
	}
	t.Run("origin out of reach", func(t *testing.T) {
		gate := newCounting("")
		g := startGateway(t, func(_ *Options, p *Policy) { p.Controller.Gates = []admission.Gate{gate} }, "127.0.0.1:1")
		if got := ask(t, g.addr, get("")); got.StatusCode != 502 {
			t.Errorf("answered with %d", got.StatusCode)
		}
		g.waitEvents(t, 1)
		gate.check(t, 1, 0)
	})
}
