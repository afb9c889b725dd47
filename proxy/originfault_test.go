package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// player is an origin that answers requests for …/ok properly and plays a
// script for every other one. It counts what it has executed: each complete
// request, by its request id.
type player struct {
	addr string

	mu       sync.Mutex
	executed map[string]int
	conns    int
}

// script plays one answer on a connection whose request has been read. It
// returns false where the connection is finished.
type script func(c net.Conn, r *bufio.Reader) bool

func newPlayer(t testing.TB, play script) *player {
	p := &player{executed: map[string]int{}}
	p.addr = scriptOrigin(t, func(_ int, c net.Conn, r *bufio.Reader) {
		p.mu.Lock()
		p.conns++
		p.mu.Unlock()
		for {
			request, err := readWire(r)
			if err != nil {
				return
			}
			if method, _, _ := strings.Cut(request, " "); method != "GET" && method != "POST" && method != "HEAD" {
				t.Errorf("bytes of one request became another: %.80q (property 13)", request)
			}
			id := requestID(request)
			p.mu.Lock()
			p.executed[id]++
			p.mu.Unlock()
			if path := strings.Fields(request)[1]; strings.HasSuffix(path, "/ok") {
				if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: "+itoa(len(id))+"\r\n\r\n"+id); err != nil {
					return
				}
			} else if !play(c, r) {
				return
			}
		}
	})
	return p
}

func requestID(request string) string {
	_, rest, _ := strings.Cut(request, "\r\nX-Request-Id: ")
	id, _, _ := strings.Cut(rest, "\r\n")
	return id
}

// once checks that nothing was executed twice, and returns how many requests
// were executed.
func (p *player) once(t testing.TB) int {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, n := range p.executed {
		if n > 1 || id == "" {
			t.Errorf("request %q was executed %d times (property 1)", id, n)
		}
	}
	return len(p.executed)
}

// say answers with the given bytes and ends the connection.
func say(s string) script {
	return func(c net.Conn, _ *bufio.Reader) bool {
		_, _ = io.WriteString(c, s)
		return false
	}
}

// sayOn answers with the given bytes and reads on.
func sayOn(s string) script {
	return func(c net.Conn, _ *bufio.Reader) bool {
		_, err := io.WriteString(c, s)
		return err == nil
	}
}

// sayMute answers with the given bytes and then nothing.
func sayMute(s string) script {
	return func(c net.Conn, r *bufio.Reader) bool {
		_, _ = io.WriteString(c, s)
		_, _ = io.Copy(io.Discard, r)
		return false
	}
}

// sayReset answers with the given bytes and resets the connection.
func sayReset(s string) script {
	return func(c net.Conn, _ *bufio.Reader) bool {
		_, _ = io.WriteString(c, s)
		_ = c.(*net.TCPConn).SetLinger(0)
		return false
	}
}

// drip repeats a piece, slowly, until nobody listens.
func drip(first, piece string) script {
	return func(c net.Conn, _ *bufio.Reader) bool {
		_, _ = io.WriteString(c, first)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if _, err := io.WriteString(c, piece); err != nil {
				break
			}
		}
		return false
	}
}

// flood repeats a piece as fast as it is taken, until nobody listens.
func flood(first, piece string) script {
	piece = strings.Repeat(piece, 1+16<<10/len(piece))
	return func(c net.Conn, _ *bufio.Reader) bool {
		_, err := io.WriteString(c, first)
		for err == nil {
			_, err = io.WriteString(c, piece)
		}
		return false
	}
}

// originFault is an answer that is none. Where a stream's head had gone out
// before the fault showed, cut says that the client sees its transfer aborted.
type originFault struct {
	name   string
	play   script
	status int
	reason string
	cut    bool
}

const (
	head200  = "HTTP/1.1 200 OK\r\n"
	head5    = head200 + "Content-Length: 5\r\n\r\n"
	headTE   = head200 + "Transfer-Encoding: chunked\r\n\r\n"
	headNone = head200 + "\r\n"
)

