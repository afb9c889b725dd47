package proxy

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

func chunked(body string) string { return post("Transfer-Encoding: chunked\r\n", body) }

// refusedBodies have good heads and bodies that are not what they say.
var refusedBodies = []refusal{
	{"Content-Length over the limit", post("Content-Length: 1048577\r\n", ""), 413, "too_large"},
	{"Content-Length far over the limit", post("Content-Length: 999999999999999999\r\n", "x"), 413, "too_large"},
	{"Content-Length over the limit, asked first", post("Content-Length: 1048577\r\nExpect: 100-continue\r\n", ""), 413, "too_large"},
	{"chunks over the limit", chunked("100001\r\n" + strings.Repeat("x", 1<<20+1) + "\r\n0\r\n\r\n"), 413, "too_large"},
	{"many chunks over the limit", chunked(strings.Repeat("400\r\n"+strings.Repeat("x", 1<<10)+"\r\n", 1<<10) + "1\r\nx\r\n0\r\n\r\n"), 413, "too_large"},

	{"chunk size of 2^64", chunked("10000000000000000\r\nhello\r\n0\r\n\r\n"), 400, "bad_request"},
	{"chunk size of 2^64 + 5", chunked("10000000000000005\r\nhello\r\n0\r\n\r\n"), 400, "bad_request"},
	{"chunk size of 2^63", chunked("8000000000000000\r\nhello\r\n0\r\n\r\n"), 400, "bad_request"},
	{"chunk size with many zeros", chunked("0000000000000005\r\nhello\r\n0\r\n\r\n"), 400, "bad_request"},
	{"chunk size with minus", chunked("-5\r\nhello\r\n0\r\n\r\n"), 400, "bad_request"},
	{"chunk size with plus", chunked("+5\r\nhello\r\n0\r\n\r\n"), 400, "bad_request"},
	{"chunk size with 0x", chunked("0x5\r\nhello\r\n0\r\n\r\n"), 400, "bad_request"},
	{"chunk size after a blank", chunked(" 5\r\nhello\r\n0\r\n\r\n"), 400, "bad_request"},
	{"chunk size before a blank", chunked("5 \r\nhello\r\n0\r\n\r\n"), 400, "bad_request"},
	{"chunk size with a blank inside", chunked("5 5\r\nhello\r\n0\r\n\r\n"), 400, "bad_request"},
	{"chunk size empty", chunked("\r\nhello\r\n0\r\n\r\n"), 400, "bad_request"},
	{"chunk size no hex", chunked("g\r\nhello\r\n0\r\n\r\n"), 400, "bad_request"},
	{"extension without size", chunked(";a=b\r\nhello\r\n0\r\n\r\n"), 400, "bad_request"},
	{"chunk size ends in LF", chunked("5\nhello\r\n0\r\n\r\n"), 400, "bad_request"},
	{"chunk size ends in CR", chunked("5\rhello\r\n0\r\n\r\n"), 400, "bad_request"},
	{"chunk size ends in CR CR LF", chunked("5\r\r\nhello\r\n0\r\n\r\n"), 400, "bad_request"},
	{"extension ends in LF", chunked("5;a\nhello\r\n0\r\n\r\n"), 400, "bad_request"},
	{"extension hides a line in CR", chunked("5;a\rb\r\nhello\r\n0\r\n\r\n"), 400, "bad_request"},
	{"extension hides a line in LF", chunked("5;\nxx\r\nhello\r\n0\r\n\r\n"), 400, "bad_request"},
	{"extension with NUL", chunked("5;\x00\r\nhello\r\n0\r\n\r\n"), 400, "bad_request"},
	{"extension of 17 KiB", chunked("5;" + strings.Repeat("a", 17<<10) + "\r\nhello\r\n0\r\n\r\n"), 400, "bad_request"},
	{"extensions of 17 KiB in all", chunked(strings.Repeat("1;"+strings.Repeat("a", 1<<10)+"\r\nx\r\n", 17) + "0\r\n\r\n"), 400, "bad_request"},
	{"chunk longer than its size", chunked("5\r\nhello!\r\n0\r\n\r\n"), 400, "bad_request"},
	{"chunk shorter than its size", chunked("6\r\nhello\r\n0\r\n\r\n"), 400, "bad_request"},
	{"chunk ends in LF", chunked("5\r\nhello\n0\r\n\r\n"), 400, "bad_request"},
	{"chunk ends in a letter and LF", chunked("5\r\nhellox\n0\r\n\r\n"), 400, "bad_request"},
	{"chunk ends in CR", chunked("5\r\nhello\r0\r\n\r\n"), 400, "bad_request"},
	{"chunk without an end", chunked("5\r\nhello0\r\n\r\n"), 400, "bad_request"},
	{"last chunk ends in LF", chunked("5\r\nhello\r\n0\n\r\n"), 400, "bad_request"},
	{"body ends in LF", chunked("5\r\nhello\r\n0\r\n\n"), 400, "bad_request"},
	{"trailer", chunked("5\r\nhello\r\n0\r\nX-Tenant-Id: evil\r\n\r\n"), 400, "bad_request"},
	{"trailer after a bare LF", chunked("5\r\nhello\r\n0\r\nX: y\n\r\n"), 400, "bad_request"},
	{"trailer folded", chunked("5\r\nhello\r\n0\r\n X: y\r\n\r\n"), 400, "bad_request"},
	{"request line in the trailer", chunked("0\r\nGET /pub/inner HTTP/1.1\r\nHost: a\r\n\r\n"), 400, "bad_request"},
}

