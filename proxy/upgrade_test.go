package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

const (
	upgradeRequest = "GET /stream/ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n\r\n"
	upgradeAnswer  = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n"
)

// webSocketOrigin switches protocols, says hello in the same breath, and then
// gives everything back.
func webSocketOrigin(t testing.TB) string {
	return scriptOrigin(t, func(_ int, c net.Conn, r *bufio.Reader) {
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		_, _ = io.WriteString(c, upgradeAnswer+"hello from the origin;")
		// Hidden, so that no pipe is opened to splice through, and kept.
		_, _ = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{r})
	})
}

// A switched connection carries bytes both ways, early ones included, until
// both sides have ended.
func TestUpgrade(t *testing.T) {
	baseline(t)
	g := startGateway(t, nil, webSocketOrigin(t))
	c := dial(t, g.addr)
	if _, err := io.WriteString(c, upgradeRequest+"early;"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != 101 || res.Header.Get("Upgrade") != "websocket" || res.Header.Get("Connection") != "Upgrade" || res.Header.Get("Sec-WebSocket-Accept") != "x" {
		t.Errorf("answered with %d %v", res.StatusCode, res.Header)
	}
	expect := func(want string) {
		t.Helper()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(r, got); err != nil || string(got) != want {
			t.Fatalf("%v, %q, want %q", err, got, want)
		}
	}
	expect("hello from the origin;early;")
	for i := range 50 {
		message := fmt.Sprintf("message %d; GET / HTTP/1.1\r\n\r\n", i)
		if _, err := io.WriteString(c, message); err != nil {
			t.Fatal(err)
		}
		expect(message)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Errorf("at the end %q, %v", rest, err)
	}
	if e := g.waitEvents(t, 1)[0]; e != (event{"answered", "none", 101}) {
		t.Errorf("reported as %v", e)
	}
	stillWorksAfterUpgrade(t, g)
}

func stillWorksAfterUpgrade(t testing.TB, g *gateway) {
	t.Helper()
	if s := g.policy.Origin.Status()[0]; s.Connections != 0 {
		t.Errorf("%d connections are kept of a switched one", s.Connections)
	}
}

// A tunnel whose client resets, or whose origin ends, ends.
func TestUpgradeEnds(t *testing.T) {
	for _, by := range []string{"client resets", "client closes", "origin ends"} {
		t.Run(by, func(t *testing.T) {
			baseline(t)
			ended := make(chan bool)
			addr := scriptOrigin(t, func(_ int, c net.Conn, r *bufio.Reader) {
				if _, err := http.ReadRequest(r); err != nil {
					return
				}
				_, _ = io.WriteString(c, upgradeAnswer)
				if by != "origin ends" {
					_, _ = io.Copy(io.Discard, r)
				}
				close(ended)
			})
			g := startGateway(t, nil, addr)
			c := dial(t, g.addr)
			if _, err := io.WriteString(c, upgradeRequest); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(upgradeAnswer))
			if _, err := io.ReadFull(c, got); err != nil || string(got) != upgradeAnswer {
				t.Fatalf("%v %q", err, got)
			}
			switch by {
			case "client resets":
				_ = c.(*net.TCPConn).SetLinger(0)
				c.Close()
			case "client closes":
				c.Close()
			case "origin ends":
				if rest, err := io.ReadAll(c); err != nil || len(rest) > 0 {
					t.Errorf("%q, %v", rest, err)
				}
				c.Close()
			}
			<-ended
			g.waitEvents(t, 1)
		})
	}
}

// A route without upgrades passes the request on as a plain one, and an origin
// that switches all the same has failed.
func TestUpgradeNotAllowed(t *testing.T) {
	baseline(t)
	g := startGateway(t, nil, webSocketOrigin(t))
	got := ask(t, g.addr, strings.ReplaceAll(upgradeRequest, "/stream", "/pub"))
	if got.StatusCode != 502 || got.reason() != "origin_failed" {
		t.Errorf("answered with %d %s", got.StatusCode, got.body)
	}
}
