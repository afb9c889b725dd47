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
				g := startGateway(t, shortOrigin, p.addr)
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

// shortOrigin gives the origin little time and room.
func shortOrigin(_ *Options, p *Policy) {
	for i := range p.Routes {
		p.Routes[i].Timeout = 250 * time.Millisecond
		p.Routes[i].MaxAnswer = 64 << 10
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

// Property 13: bytes that arrive on a connection after its answer are never the
// answer to somebody else's request, whether they come at once or late.
func TestLateBytes(t *testing.T) {
	const poison = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nPOISON"
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst"
	for _, tc := range []struct {
		name, answer, late string
	}{
		{"surplus with the answer", answer + poison, ""},
		{"surplus of one byte", answer + "H", "TTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nPOISON"},
		{"surplus after chunks", headTE + chunked5 + poison, ""},
		{"surplus after 204", "HTTP/1.1 204 No Content\r\n\r\n" + poison, ""},
		{"204 with Content-Length", "HTTP/1.1 204 No Content\r\nContent-Length: " + itoa(len(poison)) + "\r\n\r\n" + poison, ""},
		{"surplus after 304", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n" + poison, ""},
		{"late", answer, poison},
		{"late byte", answer, "\n"},
		{"late after chunks", headTE + chunked5, poison},
		{"late after 204", "HTTP/1.1 204 No Content\r\n\r\n", poison},
	} {
		for _, path := range []string{"/pub", "/stream"} {
			t.Run(tc.name+" to "+path, func(t *testing.T) {
				baseline(t)
				sent, go1 := make(chan bool), make(chan bool)
				p := newPlayer(t, func(c net.Conn, _ *bufio.Reader) bool {
					_, _ = io.WriteString(c, tc.answer)
					<-go1
					_, _ = io.WriteString(c, tc.late)
					sent <- true
					return true
				})
				g := startGateway(t, nil, p.addr)
				if got := ask(t, g.addr, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"); got.StatusCode >= 400 {
					t.Fatalf("answered with %d %s", got.StatusCode, got.body)
				}
				g.waitEvents(t, 1)
				if idle := g.policy.Origin.Status()[0].Idle; tc.late == "" && idle != 0 {
					t.Error("a connection with surplus bytes is kept")
				}
				go1 <- true
				<-sent
				for range 3 {
					got := ask(t, g.addr, "POST "+path+"/ok HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
					if got.StatusCode != 200 || string(got.body) != got.Header.Get("X-Request-Id") {
						t.Errorf("answered with %d %q, which is not for request %s", got.StatusCode, got.body, got.Header.Get("X-Request-Id"))
					}
				}
				if n := p.once(t); n != 4 {
					t.Errorf("%d requests were executed, want 4", n)
				}
			})
		}
	}
}

// Property 1: kept connections that the origin has closed meanwhile cost a
// request nothing: it is sent once, whole, on another one.
func TestStaleConnections(t *testing.T) {
	large := strings.Repeat("x", 300<<10)
	for _, end := range []struct {
		name string
		do   script
	}{
		{"closed", func(net.Conn, *bufio.Reader) bool { return false }},
		{"reset", func(c net.Conn, _ *bufio.Reader) bool { _ = c.(*net.TCPConn).SetLinger(0); return false }},
	} {
		for _, request := range []string{
			"GET /pub/ok HTTP/1.1\r\nHost: a\r\n\r\n",
			"POST /pub/ok HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
			"POST /pub/ok HTTP/1.1\r\nHost: a\r\nContent-Length: " + itoa(len(large)) + "\r\n\r\n" + large,
			"POST /pub/ok HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked5,
			"POST /stream/ok HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
			"POST /stream/ok HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked5,
		} {
			t.Run(end.name+" before "+request[:15], func(t *testing.T) {
				baseline(t)
				const idle = 8
				arrived, answer, finish, closed := make(chan bool), make(chan bool), make(chan bool), make(chan bool)
				p := newPlayer(t, func(c net.Conn, r *bufio.Reader) bool {
					arrived <- true
					<-answer
					_, _ = io.WriteString(c, head5+"hello")
					<-finish
					more := end.do(c, r)
					c.Close()
					closed <- true
					return more
				})
				g := startGateway(t, nil, p.addr)
				var clients sync.WaitGroup
				for range idle {
					clients.Go(func() { ask(t, g.addr, get("")) })
				}
				for range idle {
					<-arrived
				}
				for range idle {
					answer <- true
				}
				clients.Wait()
				g.waitEvents(t, idle)
				for range idle {
					finish <- true
				}
				for range idle {
					<-closed
				}
				got := ask(t, g.addr, request)
				if got.StatusCode != 200 || string(got.body) != got.Header.Get("X-Request-Id") {
					t.Errorf("answered with %d %q", got.StatusCode, got.body)
				}
				if n := p.once(t); n != idle+1 {
					t.Errorf("%d requests were executed, want %d", n, idle+1)
				}
				if last := g.waitEvents(t, idle+1)[idle]; last != (event{"answered", "none", 200}) {
					t.Errorf("reported as %v", last)
				}
				stillWorks(t, g)
			})
		}
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

// Property 12: proper answers reach the client byte for byte, but for what
// ends at this hop.
func TestAnswersPassed(t *testing.T) {
	const id = "X-Request-Id: {id}\r\n"
	for _, tc := range []struct {
		name, method, answer string
		pub, stream          string // as the client sees it
		kept                 bool   // the origin's connection can be used again
	}{
		{"plain", "GET", head5 + "hello", head200 + "Content-Length: 5\r\n" + id + "\r\nhello", "=", true},
		{"fields as they are", "GET", "HTTP/1.1 299 Any  Reason\xff\r\nserver:x\r\nDate: now\r\nSet-Cookie: a=1\r\nset-cookie: b=\"2\"; Path=/\r\nETag:  W/\"x\" \r\nContent-Type: \r\ncontent-length: 5\r\n\r\nhello",
			"HTTP/1.1 299 Any  Reason\xff\r\nserver:x\r\nDate: now\r\nSet-Cookie: a=1\r\nset-cookie: b=\"2\"; Path=/\r\nETag:  W/\"x\" \r\nContent-Type: \r\ncontent-length: 5\r\n" + id + "\r\nhello", "=", true},
		{"no reason phrase", "GET", "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.1 200 \r\nContent-Length: 5\r\n" + id + "\r\nhello", "=", true},
		{"empty", "GET", head200 + "Content-Length: 0\r\n\r\n", head200 + "Content-Length: 0\r\n" + id + "\r\n", "=", true},
		{"chunks", "GET", headTE + "3;x\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", head200 + "Content-Length: 5\r\n" + id + "\r\nhello",
			head200 + "Transfer-Encoding: chunked\r\n" + id + "\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", true},
		{"trailers", "GET", head200 + "Trailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\nX-More: 2\r\n\r\n", head200 + "Content-Length: 5\r\n" + id + "\r\nhello",
			head200 + "Transfer-Encoding: chunked\r\n" + id + "\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\nX-More: 2\r\n\r\n", true},
		{"no framing", "GET", headNone + "hello", head200 + "Content-Length: 5\r\n" + id + "\r\nhello",
			head200 + "Transfer-Encoding: chunked\r\n" + id + "\r\n5\r\nhello\r\n0\r\n\r\n", false},
		{"HTTP/1.0", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", head200 + "Content-Length: 5\r\n" + id + "\r\nhello", "=", false},
		{"close", "GET", head200 + "Connection: close\r\nContent-Length: 5\r\n\r\nhello", head200 + "Content-Length: 5\r\n" + id + "\r\nhello", "=", false},
		{"HEAD with a length", "HEAD", head200 + "Content-Length: 5\r\n\r\n", head200 + "Content-Length: 5\r\n" + id + "\r\n", "=", true},
		{"HEAD with chunks", "HEAD", headTE, head200 + id + "\r\n", "=", true},
		{"HEAD with nothing", "HEAD", headNone, head200 + id + "\r\n", "=", true},
		{"204", "GET", "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 204 No Content\r\n" + id + "\r\n", "=", true},
		{"204 with a length", "GET", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 204 No Content\r\n" + id + "\r\n", "=", true},
		{"304 with a length", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nETag: x\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nETag: x\r\n" + id + "\r\n", "=", true},
		{"hop-by-hop fields", "GET", head200 + "Connection: keep-alive, X-Hop\r\nKeep-Alive: timeout=5\r\nX-Hop: 1\r\nUpgrade: h2\r\nProxy-Connection: x\r\nSluice-Tenant: x\r\nX-Request-Id: theirs\r\nContent-Length: 5\r\n\r\nhello", head200 + "Content-Length: 5\r\n" + id + "\r\nhello", "=", true},
		{"Connection names framing", "GET", head200 + "Connection: Content-Length, Transfer-Encoding\r\nContent-Length: 5\r\n\r\nhello", head200 + "Content-Length: 5\r\n" + id + "\r\nhello", "=", true},
		{"interim answers", "GET", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + head5 + "hello", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + head200 + "Content-Length: 5\r\n" + id + "\r\nhello", "=", true},
		{"errors", "GET", "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\nContent-Length: 5\r\n" + id + "\r\nhello", "=", true},
	} {
		for _, path := range []string{"/pub", "/stream"} {
			t.Run(tc.name+" to "+path, func(t *testing.T) {
				baseline(t)
				play := sayOn(tc.answer)
				if !tc.kept {
					play = say(tc.answer)
				}
				p := newPlayer(t, play)
				g := startGateway(t, nil, p.addr)
				want := tc.pub
				if path == "/stream" && tc.stream != "=" {
					want = tc.stream
				}
				c := dial(t, g.addr)
				if _, err := io.WriteString(c, tc.method+" "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"+"GET "+path+"/ok HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				all, err := io.ReadAll(c)
				if err != nil {
					t.Fatal(err)
				}
				// What follows the first answer is the second, which must be there.
				first, second, ok := cutLast(string(all), "HTTP/1.1 200 OK\r\nContent-Length: 32\r\n")
				if !ok || !strings.Contains(second, "Connection: close\r\n") {
					t.Fatalf("the connection did not go on: %q", all)
				}
				if i := strings.Index(first, "X-Request-Id: "); i >= 0 {
					first = first[:i+14] + "{id}" + first[i+14+32:]
				}
				if first != want {
					t.Errorf("the client received\n%q, want\n%q", first, want)
				}
				if n := p.once(t); n != 2 {
					t.Errorf("%d requests were executed, want 2", n)
				}
				p.mu.Lock()
				defer p.mu.Unlock()
				if reused := p.conns == 1; reused != tc.kept {
					t.Errorf("the origin saw %d connections", p.conns)
				}
			})
		}
	}
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i:], true
}

// Property 13: an HTTP/1.0 client, which knows no chunks, sees a broken answer
// broken too.
func TestTruncatedForHTTP10(t *testing.T) {
	baseline(t)
	p := newPlayer(t, say(headTE+"5\r\nhello\r\n"))
	g := startGateway(t, nil, p.addr)
	c := dial(t, g.addr)
	if _, err := io.WriteString(c, "GET /stream HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); err == nil {
		t.Errorf("the client takes this for a whole answer: %q", got)
	}
}

// An answer that a client could not tell from a cut one has a length where it
// is known.
func TestBufferedAnswersHaveALength(t *testing.T) {
	p := newPlayer(t, sayOn(headTE+chunked5))
	g := startGateway(t, nil, p.addr)
	got := ask(t, g.addr, get("Connection: close\r\n"))
	if got.ContentLength != 5 || string(got.body) != "hello" || !got.Close {
		t.Errorf("answered with %v %q", got.Header, got.body)
	}
	got = ask(t, g.addr, "GET /pub HTTP/1.0\r\n\r\n")
	if got.ContentLength != 5 || string(got.body) != "hello" {
		t.Errorf("answered with %v %q", got.Header, got.body)
	}
}
