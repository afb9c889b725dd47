package proxy

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

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
