package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/admission"
)

// refusing is a gate that says no.
type refusing struct{}

func (refusing) Anticipate(*admission.Request) {}

func (refusing) Reserve(time.Time, *admission.Request, *admission.Decision) (admission.Permit, admission.Refusal) {
	return admission.Permit{}, admission.Refusal{Reason: admission.Shed, RetryAfter: 3 * time.Second}
}
func (refusing) GiveBack(time.Time, admission.Permit)               {}
func (refusing) End(time.Time, admission.Permit, admission.Outcome) {}

// Property 3: a client that asks before it uploads is refused before it does.
func TestExpectRefused(t *testing.T) {
	for _, path := range []string{"/pub", "/stream"} {
		for _, framing := range []string{"Content-Length: 5", "Transfer-Encoding: chunked"} {
			t.Run(framing+" to "+path, func(t *testing.T) {
				baseline(t)
				origin := newLedger(t)
				g := startGateway(t, func(_ *Options, p *Policy) {
					p.Controller.Gates = []admission.Gate{refusing{}}
				}, origin.addr)
				c := dial(t, g.addr)
				if _, err := io.WriteString(c, "POST "+path+" HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"+framing+"\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				got := readReply(t, bufio.NewReader(c), "POST")
				if got.StatusCode != 503 || got.reason() != "shed" || !got.Close || got.Header.Get("Retry-After") != "3" {
					t.Errorf("answered with %d %v %s", got.StatusCode, got.Header, got.body)
				}
				if requests, rest := origin.take(); len(requests) > 0 || rest != "" {
					t.Errorf("the origin received %q %q", requests, rest)
				}
			})
		}
	}
}

// A client that asks before it uploads is told to go on, and by us: the origin
// sees no Expect.
func TestExpectAccepted(t *testing.T) {
	for _, path := range []string{"/pub", "/stream"} {
		for _, tc := range []struct{ framing, body string }{{"Content-Length: 5", "hello"}, {"Transfer-Encoding: chunked", chunked5}} {
			t.Run(tc.framing+" to "+path, func(t *testing.T) {
				baseline(t)
				origin := newLedger(t)
				g := startGateway(t, nil, origin.addr)
				c := dial(t, g.addr)
				r := bufio.NewReader(c)
				requests := 2 // on one connection
				if path == "/stream" {
					// An answer may overtake the upload's end, which closes it.
					requests = 1
				}
				for range requests {
					if _, err := io.WriteString(c, "POST "+path+" HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"+tc.framing+"\r\n\r\n"); err != nil {
						t.Fatal(err)
					}
					want := string(continueLine)
					got := make([]byte, len(want))
					if _, err := io.ReadFull(r, got); err != nil || string(got) != want {
						t.Fatalf("told %q, %v", got, err)
					}
					if _, err := io.WriteString(c, tc.body); err != nil {
						t.Fatal(err)
					}
					if got := readReply(t, r, "POST"); got.StatusCode != 200 || got.Close && path == "/pub" {
						t.Errorf("answered with %d %v", got.StatusCode, got.Header)
					}
				}
				received, rest := origin.take()
				if len(received) != requests || rest != "" || strings.Contains(received[0], "Expect") || !strings.Contains(received[requests-1], "hello") {
					t.Errorf("the origin received %q %q", received, rest)
				}
			})
		}
	}
}

// A client that writes its whole request before it reads can read why it was
// refused, ten times of ten.
func TestNaiveClientReadsTooLarge(t *testing.T) {
	const size = 8 << 20
	for _, tc := range []struct{ name, path, framing string }{
		{"counted", "/pub", "Content-Length: " + itoa(size)},
		{"chunked, found out amid the upload", "/pub", "Transfer-Encoding: chunked"},
		{"chunked stream, found out amid the upload", "/stream", "Transfer-Encoding: chunked"},
		{"counted stream", "/stream", "Content-Length: " + itoa(size)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			baseline(t)
			g := startGateway(t, func(_ *Options, p *Policy) { p.Routes[1].MaxBody = 1 << 20 }, newLedger(t).addr)
			for i := range 10 {
				c := dial(t, g.addr)
				if _, err := io.WriteString(c, "POST "+tc.path+" HTTP/1.1\r\nHost: a\r\n"+tc.framing+"\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				var to io.Writer = c
				if tc.framing[0] == 'T' {
					to = chunkWriter{c}
				}
				if _, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{&pattern{left: size}}, make([]byte, 32<<10)); err != nil {
					t.Fatalf("client %d could not write its request: %v", i, err)
				}
				r := bufio.NewReader(c)
				if got := readReply(t, r, "POST"); got.StatusCode != 413 || got.reason() != "too_large" || !got.Close {
					t.Fatalf("client %d was answered with %d %s", i, got.StatusCode, got.body)
				}
				if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
					t.Errorf("client %d: after the answer %q, %v", i, rest, err)
				}
				c.Close()
			}
		})
	}
}