// Properties 3, 12 and 13: a buffered route forwards a whole body or nothing.
func TestRefusedBodies(t *testing.T) {
	baseline(t)
	origin := newLedger(t)
	g := startGateway(t, nil, origin.addr)
	t.Logf("%d requests", len(refusedBodies))
	for _, tc := range refusedBodies {
		t.Run(tc.name, func(t *testing.T) {
			checkRefusal(t, g, origin, tc.request+next, tc)
		})
	}
	stillWorks(t, g)
}

// Properties 12 and 13: a stream has reached the origin in part by the time its
// body turns out malformed. The client is told, and the origin never takes the
// part for the whole.
func TestRefusedStreamedBodies(t *testing.T) {
	baseline(t)
	origin := newLedger(t)
	g := startGateway(t, func(_ *Options, p *Policy) { p.Routes[1].MaxBody = 1 << 20 }, origin.addr)
	for _, tc := range refusedBodies {
		t.Run(tc.name, func(t *testing.T) {
			before := len(g.events.all())
			c := dial(t, g.addr)
			go func() { _, _ = io.WriteString(c, strings.ReplaceAll(tc.request, "/pub", "/stream")+next) }()
			r := bufio.NewReader(c)
			got := readReply(t, r, "POST")
			if got.StatusCode != tc.status || got.reason() != tc.reason {
				t.Errorf("answered with %d %s, want %d %s", got.StatusCode, got.body, tc.status, tc.reason)
			}
			if !got.Close {
				t.Error("the answer does not say Connection: close")
			}
			checkProblem(t, got)
			if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
				t.Errorf("after the answer came %q, %v", rest, err)
			}
			if requests, _ := origin.take(); len(requests) > 0 {
				t.Errorf("the origin received a complete request: %.300q", requests)
			}
			events := g.waitEvents(t, before+1)
			last := events[len(events)-1]
			if last.status != tc.status || last.outcome == "answered" {
				t.Errorf("reported as %v", last)
			}
		})
	}
	stillWorks(t, g)
}