var originFaults = []originFault{
	{"closed before a byte", say(""), 502, "origin_failed", false},
	{"reset before a byte", sayReset(""), 502, "origin_failed", false},
	{"mute", sayMute(""), 504, "origin_timeout", false},
	{"head cut in its status line", say("HTTP/1.1 2"), 502, "origin_failed", false},
	{"head cut in a field", say(head200 + "Content-Le"), 502, "origin_failed", false},
	{"head cut before its end", say(head200 + "Content-Length: 5\r\n"), 502, "origin_failed", false},
	{"head reset", sayReset(head200 + "Content-Length: 5\r\n"), 502, "origin_failed", false},
	{"head then mute", sayMute(head200), 504, "origin_timeout", false},
	{"head drips", drip(head200, "X: y\r\n"), 504, "origin_timeout", false},
	{"status line drips", drip("H", ""), 504, "origin_timeout", false},
	{"interim answers drip", drip("", "HTTP/1.1 103 Early Hints\r\n\r\n"), 504, "origin_timeout", false},

	{"no body", say(head5), 502, "origin_failed", true},
	{"body cut", say(head5 + "hell"), 502, "origin_failed", true},
	{"body reset", sayReset(head5 + "hell"), 502, "origin_failed", true},
	{"chunk cut", say(headTE + "5\r\nhell"), 502, "origin_failed", true},
	{"chunk cut before its end", say(headTE + "5\r\nhello"), 502, "origin_failed", true},
	{"chunks cut between two", say(headTE + "5\r\nhello\r\n"), 502, "origin_failed", true},
	{"chunks cut before the final line", say(headTE + "5\r\nhello\r\n0\r\n"), 502, "origin_failed", true},
	{"chunk size malformed", sayMute(headTE + "5\r\nhello\r\nxyz\r\n"), 502, "origin_failed", true},
	{"chunk size of 2^64", sayMute(headTE + "10000000000000005\r\nhello\r\n"), 502, "origin_failed", true},
	{"chunk longer than its size", sayMute(headTE + "5\r\nhello!\r\n0\r\n\r\n"), 502, "origin_failed", true},
	{"chunk lines end in LF", sayMute(headTE + "5\nhello\n0\n\n"), 502, "origin_failed", true},
	{"chunk extension without end", flood(headTE+"5;", "xxxxxxxx"), 502, "origin_failed", true},
	{"trailers without end", flood(headTE+"0\r\n", "X: yyyyyyyyyyyyyy\r\n"), 502, "origin_failed", true},
	{"a trailer that is framing", sayMute(headTE + "5\r\nhello\r\n0\r\nContent-Length: 9\r\n\r\n"), 502, "origin_failed", true},
	{"body without framing reset", sayReset(headNone + "hello"), 502, "origin_failed", true},

	{"another protocol", sayMute("SSH-2.0-OpenSSH_9.9\r\n"), 502, "origin_failed", false},
	{"one byte of another protocol", sayMute("\x15"), 502, "origin_failed", false},
	{"HTTP/2", sayMute("HTTP/2 200 OK\r\n\r\n"), 502, "origin_failed", false},
	{"HTTP/1.2", sayMute("HTTP/1.2 200 OK\r\n\r\n"), 502, "origin_failed", false},
	{"status is no number", sayMute("HTTP/1.1 2x0 OK\r\n\r\n"), 502, "origin_failed", false},
	{"status of four digits", sayMute("HTTP/1.1 2000 OK\r\n\r\n"), 502, "origin_failed", false},
	{"status of two digits", sayMute("HTTP/1.1 20 OK\r\n\r\n"), 502, "origin_failed", false},
	{"status below 100", sayMute("HTTP/1.1 099 OK\r\n\r\n"), 502, "origin_failed", false},
	{"control character in the reason", sayMute("HTTP/1.1 200 O\rK\r\n\r\n"), 502, "origin_failed", false},
	{"an empty line first", sayMute("\r\n" + head5 + "hello"), 502, "origin_failed", false},
	{"lines end in LF", sayMute("HTTP/1.1 200 OK\nContent-Length: 5\n\nhello"), 502, "origin_failed", false},
	{"one line ends in LF", sayMute(head200 + "X: y\nContent-Length: 5\r\n\r\nhello"), 502, "origin_failed", false},
	{"a bare CR", sayMute(head200 + "X: a\rSet-Cookie: b\r\nContent-Length: 5\r\n\r\nhello"), 502, "origin_failed", false},
	{"a NUL", sayMute(head200 + "X: a\x00\r\nContent-Length: 5\r\n\r\nhello"), 502, "origin_failed", false},
	{"a fold", sayMute(head200 + "X: a\r\n b\r\nContent-Length: 5\r\n\r\nhello"), 502, "origin_failed", false},
	{"a blank before a colon", sayMute(head200 + "Content-Length : 5\r\n\r\nhello"), 502, "origin_failed", false},
	{"a line without colon", sayMute(head200 + "Content-Length\r\n\r\nhello"), 502, "origin_failed", false},
	{"CL and TE", sayMute(head200 + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked5), 502, "origin_failed", false},
	{"TE and CL", sayMute(head200 + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n" + chunked5), 502, "origin_failed", false},
	{"CL twice", sayMute(head200 + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"), 502, "origin_failed", false},
	{"CL list", sayMute(head200 + "Content-Length: 5, 5\r\n\r\nhello"), 502, "origin_failed", false},
	{"CL signed", sayMute(head200 + "Content-Length: +5\r\n\r\nhello"), 502, "origin_failed", false},
	{"CL of 2^63", sayMute(head200 + "Content-Length: 9223372036854775808\r\n\r\nhello"), 502, "origin_failed", false},
	{"TE gzip", sayMute(head200 + "Transfer-Encoding: gzip, chunked\r\n\r\n" + chunked5), 502, "origin_failed", false},
	{"TE identity", sayMute(head200 + "Transfer-Encoding: identity\r\n\r\nhello"), 502, "origin_failed", false},
	{"TE twice", sayMute(head200 + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked5), 502, "origin_failed", false},
	{"TE in HTTP/1.0", sayMute("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked5), 502, "origin_failed", false},
	{"a head over its limit", sayMute(head200 + "X: " + strings.Repeat("x", 70<<10) + "\r\n\r\n"), 502, "origin_failed", false},
	{"fields without end", flood(head200, "X: yyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n"), 502, "origin_failed", false},
	{"a line without end", flood(head200+"X: ", "yyyyyyyyyyyyyyyyyyyyyyyyyyyyy"), 502, "origin_failed", false},
	{"interim answers without end", flood("", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"), 502, "origin_failed", false},
	{"101 unasked", sayMute("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"), 502, "origin_failed", false},
}

// bufferedFaults show only where a whole answer is waited for.
var bufferedFaults = []originFault{
	{"body then mute", sayMute(head5 + "hell"), 504, "origin_timeout", false},
	{"body drips", drip(head200+"Content-Length: 10000\r\n\r\n", "x"), 504, "origin_timeout", false},
	{"chunks drip", drip(headTE, "1\r\nx\r\n"), 504, "origin_timeout", false},
	{"body without framing drips", drip(headNone, "x"), 504, "origin_timeout", false},
	{"CL over the limit", sayMute(head200 + "Content-Length: 65537\r\n\r\n"), 502, "origin_failed", false},
	{"CL far over the limit", sayMute(head200 + "Content-Length: 999999999999999999\r\n\r\n"), 502, "origin_failed", false},
	{"chunks over the limit", flood(headTE, "1000\r\n"+strings.Repeat("x", 4096)+"\r\n"), 502, "origin_failed", false},
	{"body without framing over the limit", flood(headNone, strings.Repeat("x", 4096)), 502, "origin_failed", false},
}

// Properties 1, 12 and 13: what is no complete answer is never passed off as
// one, the request is not sent again, its outcome is unknown, and the next
// request has a clean connection.
func TestOriginFaults(t *testing.T) {
	baseline(t)
	for _, path := range []string{"/pub", "/stream"} {
		faults := originFaults
		if path == "/pub" {
			faults = append(faults[:len(faults):len(faults)], bufferedFaults...)
		}
		for _, tc := range faults {
			t.Run(tc.name+" to "+path, func(t *testing.T) {
				t.Parallel()
				p := newPlayer(t, tc.play)
				g := startGateway(t, shortOrigin(tc.status == 504), p.addr)
				for _, request := range []string{
					"GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n",
					"POST " + path + " HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
					"POST " + path + " HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked5,
				} {
					checkOriginFault(t, g, request, tc, path == "/stream")
				}
				if n := p.once(t); n != 3 {
					t.Errorf("%d requests were executed, want 3", n)
				}
				stillWorks(t, g)
			})
		}
	}
}

// shortOrigin gives the origin little room, and little time where it will need
// more.
func shortOrigin(late bool) func(*Options, *Policy) {
	timeout := 10 * time.Second
	if late {
		timeout = 300 * time.Millisecond
	}
	return func(_ *Options, p *Policy) {
		for i := range p.Routes {
			p.Routes[i].Timeout, p.Routes[i].MaxAnswer = timeout, 64<<10
		}
	}
}

func checkOriginFault(t *testing.T, g *gateway, request string, tc originFault, stream bool) {
	t.Helper()
	before := len(g.events.all())
	c := dial(t, g.addr)
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	got, err := tryReply(r, "POST")
	for err == nil && got.StatusCode < 200 {
		got, err = tryReply(r, "POST")
	}
	wantEvent := event{"unknown", tc.reason, tc.status}
	if stream && tc.cut {
		wantEvent.status = 200
		if err == nil || got.Response == nil || got.StatusCode != 200 {
			t.Errorf("the client takes a broken answer for a whole one: %v %q", got.Response, got.body)
		}
		if strings.Contains(string(got.body), "urn:sluice") {
			t.Errorf("an error was appended to the stream: %q", got.body)
		}
	} else {
		if err != nil {
			t.Fatalf("no answer: %v", err)
		}
		if got.StatusCode != tc.status || got.reason() != tc.reason {
			t.Errorf("answered with %d %s, want %d %s", got.StatusCode, got.body, tc.status, tc.reason)
		}
		checkProblem(t, got)
		if got.Header.Get("Retry-After") != "" {
			t.Error("an unknown outcome must not invite to try again")
		}
	}
	events := g.waitEvents(t, before+1)
	if last := events[len(events)-1]; last != wantEvent {
		t.Errorf("reported as %v, want %v", last, wantEvent)
	}
}

// Property 3: where nothing was sent, the outcome says so, and the client is
// invited to try again.
func TestNotSent(t *testing.T) {
	refusing := func(t *testing.T) string {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		return ln.Addr().String()
	}
	greeting := func(t *testing.T) string {
		return scriptOrigin(t, func(_ int, c net.Conn, r *bufio.Reader) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nPOISON")
			if _, err := r.ReadByte(); err == nil {
				t.Error("a request was sent after bytes that came unasked")
			}
		})
	}
	for _, tc := range []struct {
		name   string
		origin func(*testing.T) string
	}{{"refused", refusing}, {"the origin speaks first", greeting}} {
		for _, path := range []string{"/pub", "/stream"} {
			t.Run(tc.name+" to "+path, func(t *testing.T) {
				baseline(t)
				addr := tc.origin(t)
				g := startGateway(t, nil, addr)
				if tc.name != "refused" {
					// Its greeting must be there before the request is.
					g.policy.Origin.addresses[0].pool.DialTimeout = patientDial(g, addr)
				}
				got := ask(t, g.addr, "POST "+path+" HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
				if got.StatusCode != 502 || got.reason() != "origin_unreachable" || got.Header.Get("Retry-After") == "" {
					t.Errorf("answered with %d %v %s", got.StatusCode, got.Header, got.body)
				}
				if e := g.waitEvents(t, 1)[0]; e != (event{"not_sent", "origin_unreachable", 502}) {
					t.Errorf("reported as %v", e)
				}
			})
		}
	}
	t.Run("retried once at another address", func(t *testing.T) {
		baseline(t)
		p := newPlayer(t, nil)
		g := startGateway(t, nil, refusing(t), p.addr)
		for range 10 {
			got := ask(t, g.addr, "POST /pub/ok HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
			if got.StatusCode != 200 {
				t.Errorf("answered with %d %s", got.StatusCode, got.body)
			}
		}
		if n := p.once(t); n != 10 {
			t.Errorf("%d requests were executed, want 10", n)
		}
	})
	t.Run("never retried once a byte was sent", func(t *testing.T) {
		baseline(t)
		bad := newPlayer(t, say(""))
		g := startGateway(t, nil, bad.addr, bad.addr)
		for range 10 {
			if got := ask(t, g.addr, post("Content-Length: 5\r\n", "hello")); got.StatusCode != 502 || got.reason() != "origin_failed" {
				t.Errorf("answered with %d %s", got.StatusCode, got.body)
			}
		}
		if n := bad.once(t); n != 10 {
			t.Errorf("%d requests were executed, want 10", n)
		}
	})
}

// patientDial dials and waits until the origin has said something.
func patientDial(g *gateway, addr string) func(string, time.Duration) (net.Conn, error) {
	return func(_ string, timeout time.Duration) (net.Conn, error) {
		nc, err := dialOrigin(&net.Dialer{}, addr, nil, timeout)
		if err != nil {
			return nil, err
		}
		for !errors.Is(err, errStale) {
			if !quiet(nc.(*originConn).Conn) {
				err = errStale
			}
		}
		return nc, nil
	}
}
