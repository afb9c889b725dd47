package proxy

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"
)

// Whatever a client does while a request of its is served is noticed: another
// request, or part of one, is answered as if it had come later, and the end of its
// side ends the connection, which never has to wait for the idle timeout.
func TestWhatComesDuringARequestIsNoticed(t *testing.T) {
	const one = "GET /pub HTTP/1.1\r\nHost: a\r\n\r\n"
	const answer = head5 + "hello"
	for _, tc := range []struct {
		name             string
		with, while      string // sent with the first request, and while it is served
		endWith, endThen bool   // the client's side ends then
		after            string // sent after the first answer
		want             int    // answers
	}{
		{"nothing, then another request", "", "", false, false, one, 2},
		{"another request", "", one, false, false, "", 2},
		{"half a request", "", one[:20], false, false, one[20:], 2},
		{"two requests", "", one + one, false, false, one, 4},
		{"another request at once", one, "", false, false, "", 2},
		{"one and a half at once", one + one[:20], one[20:], false, false, one, 4},
		{"the end at once", "", "", true, false, "", 1},
		{"another request and the end at once", one, "", true, false, "", 2},
		{"the end", "", "", false, true, "", 1},
		{"another request and the end", "", one, false, true, "", 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			baseline(t)
			begun, go1 := make(chan bool), make(chan bool)
			first := true
			addr := scriptOrigin(t, func(_ int, c net.Conn, r *bufio.Reader) {
				for {
					if _, err := readWire(r); err != nil {
						return
					}
					if first {
						first = false
						begun <- true
						<-go1
					}
					if _, err := io.WriteString(c, answer); err != nil {
						return
					}
				}
			})
			g := startGateway(t, func(o *Options, _ *Policy) { o.Limits.IdleTimeout = time.Hour }, addr)
			c := dial(t, g.addr)
			say := func(s string, end bool) {
				if s != "" {
					if _, err := io.WriteString(c, s); err != nil {
						t.Error(err)
					}
				}
				if end {
					closeWrite(c)
				}
			}
			say(one+tc.with, tc.endWith)
			<-begun
			say(tc.while, tc.endThen)
			go1 <- true
			r := bufio.NewReader(c)
			for i := range tc.want {
				if got := readReply(t, r, "GET"); got.StatusCode != 200 {
					t.Fatalf("answered with %d %s", got.StatusCode, got.body)
				}
				if i == 0 {
					say(tc.after, false)
				}
			}
			closeWrite(c)
			if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
				t.Errorf("after the answers %q, %v", rest, err)
			}
			eventually(t, "the connection is gone", func() bool { return g.Connections() == 0 })
		})
	}
}