// Property 13: what ends before it is complete reaches no origin.
func TestBodyEndsEarly(t *testing.T) {
	baseline(t)
	for _, path := range []string{"/pub", "/stream"} {
		origin := newLedger(t)
		g := startGateway(t, nil, origin.addr)
		for _, tc := range []struct{ name, request string }{
			{"counted", post("Content-Length: 10\r\n", "hello")},
			{"chunked, in a chunk", chunked("a\r\nhello")},
			{"chunked, between chunks", chunked("5\r\nhello\r\n")},
			{"chunked, in a size", chunked("5")},
			{"chunked, before the final line", chunked("5\r\nhello\r\n0\r\n")},
		} {
			t.Run(tc.name+" to "+path, func(t *testing.T) {
				c := dial(t, g.addr)
				if _, err := io.WriteString(c, strings.ReplaceAll(tc.request, "/pub", path)); err != nil {
					t.Fatal(err)
				}
				if err := c.(*net.TCPConn).CloseWrite(); err != nil {
					t.Fatal(err)
				}
				got := readReply(t, bufio.NewReader(c), "POST")
				if got.StatusCode != 400 || got.reason() != "bad_request" || !got.Close {
					t.Errorf("answered with %d %s", got.StatusCode, got.body)
				}
				if requests, rest := origin.take(); len(requests) > 0 || path == "/pub" && rest != "" {
					t.Errorf("the origin received %q and %q", requests, rest)
				}
			})
		}
		stillWorks(t, g)
	}
}

// Property 13: a client that never finishes holds a connection for a bounded
// time, and is told so.
func TestTooSlow(t *testing.T) {
	baseline(t)
	origin := newLedger(t)
	g := startGateway(t, func(o *Options, p *Policy) {
		o.Limits.HeaderTimeout, o.Limits.IdleTimeout = 50*time.Millisecond, 50*time.Millisecond
		for i := range p.Routes {
			p.Routes[i].BodyTimeout = 50 * time.Millisecond
		}
	}, origin.addr)
	for _, tc := range []struct{ name, request string }{
		{"request line", "GET /pub"},
		{"first bytes", "G"},
		{"empty line before it", "\r\n"},
		{"head", "GET /pub HTTP/1.1\r\nHost: a\r\n"},
		{"counted body", post("Content-Length: 10\r\n", "hello")},
		{"counted body, nothing of it", post("Content-Length: 10\r\n", "")},
		{"counted body, asked first", post("Content-Length: 10\r\nExpect: 100-continue\r\n", "")},
		{"chunked body", chunked("5\r\nhel")},
		{"chunked body to a stream", strings.ReplaceAll(chunked("5\r\nhel"), "/pub", "/stream")},
		{"counted body to a stream", strings.ReplaceAll(post("Content-Length: 10\r\n", "hello"), "/pub", "/stream")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := dial(t, g.addr)
			if _, err := io.WriteString(c, tc.request); err != nil {
				t.Fatal(err)
			}
			r := bufio.NewReader(c)
			got := readReply(t, r, "POST")
			if got.StatusCode == 100 {
				got = readReply(t, r, "POST")
			}
			if got.StatusCode != 408 || got.reason() != "request_timeout" || !got.Close {
				t.Errorf("answered with %d %s", got.StatusCode, got.body)
			}
			if requests, _ := origin.take(); len(requests) > 0 {
				t.Errorf("the origin received %q", requests)
			}
		})
	}
	t.Run("nothing at all", func(t *testing.T) {
		if got := raw(t, g.addr, ""); got != "" {
			t.Errorf("a silent connection was told %q", got)
		}
	})
	t.Run("nothing after a first request", func(t *testing.T) {
		c := dial(t, g.addr)
		r := bufio.NewReader(c)
		_, _ = io.WriteString(c, get(""))
		if got := readReply(t, r, "GET"); got.StatusCode != 200 {
			t.Errorf("answered with %d", got.StatusCode)
		}
		if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
			t.Errorf("an idle connection was told %q, %v", rest, err)
		}
	})
	stillWorks(t, g)
}
