package proxy

import (
	"bufio"
	"io"
	"net/netip"
	"regexp"
	"strings"
	"testing"
)

// forwarded is a request that gets through, with what exactly the origin sees.
type forwarded struct {
	name    string
	request string
	want    string // the origin's view; see expand for the placeholders
}

// added is what the gateway adds behind the client's own fields; {xff} and so
// on stand for what differs from request to request.
const (
	forwardedFacts = "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\n"
	ownFacts       = "Via: 1.1 {via}\r\nX-Request-Id: {id}\r\ntraceparent: {trace}\r\n"
	added          = forwardedFacts + ownFacts
	addedPub       = added + "Sluice-Tenant: anonymous\r\nSluice-Class: standard\r\n\r\n"
	addedStream    = added + "Sluice-Tenant: anonymous\r\nSluice-Class: critical\r\n\r\n"
	addedElse      = added + "\r\n"
)

var forwardedRequests = []forwarded{
	{"plain", get(""), "GET /pub HTTP/1.1\r\nHost: a\r\n" + addedPub},
	{"unmatched", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n" + addedElse},
	{"streamed", "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n", "GET /stream HTTP/1.1\r\nHost: a\r\n" + addedStream},
	{"one empty line first", "\r\n" + get(""), "GET /pub HTTP/1.1\r\nHost: a\r\n" + addedPub},
	{"names keep their case, values their bytes, repeats their order",
		get("x-lOwEr: v\r\nX-A:  two  blanks \t\r\nX-A:\r\nX-A: b\r\nx-a: \xe9\xff\"\\,;\r\n"),
		"GET /pub HTTP/1.1\r\nHost: a\r\nx-lOwEr: v\r\nX-A:  two  blanks \t\r\nX-A:\r\nX-A: b\r\nx-a: \xe9\xff\"\\,;\r\n" + addedPub},
	{"cookies", get("Cookie: a=\"1\"; =x; b\r\nCookie: c=d;\r\n"), "GET /pub HTTP/1.1\r\nHost: a\r\nCookie: a=\"1\"; =x; b\r\nCookie: c=d;\r\n" + addedPub},
	{"repeated singletons of no concern to us", get("User-Agent: a\r\nUser-Agent: b\r\nContent-Type: x\r\nContent-Type: y\r\nRange: bytes=0-1\r\nIf-Range: \"x\"\r\n"),
		"GET /pub HTTP/1.1\r\nHost: a\r\nUser-Agent: a\r\nUser-Agent: b\r\nContent-Type: x\r\nContent-Type: y\r\nRange: bytes=0-1\r\nIf-Range: \"x\"\r\n" + addedPub},
	{"key and authorization", get("Idempotency-Key: \"k 1\"\r\nAuthorization: Bearer x\r\n"), "GET /pub HTTP/1.1\r\nHost: a\r\nIdempotency-Key: \"k 1\"\r\nAuthorization: Bearer x\r\n" + addedPub},
	{"raw target", line("GET /pub/%2f..%zz/a//b;c=%41?a=%20&&b=?/:@\\^|`{}\"<>[] HTTP/1.1"), "GET /pub/%2f..%zz/a//b;c=%41?a=%20&&b=?/:@\\^|`{}\"<>[] HTTP/1.1\r\nHost: a\r\n" + addedPub},
	{"target beyond ASCII", line("GET /pub/\xc3\xbc\xff?\xe9 HTTP/1.1"), "GET /pub/\xc3\xbc\xff?\xe9 HTTP/1.1\r\nHost: a\r\n" + addedPub},
	{"target that begins with two slashes", line("GET //pub HTTP/1.1"), "GET //pub HTTP/1.1\r\nHost: a\r\n" + addedElse},
	{"empty query", line("GET /pub? HTTP/1.1"), "GET /pub? HTTP/1.1\r\nHost: a\r\n" + addedPub},
	{"target at its limit", line("GET /pub" + strings.Repeat("x", 8<<10-4) + " HTTP/1.1"), "GET /pub" + strings.Repeat("x", 8<<10-4) + " HTTP/1.1\r\nHost: a\r\n" + addedPub},
	{"headers at their limit", get("X: " + strings.Repeat("x", 16<<10-14) + "\r\n"), "GET /pub HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 16<<10-14) + "\r\n" + addedPub},
	{"many headers", get(strings.Repeat("a:\r\n", 2000)), "GET /pub HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("a:\r\n", 2000) + addedPub},
	{"a method of its own", line("M-SEARCH /pub HTTP/1.1"), "M-SEARCH /pub HTTP/1.1\r\nHost: a\r\n" + addedPub},
	{"a method of 24 letters", line(strings.Repeat("M", 24) + " /pub HTTP/1.1"), strings.Repeat("M", 24) + " /pub HTTP/1.1\r\nHost: a\r\n" + addedPub},
	{"OPTIONS of a path", line("OPTIONS /pub HTTP/1.1"), "OPTIONS /pub HTTP/1.1\r\nHost: a\r\n" + addedPub},
	{"Host with a port", host(" Api.Example:8080"), "GET /pub HTTP/1.1\r\nHost: Api.Example:8080\r\n" + strings.ReplaceAll(addedPub, "Host: a", "Host: Api.Example:8080")},
	{"Host in brackets", host(" [::1]:80"), "GET /pub HTTP/1.1\r\nHost: [::1]:80\r\n" + strings.ReplaceAll(addedPub, "Host: a", "Host: [::1]:80")},
	{"Host empty", host(""), "GET /pub HTTP/1.1\r\nHost:\r\n" + strings.ReplaceAll(addedPub, "X-Forwarded-Host: a\r\n", "")},

	{"body", post("Content-Length: 5\r\n", "hello"), "POST /pub HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n" + addedPub + "hello"},
	{"body with Content-Length first", "POST /pub HTTP/1.1\r\ncontent-length:5\r\nHost: a\r\n\r\nhello", "POST /pub HTTP/1.1\r\ncontent-length:5\r\nHost: a\r\n" + addedPub + "hello"},
	{"body of nothing", post("Content-Length: 0\r\n", ""), "POST /pub HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n" + addedPub},
	{"no body and no length", post("", ""), "POST /pub HTTP/1.1\r\nHost: a\r\n" + addedPub},
	{"GET with a body", get("Content-Length: 5\r\n") + "hello", "GET /pub HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n" + addedPub + "hello"},
	{"body that looks like a request", post("Content-Length: "+itoa(len(next))+"\r\n", next), "POST /pub HTTP/1.1\r\nHost: a\r\nContent-Length: " + itoa(len(next)) + "\r\n" + addedPub + next},
	{"body of any bytes", post("Content-Length: 6\r\nContent-Encoding: gzip\r\n", "\x00\r\n\r\n\xff"), "POST /pub HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nContent-Encoding: gzip\r\n" + addedPub + "\x00\r\n\r\n\xff"},
	{"multipart", post("Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 56\r\n", "--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\ny\r\n--b--"[:56]), "POST /pub HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 56\r\n" + addedPub + "--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\ny\r\n--b--"[:56]},
	{"large body", post("Content-Length: 1048576\r\n", strings.Repeat("0123456789abcdef", 64<<10)), "POST /pub HTTP/1.1\r\nHost: a\r\nContent-Length: 1048576\r\n" + addedPub + strings.Repeat("0123456789abcdef", 64<<10)},
	{"streamed body", "POST /stream HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", "POST /stream HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n" + addedStream + "hello"},
	{"chunks are counted where the body is buffered", chunked("5;x=\"y\"\r\nhello\r\n6\r\n world\r\n00;z\r\n\r\n"), "POST /pub HTTP/1.1\r\nHost: a\r\n" + "Content-Length: 11\r\n" + addedPub + "hello world"},
	{"no chunks", chunked("0\r\n\r\n"), "POST /pub HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n" + addedPub},
	{"chunked in capitals", post("Transfer-Encoding:  Chunked \r\n", "A\r\n0123456789\r\n0\r\n\r\n"), "POST /pub HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n" + addedPub + "0123456789"},
	{"chunks are framed anew where the body is streamed", strings.ReplaceAll(chunked("05;x=y\r\nhello\r\n0\r\n\r\n"), "/pub", "/stream"), "POST /stream HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n" + addedStream + chunked5},
	{"no chunks, streamed", strings.ReplaceAll(chunked("0\r\n\r\n"), "/pub", "/stream"), "POST /stream HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n" + addedStream + "0\r\n\r\n"},

	{"hop-by-hop fields end here", get("Connection: keep-alive, X-Hop\r\nConnection: x-other\r\nX-Hop: 1\r\nX-Other: 2\r\nX-Stays: 3\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\nProxy-Connection: close\r\nProxy-Authorization: Basic eA==\r\nHTTP2-Settings: AAA\r\nUpgrade: websocket\r\n"),
		"GET /pub HTTP/1.1\r\nHost: a\r\nX-Stays: 3\r\n" + addedPub},
	{"an upgrade where the route allows none", get("Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n"), "GET /pub HTTP/1.1\r\nHost: a\r\nSec-WebSocket-Key: x\r\n" + addedPub},
	{"an upgrade where it does", "GET /stream HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Key: x\r\n\r\n", "GET /stream HTTP/1.1\r\nHost: a\r\nUpgrade: WebSocket\r\nSec-WebSocket-Key: x\r\nConnection: Upgrade\r\n" + addedStream},
	{"an upgrade to HTTP/2 would be a way around every gate", "GET /stream HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n", "GET /stream HTTP/1.1\r\nHost: a\r\n" + addedStream},
	{"an upgrade to one of several", "GET /stream HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c, websocket\r\n\r\n", "GET /stream HTTP/1.1\r\nHost: a\r\n" + addedStream},
	{"two Upgrade lines", "GET /stream HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n\r\n", "GET /stream HTTP/1.1\r\nHost: a\r\n" + addedStream},
	{"an upgrade with a body", "POST /stream HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 5\r\n\r\nhello", "POST /stream HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n" + addedStream + "hello"},
	{"Expect is ours to answer", post("Content-Length: 0\r\nExpect: 100-Continue\r\n", ""), "POST /pub HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n" + addedPub},

	{"what a client says of itself is not believed", get("X-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil\r\nX-Forwarded-Port: 1\r\nX-Forwarded-User: root\r\nX-Real-IP: 9.9.9.9\r\nForwarded: for=9.9.9.9\r\nX-Request-Id: mine\r\n"), "GET /pub HTTP/1.1\r\nHost: a\r\n" + addedPub},
	{"our names are ours", get("Sluice-Tenant: evil\r\nsluice-class: critical\r\nSluice-Attempt: 9\r\nSluice-Ticket: x\r\nSLUICE-ANYTHING: y\r\n"), "GET /pub HTTP/1.1\r\nHost: a\r\n" + addedPub},
	{"look-alikes end here", get("X_Forwarded_For: 9.9.9.9\r\nX-Forwarded_Proto: https\r\nx_forwarded_user: root\r\nX_Real_IP: 9.9.9.9\r\nContent_Length: 5\r\nTransfer_Encoding: chunked\r\nSluice_Tenant: evil\r\nIdempotency_Key: x\r\nX_Request_Id: x\r\nProxy_Authorization: x\r\nX_Other: stays\r\n"), "GET /pub HTTP/1.1\r\nHost: a\r\nX_Other: stays\r\n" + addedPub},
	{"the tenant it names", get("X-Tenant-Id: acme\r\n"), "GET /pub HTTP/1.1\r\nHost: a\r\nX-Tenant-Id: acme\r\n" + strings.ReplaceAll(addedPub, "anonymous", "acme")},
	{"a tenant named in a field that Connection drops is dropped for us too", get("Connection: X-Tenant-Id\r\nX-Tenant-Id: acme\r\n"), "GET /pub HTTP/1.1\r\nHost: a\r\n" + addedPub},
	{"Via is added to", get("Via: 1.0 first\r\nVia: 1.1 second (x)\r\n"), "GET /pub HTTP/1.1\r\nHost: a\r\nVia: 1.0 first\r\nVia: 1.1 second (x)\r\n" + addedPub},
	{"a trace goes on", get("traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\ntracestate: a=b\r\ntracestate: c=d\r\n"),
		"GET /pub HTTP/1.1\r\nHost: a\r\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\ntracestate: a=b\r\ntracestate: c=d\r\n" + strings.ReplaceAll(addedPub, "traceparent: {trace}\r\n", "")},
	{"a malformed trace begins anew", get("traceparent: 00-00000000000000000000000000000000-b7ad6b7169203331-01\r\ntracestate: a=b\r\n"), "GET /pub HTTP/1.1\r\nHost: a\r\n" + addedPub},
	{"two traces begin anew", get("traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00\r\ntracestate: a=b\r\n"), "GET /pub HTTP/1.1\r\nHost: a\r\n" + addedPub},

	{"HTTP/1.0", "GET /pub HTTP/1.0\r\n\r\n", "GET /pub HTTP/1.1\r\nHost: {origin}\r\n" + strings.ReplaceAll(addedPub, "X-Forwarded-Host: a\r\n", "")},
	{"HTTP/1.0 with a body", "POST /pub HTTP/1.0\r\nHost: a\r\nContent-Length: 5\r\nConnection: keep-alive\r\nExpect: 100-continue\r\n\r\nhello", "POST /pub HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n" + addedPub + "hello"},
}

// Property 12: the origin sees what the client sent, byte for byte, but for
// what ends at this hop and what the gateway adds.
func TestForwarded(t *testing.T) {
	baseline(t)
	origin := newLedger(t)
	g := startGateway(t, nil, origin.addr)
	t.Logf("%d requests", len(forwardedRequests))
	for _, tc := range forwardedRequests {
		t.Run(tc.name, func(t *testing.T) {
			checkForwarded(t, g, origin, tc)
		})
	}
}

// Property 12, with a proxy in front that is to be believed.
func TestForwardedFromTrustedProxy(t *testing.T) {
	baseline(t)
	origin := newLedger(t)
	g := startGateway(t, func(_ *Options, p *Policy) {
		p.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		p.Forwarded = true
	}, origin.addr)
	own := "Forwarded: for=127.0.0.1;proto=http;host=\"a\"\r\nVia: 1.1 {via}\r\nX-Request-Id: {id}\r\ntraceparent: {trace}\r\nSluice-Tenant: anonymous\r\nSluice-Class: standard\r\n\r\n"
	for _, tc := range []forwarded{
		{"nothing said", get(""), "GET /pub HTTP/1.1\r\nHost: a\r\n" + forwardedFacts + own},
		{"everything said", get("X-Forwarded-For: 9.9.9.9\r\nx-forwarded-for: 8.8.8.8\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: public\r\nX-Forwarded-Port: 443\r\nX-Real-IP: 9.9.9.9\r\nForwarded: for=9.9.9.9\r\n"),
			"GET /pub HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: public\r\nX-Forwarded-Port: 443\r\nX-Real-IP: 9.9.9.9\r\nForwarded: for=9.9.9.9\r\nX-Forwarded-For: 9.9.9.9, 8.8.8.8, 127.0.0.1\r\n" + own},
		{"request id", get("X-Request-Id: from-the-edge\r\n"), "GET /pub HTTP/1.1\r\nHost: a\r\n" + forwardedFacts + strings.ReplaceAll(own, "{id}", "from-the-edge")},
		{"request id with a quote", get("X-Request-Id: a\"b\r\n"), "GET /pub HTTP/1.1\r\nHost: a\r\n" + forwardedFacts + own},
		{"request id too long", get("X-Request-Id: " + strings.Repeat("x", 129) + "\r\n"), "GET /pub HTTP/1.1\r\nHost: a\r\n" + forwardedFacts + own},
		{"two request ids", get("X-Request-Id: a\r\nX-Request-Id: b\r\n"), "GET /pub HTTP/1.1\r\nHost: a\r\n" + forwardedFacts + own},
		{"our names are ours even so", get("Sluice-Tenant: evil\r\nX_Forwarded_For: 9.9.9.9\r\n"), "GET /pub HTTP/1.1\r\nHost: a\r\n" + forwardedFacts + own},
	} {
		t.Run(tc.name, func(t *testing.T) {
			checkForwarded(t, g, origin, tc)
		})
	}
}

func checkForwarded(t *testing.T, g *gateway, origin *ledger, tc forwarded) {
	t.Helper()
	c := dial(t, g.addr)
	defer c.Close()
	go func() { _, _ = io.WriteString(c, tc.request) }()
	got := readReply(t, bufio.NewReader(c), "GET")
	if got.StatusCode != 200 {
		t.Fatalf("answered with %d %s", got.StatusCode, got.body)
	}
	requests, rest := origin.take()
	if len(requests) != 1 || rest != "" {
		t.Fatalf("the origin received %.500q and %.500q", requests, rest)
	}
	if err := matches(requests[0], tc.want, g, origin); err != "" {
		t.Error(err)
	}
	if id := got.Header.Get("X-Request-Id"); !strings.Contains(requests[0], "X-Request-Id: "+id+"\r\n") {
		t.Errorf("client and origin are given different request ids")
	}
}

var placeholder = regexp.MustCompile(`\{(id|trace)\}`)

var placeholders = strings.NewReplacer(
	`\{id\}`, `[0-9a-f]{32}`,
	`\{trace\}`, `00-[0-9a-f]{32}-[0-9a-f]{16}-00`,
)

// matches compares what the origin received with what it should have. It looks
// at the placeholders' part with an expression and at the rest byte by byte.
func matches(got, want string, g *gateway, origin *ledger) string {
	want = strings.NewReplacer("{via}", g.via, "{origin}", origin.addr).Replace(want)
	if i := placeholder.FindStringIndex(want); i != nil {
		if from := strings.LastIndex(want[:i[0]], "\r\n"); from >= 0 && strings.HasPrefix(got, want[:from]) {
			i := strings.Index(want[from:], "\r\n\r\n") + from
			pattern := placeholders.Replace(regexp.QuoteMeta(want[from:i]))
			m := regexp.MustCompile(`^` + pattern).FindString(got[from:])
			if m != "" && got[from+len(m):] == want[i:] {
				return ""
			}
		}
	} else if got == want {
		return ""
	}
	return "the origin received\n" + clip(got) + "\nwant\n" + clip(want)
}

func clip(s string) string {
	if len(s) > 1200 {
		return s[:600] + " … " + s[len(s)-600:]
	}
	return s
}

// A request that comes around again is told so, and goes no further.
func TestLoop(t *testing.T) {
	baseline(t)
	origin := newLedger(t)
	g := startGateway(t, nil, origin.addr)
	for _, via := range []string{"1.1 {via}", "1.0 other, 1.1 {via} (comment)", "1.1 a\r\nVia: HTTP/1.1 {via}"} {
		got := ask(t, g.addr, get("Via: "+strings.ReplaceAll(via, "{via}", g.via)+"\r\n"))
		if got.StatusCode != 508 || got.reason() != "loop_detected" {
			t.Errorf("%s: answered with %d %s", via, got.StatusCode, got.body)
		}
	}
	for _, via := range []string{"1.1 {via}x", "1.1 x{via}", "1.1 other (1.1 {via})", "{via}"} {
		if got := ask(t, g.addr, get("Via: "+strings.ReplaceAll(via, "{via}", g.via)+"\r\n")); got.StatusCode != 200 {
			t.Errorf("%s: answered with %d %s", via, got.StatusCode, got.body)
		}
	}
	if requests, rest := origin.take(); len(requests) != 4 || rest != "" {
		t.Errorf("the origin received %d requests and %q", len(requests), rest)
	}
}
