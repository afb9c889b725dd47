package proxy

import (
	"io"
	"strings"
	"testing"
)

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
