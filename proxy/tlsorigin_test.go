package proxy

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"sluice/internal/testcert"
)

// corked holds back what is written until it is let go, so that several TLS
// records leave in one segment.
type corked struct {
	net.Conn
	held *bytes.Buffer // nil: nothing is held back
}

func (c *corked) Write(p []byte) (int, error) {
	if c.held != nil {
		return c.held.Write(p)
	}
	return c.Conn.Write(p)
}

func (c *corked) cork() { c.held = &bytes.Buffer{} }

func (c *corked) uncork(keep int) error {
	b := c.held.Bytes()
	c.held = nil
	_ = c.SetWriteDeadline(time.Time{}) // which closing a session sets
	_, err := c.Conn.Write(b[:len(b)-keep])
	return err
}

// overTLS puts the gateway in front of an origin reached over TLS.
func overTLS(t testing.TB, addr string, config *tls.Config) func(*Options, *Policy) {
	return func(_ *Options, p *Policy) {
		origin, err := NewOrigin(OriginOptions{
			URLs: []string{"https://" + addr}, ConnectTimeout: 300 * time.Millisecond, MaxConnections: 64,
			IdleTimeout: 30 * time.Second, TLS: config,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(origin.Close)
		p.Origin = origin
	}
}

// Property 13, over TLS: what came with an answer, in the session's own buffers
// or below them, is never the answer to another request.
func TestLateBytesOverTLS(t *testing.T) {
	const poison = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nPOISON"
	ca := testcert.New(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		serving := &tls.Config{Certificates: []tls.Certificate{ca.Issue(t, "origin")}, MaxVersion: version}
		for _, tc := range []struct {
			name string
			end  func(c *corked, s *tls.Conn)
		}{
			{"in one record", func(_ *corked, s *tls.Conn) { _, _ = io.WriteString(s, head5+"hello"+poison) }},
			{"in a second record of the same segment", func(c *corked, s *tls.Conn) {
				c.cork()
				_, _ = io.WriteString(s, head5+"hello")
				_, _ = io.WriteString(s, poison)
				_ = c.uncork(0)
			}},
			{"in many records of the same segment", func(c *corked, s *tls.Conn) {
				c.cork()
				_, _ = io.WriteString(s, head5+"hello")
				for i := range poison {
					_, _ = io.WriteString(s, poison[i:i+1])
				}
				_ = c.uncork(0)
			}},
			{"in half a record of the same segment", func(c *corked, s *tls.Conn) {
				c.cork()
				_, _ = io.WriteString(s, head5+"hello")
				_, _ = io.WriteString(s, poison)
				_ = c.uncork(10)
			}},
			{"in the header of a record", func(c *corked, s *tls.Conn) {
				c.cork()
				_, _ = io.WriteString(s, head5+"hello")
				n := c.held.Len()
				_, _ = io.WriteString(s, poison)
				_ = c.uncork(c.held.Len() - n - 3)
			}},
			{"later", func(_ *corked, s *tls.Conn) {
				_, _ = io.WriteString(s, head5+"hello")
			}},
			{"as an alert that ends the session", func(c *corked, s *tls.Conn) {
				c.cork()
				_, _ = io.WriteString(s, head5+"hello")
				_ = s.CloseWrite()
				_ = c.uncork(0)
			}},
		} {
			t.Run(tls.VersionName(version)+" "+tc.name, func(t *testing.T) {
				baseline(t)
				answered, late := make(chan bool), make(chan bool)
				executed := make(chan string, 10)
				addr := scriptOrigin(t, func(n int, c net.Conn, _ *bufio.Reader) {
					below := &corked{Conn: c}
					session := tls.Server(below, serving)
					r := bufio.NewReader(session)
					for {
						request, err := readWire(r)
						if err != nil {
							return
						}
						id := requestID(request)
						executed <- id
						if !strings.Contains(request, "/ok ") {
							tc.end(below, session)
							select {
							case <-answered:
							case <-t.Context().Done():
								return
							}
							if tc.name == "later" {
								_, _ = io.WriteString(session, poison)
							}
							late <- true
							continue
						}
						_, _ = io.WriteString(session, "HTTP/1.1 200 OK\r\nContent-Length: 32\r\n\r\n"+id)
					}
				})
				g := startGateway(t, overTLS(t, addr, &tls.Config{RootCAs: ca.Pool}))
				if got := ask(t, g.addr, get("")); got.StatusCode != 200 || string(got.body) != "hello" {
					t.Fatalf("answered with %d %s", got.StatusCode, got.body)
				}
				g.waitEvents(t, 1)
				answered <- true
				<-late
				for range 3 {
					got := ask(t, g.addr, "POST /pub/ok HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
					if got.StatusCode != 200 || string(got.body) != got.Header.Get("X-Request-Id") {
						t.Errorf("answered with %d %q, which is not for request %s", got.StatusCode, got.body, got.Header.Get("X-Request-Id"))
					}
				}
				if n := len(executed); n != 4 {
					t.Errorf("%d requests were executed, want 4", n)
				}
			})
		}
	}
}

// Connections over TLS are kept: the proof that one is clean passes where it is.
func TestConnectionsOverTLSAreKept(t *testing.T) {
	baseline(t)
	ca := testcert.New(t)
	conns := make(chan bool, 100)
	addr := scriptOrigin(t, func(_ int, c net.Conn, _ *bufio.Reader) {
		conns <- true
		session := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{ca.Issue(t, "origin")}})
		r := bufio.NewReader(session)
		for {
			request, err := readWire(r)
			if err != nil {
				return
			}
			_, _ = io.WriteString(session, "HTTP/1.1 200 OK\r\nContent-Length: "+itoa(len(request))+"\r\n\r\n"+request)
		}
	})
	g := startGateway(t, overTLS(t, addr, &tls.Config{RootCAs: ca.Pool}))
	asked := 0
	for i := range 20 {
		body := strings.Repeat("x", i*20000)
		for _, path := range []string{"/pub", "/stream"} {
			got := ask(t, g.addr, "POST "+path+" HTTP/1.1\r\nHost: a\r\nContent-Length: "+itoa(len(body))+"\r\n\r\n"+body)
			if got.StatusCode != 200 || !strings.HasSuffix(string(got.body), "\r\n\r\n"+body) {
				t.Fatalf("%s answered with %d and %d bytes", path, got.StatusCode, len(got.body))
			}
			asked++
			g.waitEvents(t, asked) // by then the connection is back in its pool
		}
	}
	if n := len(conns); n != 1 {
		t.Errorf("40 requests took %d connections", n)
	}
}

// Property 3: a handshake that does not come about is an attempt of which
// nothing was sent, and is bounded like any other (fasthttp#2237).
func TestHandshakesThatFail(t *testing.T) {
	ca := testcert.New(t)
	cert := ca.Issue(t, "origin")
	for _, tc := range []struct {
		name   string
		origin func(c net.Conn, r *bufio.Reader)
		trust  *x509.CertPool
	}{
		{"mute", func(_ net.Conn, r *bufio.Reader) { _, _ = io.Copy(io.Discard, r) }, ca.Pool},
		{"plain HTTP", func(c net.Conn, r *bufio.Reader) {
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
			_, _ = io.Copy(io.Discard, r)
		}, ca.Pool},
		{"closed", func(net.Conn, *bufio.Reader) {}, ca.Pool},
		{"unknown authority", func(c net.Conn, _ *bufio.Reader) {
			session := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert}})
			_, _ = io.Copy(io.Discard, session)
		}, testcert.New(t).Pool},
	} {
		t.Run(tc.name, func(t *testing.T) {
			baseline(t)
			addr := scriptOrigin(t, func(_ int, c net.Conn, r *bufio.Reader) { tc.origin(c, r) })
			g := startGateway(t, overTLS(t, addr, &tls.Config{RootCAs: tc.trust}))
			got := ask(t, g.addr, post("Content-Length: 5\r\n", "hello"))
			if got.StatusCode != 502 || got.reason() != "origin_unreachable" || got.Header.Get("Retry-After") == "" {
				t.Errorf("answered with %d %s", got.StatusCode, got.body)
			}
			if e := g.waitEvents(t, 1)[0]; e != (event{"not_sent", "origin_unreachable", 502}) {
				t.Errorf("reported as %v", e)
			}
		})
	}
}