// An origin may answer before it has read the request, and then read no more:
// its answer counts.
func TestEarlyAnswer(t *testing.T) {
	const size = 16 << 20 // more than sockets hold
	const early = "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 5\r\n\r\nearly"
	for _, path := range []string{"/pub", "/stream"} {
		for _, after := range []string{"reads no more", "closes", "reads on"} {
			t.Run(path+" "+after, func(t *testing.T) {
				baseline(t)
				over := make(chan bool)
				addr := scriptOrigin(t, func(_ int, c net.Conn, r *bufio.Reader) {
					if _, err := http.ReadRequest(r); err != nil {
						return
					}
					_, _ = io.WriteString(c, early)
					switch after {
					case "reads no more":
						<-over
					case "reads on":
						_, _ = io.Copy(io.Discard, r)
					}
				})
				g := startGateway(t, func(_ *Options, p *Policy) {
					p.Routes[0].MaxBody, p.Routes[0].BodyTimeout = 2*size, time.Minute
				}, addr)
				c := dial(t, g.addr)
				go func() {
					_, _ = io.WriteString(c, "POST "+path+" HTTP/1.1\r\nHost: a\r\nContent-Length: "+itoa(size)+"\r\n\r\n")
					_, _ = io.Copy(c, &pattern{left: size})
				}()
				got := readReply(t, bufio.NewReader(c), "POST")
				if got.StatusCode != 413 || string(got.body) != "early" {
					t.Errorf("answered with %d %s", got.StatusCode, got.body)
				}
				if e := g.waitEvents(t, 1)[0]; e != (event{"answered", "none", 413}) {
					t.Errorf("reported as %v", e)
				}
				close(over)
			})
		}
	}
}

// The time for an answer begins when the upload ends, however long that took
// and in however many pieces the answer's head comes.
func TestSlowUploadLeavesTimeForTheAnswer(t *testing.T) {
	baseline(t)
	const timeout = 150 * time.Millisecond
	piece := make(chan bool)
	addr := scriptOrigin(t, func(_ int, c net.Conn, r *bufio.Reader) {
		request, err := readWire(r)
		if err != nil || strings.Contains(request, "/mute") {
			_, _ = io.Copy(io.Discard, r)
			return
		}
		for _, s := range []string{"HTTP/1.1 103 Early Hints\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-", "Length: 5\r\n", "\r\nhello"} {
			<-piece
			_, _ = io.WriteString(c, s)
		}
	})
	g := startGateway(t, func(_ *Options, p *Policy) { p.Routes[1].Timeout = timeout }, addr)
	c := dial(t, g.addr)
	if _, err := io.WriteString(c, "POST /stream HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"); err != nil {
		t.Fatal(err)
	}
	// A second request runs into the timeout meanwhile, which proves it is over.
	if got := ask(t, g.addr, "GET /stream/mute HTTP/1.1\r\nHost: a\r\n\r\n"); got.StatusCode != 504 {
		t.Fatalf("answered with %d", got.StatusCode)
	}
	if _, err := io.WriteString(c, "0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	piece <- true
	if got := readReply(t, r, "POST"); got.StatusCode != 103 {
		t.Fatalf("answered with %d %s", got.StatusCode, got.body)
	}
	for range 3 {
		piece <- true
	}
	if got := readReply(t, r, "POST"); got.StatusCode != 200 || string(got.body) != "hello" {
		t.Errorf("answered with %d %s", got.StatusCode, got.body)
	}
}

// Property 1: an origin that breaks off during an upload has failed; it is not
// the client that went away.
func TestOriginEndsDuringUpload(t *testing.T) {
	for _, reset := range []bool{false, true} {
		t.Run(fmt.Sprintf("reset %v", reset), func(t *testing.T) {
			baseline(t)
			var conns atomic.Int32
			addr := scriptOrigin(t, func(_ int, c net.Conn, r *bufio.Reader) {
				conns.Add(1)
				if _, err := http.ReadRequest(r); err != nil {
					return
				}
				if reset {
					_ = c.(*net.TCPConn).SetLinger(0)
				}
			})
			g := startGateway(t, nil, addr)
			c := dial(t, g.addr)
			go func() {
				_, _ = io.WriteString(c, "POST /stream HTTP/1.1\r\nHost: a\r\nContent-Length: "+itoa(32<<20)+"\r\n\r\n")
				_, _ = io.Copy(c, &pattern{left: 32 << 20})
			}()
			got := readReply(t, bufio.NewReader(c), "POST")
			if got.StatusCode != 502 || got.reason() != "origin_failed" || !got.Close {
				t.Errorf("answered with %d %s", got.StatusCode, got.body)
			}
			if e := g.waitEvents(t, 1)[0]; e != (event{"unknown", "origin_failed", 502}) {
				t.Errorf("reported as %v", e)
			}
			if n := conns.Load(); n != 1 {
				t.Errorf("the origin saw %d connections", n)
			}
		})
	}
}
