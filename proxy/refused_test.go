package proxy

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"strings"
	"testing"
)

// refusal is a request that must not get through, with the exact answer.
type refusal struct {
	name    string
	request string // as sent; /pub stands for a path of each kind of route
	status  int
	reason  string
}

// get and post make requests that are valid but for what is inserted.
func get(fields string) string { return "GET /pub HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n" }
func post(fields, body string) string {
	return "POST /pub HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n" + body
}
func line(requestLine string) string { return requestLine + "\r\nHost: a\r\n\r\n" }
func host(value string) string       { return "GET /pub HTTP/1.1\r\nHost:" + value + "\r\n\r\n" }

const chunked5 = "5\r\nhello\r\n0\r\n\r\n"

// refusedHeads are refused for what their heads say, on every route alike.
var refusedHeads = []refusal{
	// Two framings: whoever reads the other one sees another request.
	{"CL.TE", post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", chunked5), 400, "bad_request"},
	{"TE.CL", post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", chunked5), 400, "bad_request"},
	{"TE with CL 0", post("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", chunked5), 400, "bad_request"},
	{"TE.TE chunked twice", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", chunked5), 400, "bad_request"},
	{"TE.TE chunked then identity", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", chunked5), 400, "bad_request"},
	{"TE.TE identity then chunked", post("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", chunked5), 501, "encoding_unsupported"},
	{"TE identity", post("Transfer-Encoding: identity\r\n", ""), 501, "encoding_unsupported"},
	{"TE gzip, chunked", post("Transfer-Encoding: gzip, chunked\r\n", chunked5), 501, "encoding_unsupported"},
	{"TE chunked, gzip", post("Transfer-Encoding: chunked, gzip\r\n", chunked5), 501, "encoding_unsupported"},
	{"TE chunked, chunked", post("Transfer-Encoding: chunked, chunked\r\n", chunked5), 501, "encoding_unsupported"},
	{"TE chunked, identity", post("Transfer-Encoding: chunked, identity\r\n", chunked5), 501, "encoding_unsupported"},
	{"TE with a parameter", post("Transfer-Encoding: chunked;q=1\r\n", chunked5), 501, "encoding_unsupported"},
	{"TE quoted", post("Transfer-Encoding: \"chunked\"\r\n", chunked5), 501, "encoding_unsupported"},
	{"TE xchunked", post("Transfer-Encoding: xchunked\r\n", chunked5), 501, "encoding_unsupported"},
	{"TE with a comma after", post("Transfer-Encoding: chunked,\r\n", chunked5), 501, "encoding_unsupported"},
	{"TE empty", post("Transfer-Encoding:\r\n", chunked5), 400, "bad_request"},
	{"TE vertical tab", post("Transfer-Encoding: \vchunked\r\n", chunked5), 400, "bad_request"},
	{"TE in HTTP/1.0", "POST /pub HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked5, 400, "bad_request"},
	{"TE with a space before the colon", post("Transfer-Encoding : chunked\r\n", chunked5), 400, "bad_request"},
	{"TE with a tab before the colon", post("Transfer-Encoding\t: chunked\r\n", chunked5), 400, "bad_request"},
	{"TE folded", post("Transfer-Encoding:\r\n chunked\r\n", chunked5), 400, "bad_request"},
	{"TE behind a bare LF", post("X: y\nTransfer-Encoding: chunked\r\n", chunked5), 400, "bad_request"},
	{"TE behind a bare CR", post("X: y\rTransfer-Encoding: chunked\r\n", chunked5), 400, "bad_request"},

	{"CL twice, equal", post("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"), 400, "bad_request"},
	{"CL twice, different", post("Content-Length: 5\r\nContent-Length: 6\r\n", "hello!"), 400, "bad_request"},
	{"CL twice in other case", post("Content-Length: 5\r\ncontent-length: 6\r\n", "hello!"), 400, "bad_request"},
	{"CL list", post("Content-Length: 5, 5\r\n", "hello"), 400, "bad_request"},
	{"CL with plus", post("Content-Length: +5\r\n", "hello"), 400, "bad_request"},
	{"CL with minus", post("Content-Length: -5\r\n", "hello"), 400, "bad_request"},
	{"CL minus zero", post("Content-Length: -0\r\n", ""), 400, "bad_request"},
	{"CL hex", post("Content-Length: 0x5\r\n", "hello"), 400, "bad_request"},
	{"CL with exponent", post("Content-Length: 5e0\r\n", "hello"), 400, "bad_request"},
	{"CL with a dot", post("Content-Length: 5.0\r\n", "hello"), 400, "bad_request"},
	{"CL with an underscore", post("Content-Length: 1_0\r\n", "hello"), 400, "bad_request"},
	{"CL with a space inside", post("Content-Length: 5 5\r\n", "hello"), 400, "bad_request"},
	{"CL quoted", post("Content-Length: \"5\"\r\n", "hello"), 400, "bad_request"},
	{"CL empty", post("Content-Length:\r\n", ""), 400, "bad_request"},
	{"CL of 2^64 + 5", post("Content-Length: 18446744073709551621\r\n", "hello"), 400, "bad_request"},
	{"CL of 2^63", post("Content-Length: 9223372036854775808\r\n", "hello"), 400, "bad_request"},
	{"CL in other digits", post("Content-Length: \u0665\r\n", "hello"), 400, "bad_request"},
	{"CL folded", post("Content-Length:\r\n 5\r\n", "hello"), 400, "bad_request"},
	{"CL with a name after it", post("Content-Length x: 5\r\n", "hello"), 400, "bad_request"},

	// Lines.
	{"fold with a space", get("X: y\r\n z\r\n"), 400, "bad_request"},
	{"fold with a tab", get("X: y\r\n\tz\r\n"), 400, "bad_request"},
	{"fold of the first field", "GET /pub HTTP/1.1\r\n Host: a\r\n\r\n", 400, "bad_request"},
	{"line of blanks", get(" \r\n"), 400, "bad_request"},
	{"bare LF after the request line", "GET /pub HTTP/1.1\nHost: a\r\n\r\n", 400, "bad_request"},
	{"bare LF everywhere", "GET /pub HTTP/1.1\nHost: a\n\n", 400, "bad_request"},
	{"bare LF after a field", "GET /pub HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", 400, "bad_request"},
	{"bare LF ends the head", "GET /pub HTTP/1.1\r\nHost: a\r\n\n", 400, "bad_request"},
	{"LF LF inside the head", "GET /pub HTTP/1.1\r\nHost: a\r\nX: y\n\nGET /pub/inner HTTP/1.1\r\nHost: a\r\n\r\n", 400, "bad_request"},
	{"bare CR ends a line", "GET /pub HTTP/1.1\rHost: a\r\n\r\n", 400, "bad_request"},
	{"bare CR in a value", get("X: a\rb\r\n"), 400, "bad_request"},
	{"CR CR LF ends a field", get("X: a\r\r\n"), 400, "bad_request"},
	{"CR CR LF ends the head", "GET /pub HTTP/1.1\r\nHost: a\r\n\r\r\n", 400, "bad_request"},
	{"CR CR LF ends the request line", "GET /pub HTTP/1.1\r\r\nHost: a\r\n\r\n", 400, "bad_request"},
	{"NUL in a value", get("X: a\x00b\r\n"), 400, "bad_request"},
	{"DEL in a value", get("X: a\x7fb\r\n"), 400, "bad_request"},
	{"escape in a value", get("X: \x1b[31m\r\n"), 400, "bad_request"},
	{"control character late in a long value", get("X: " + strings.Repeat("a", 100) + "\x01" + strings.Repeat("b", 3) + "\r\n"), 400, "bad_request"},
	{"two empty lines first", "\r\n\r\n" + get(""), 400, "bad_request"},
	{"LF first", "\n" + get(""), 400, "bad_request"},
	{"space first", " " + get(""), 400, "bad_request"},

	// Names.
	{"name with a space", get("X Y: z\r\n"), 400, "bad_request"},
	{"name with a space before the colon", get("X : z\r\n"), 400, "bad_request"},
	{"Host with a space before the colon", "GET /pub HTTP/1.1\r\nHost : a\r\n\r\n", 400, "bad_request"},
	{"name empty", get(": z\r\n"), 400, "bad_request"},
	{"no colon", get("XYZ\r\n"), 400, "bad_request"},
	{"NUL in a name", get("X\x00Y: z\r\n"), 400, "bad_request"},
	{"NUL after a name", get("Content-Length\x00: 5\r\n"), 400, "bad_request"},
	{"delimiter in a name", get("X(Y): z\r\n"), 400, "bad_request"},
	{"quoted name", get("\"X\": z\r\n"), 400, "bad_request"},
	{"byte above 0x7f in a name", get("X\xe9: z\r\n"), 400, "bad_request"},
	{"request line where a field should be", get("GET /pub/inner HTTP/1.1\r\n"), 400, "bad_request"},

	// Request lines.
	{"HTTP/0.9", "GET /pub\r\n\r\n", 400, "bad_request"},
	{"HTTP/0.9 with a blank", "GET /pub \r\n\r\n", 400, "bad_request"},
	{"version 2.0", line("GET /pub HTTP/2.0"), 505, "version_unsupported"},
	{"version 3.0", line("GET /pub HTTP/3.0"), 505, "version_unsupported"},
	{"version 1.2", line("GET /pub HTTP/1.2"), 505, "version_unsupported"},
	{"version 0.9", line("GET /pub HTTP/0.9"), 505, "version_unsupported"},
	{"version 9.9", line("GET /pub HTTP/9.9"), 505, "version_unsupported"},
	{"version 1.10", line("GET /pub HTTP/1.10"), 505, "version_unsupported"},
	{"version in lower case", line("GET /pub http/1.1"), 400, "bad_request"},
	{"version of another protocol", line("GET /pub ICY/1.1"), 400, "bad_request"},
	{"version with a letter", line("GET /pub HTTP/1.1x"), 400, "bad_request"},
	{"version followed by a blank", line("GET /pub HTTP/1.1 "), 400, "bad_request"},
	{"two blanks before the version", line("GET /pub  HTTP/1.1"), 400, "bad_request"},
	{"two blanks before the target", line("GET  /pub HTTP/1.1"), 400, "bad_request"},
	{"tabs for blanks", line("GET\t/pub\tHTTP/1.1"), 400, "bad_request"},
	{"blank in the target", line("GET /pub /x HTTP/1.1"), 400, "bad_request"},
	{"no target", line("GET HTTP/1.1"), 400, "bad_request"},
	{"absolute-form", line("GET http://a/pub HTTP/1.1"), 400, "bad_request"},
	{"absolute-form of another host", line("GET http://evil/pub HTTP/1.1"), 400, "bad_request"},
	{"scheme only", line("GET http: HTTP/1.1"), 400, "bad_request"},
	{"authority-form", line("GET a:80 HTTP/1.1"), 400, "bad_request"},
	{"relative target", line("GET pub HTTP/1.1"), 400, "bad_request"},
	{"query only", line("GET ?a=b HTTP/1.1"), 400, "bad_request"},
	{"fragment", line("GET /pub#x HTTP/1.1"), 400, "bad_request"},
	{"NUL in the target", line("GET /pub\x00 HTTP/1.1"), 400, "bad_request"},
	{"tab in the target", line("GET /pub\tx HTTP/1.1"), 400, "bad_request"},
	{"DEL in the target", line("GET /pub\x7f HTTP/1.1"), 400, "bad_request"},
	{"CR in the target", line("GET /pub\rX: HTTP/1.1"), 400, "bad_request"},
	{"CONNECT", line("CONNECT a:443 HTTP/1.1"), 405, "method_not_allowed"},
	{"CONNECT to a path", line("CONNECT /pub HTTP/1.1"), 405, "method_not_allowed"},
	{"TRACE", line("TRACE /pub HTTP/1.1"), 405, "method_not_allowed"},
	{"OPTIONS *", line("OPTIONS * HTTP/1.1"), 405, "method_not_allowed"},
	{"lower-case method", line("get /pub HTTP/1.1"), 405, "method_not_allowed"},
	{"mixed-case method", line("Post /pub HTTP/1.1"), 405, "method_not_allowed"},
	{"method of 25 letters", line(strings.Repeat("M", 25) + " /pub HTTP/1.1"), 405, "method_not_allowed"},
	{"method with a delimiter", line("GE(T /pub HTTP/1.1"), 400, "bad_request"},
	{"NUL in the method", line("GE\x00T /pub HTTP/1.1"), 400, "bad_request"},
	{"no method", line("/pub HTTP/1.1"), 400, "bad_request"},

	// Other protocols on this port.
	{"TLS", "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03", 400, "bad_request"},
	{"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "version_unsupported"},
	{"PROXY protocol 1", "PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n" + get(""), 400, "bad_request"},
	{"PROXY protocol 2", "\r\n\r\n\x00\r\nQUIT\n\x21\x11", 400, "bad_request"},
	{"SSH", "SSH-2.0-OpenSSH_9.9\r\n", 400, "bad_request"},
	{"Redis", "*1\r\n$4\r\nPING\r\n", 400, "bad_request"},

	// Host.
	{"no Host", "GET /pub HTTP/1.1\r\n\r\n", 400, "bad_request"},
	{"Host twice", get("Host: a\r\n"), 400, "bad_request"},
	{"Host twice, different", get("host: b\r\n"), 400, "bad_request"},
	{"Host with userinfo", host(" u:p@evil"), 400, "bad_request"},
	{"Host with user", host(" u@evil"), 400, "bad_request"},
	{"Host with a path", host(" a/b"), 400, "bad_request"},
	{"Host with a query", host(" a?b"), 400, "bad_request"},
	{"Host with percent-encoding", host(" a%2eb"), 400, "bad_request"},
	{"Host list", host(" a, b"), 400, "bad_request"},
	{"Host with a blank", host(" a b"), 400, "bad_request"},
	{"Host with a scheme", host(" http://a"), 400, "bad_request"},
	{"Host with a named port", host(" a:http"), 400, "bad_request"},
	{"Host with two ports", host(" a:80:81"), 400, "bad_request"},
	{"Host with a port of six digits", host(" a:123456"), 400, "bad_request"},
	{"Host of a port only", host(" :80"), 400, "bad_request"},
	{"Host with an open bracket", host(" [::1"), 400, "bad_request"},
	{"Host with empty brackets", host(" []"), 400, "bad_request"},
	{"Host with a zone", host(" [fe80::1%25eth0]"), 400, "bad_request"},
	{"Host with text after the bracket", host(" [::1]evil"), 400, "bad_request"},
	{"Host beyond ASCII", host(" b\xc3\xbccher"), 400, "bad_request"},

	// Fields that say who asks, and for what.
	{"Idempotency-Key twice", get("Idempotency-Key: a\r\nIdempotency-Key: b\r\n"), 400, "bad_request"},
	{"Idempotency-Key twice in other case", get("Idempotency-Key: a\r\nidempotency-key: a\r\n"), 400, "bad_request"},
	{"Authorization twice", get("Authorization: Bearer a\r\nauthorization: Bearer b\r\n"), 400, "bad_request"},
	{"Trailer announced", post("Transfer-Encoding: chunked\r\nTrailer: X-Tenant-Id\r\n", chunked5), 400, "bad_request"},
	{"Trailer announced without a body", get("Trailer: X-Tenant-Id\r\n"), 400, "bad_request"},
	{"Trailer empty", get("Trailer:\r\n"), 400, "bad_request"},
	{"Expect of something else", post("Content-Length: 5\r\nExpect: 200-ok\r\n", "hello"), 417, "expectation_failed"},
	{"Expect of more", post("Content-Length: 5\r\nExpect: 100-continue, x\r\n", "hello"), 417, "expectation_failed"},
	{"Expect with a parameter", post("Content-Length: 5\r\nExpect: 100-continue;x=1\r\n", "hello"), 417, "expectation_failed"},
	{"Expect empty", get("Expect:\r\n"), 417, "expectation_failed"},
	{"Connection names Host", get("Connection: close, Host\r\n"), 400, "bad_request"},
	{"Connection names Content-Length", post("Content-Length: 5\r\nConnection: content-length\r\n", "hello"), 400, "bad_request"},
	{"Connection names Authorization", get("Connection: Authorization\r\n"), 400, "bad_request"},
	{"Connection names Cookie", get("Connection: cookie\r\n"), 400, "bad_request"},
	{"Connection names Content-Type", get("Connection: Content-Type\r\n"), 400, "bad_request"},
	{"Connection names Idempotency-Key", get("Connection: Idempotency-Key\r\n"), 400, "bad_request"},
	{"Connection names X-Forwarded-For", get("Connection: X-Forwarded-For\r\n"), 400, "bad_request"},
	{"Connection names X-Request-Id", get("Connection: X-Request-Id\r\n"), 400, "bad_request"},
	{"Connection names traceparent", get("Connection: traceparent\r\n"), 400, "bad_request"},
	{"Connection names Sluice-Tenant", get("Connection: Sluice-Tenant\r\n"), 400, "bad_request"},
	{"Connection names Via", get("Connection: Via\r\n"), 400, "bad_request"},
	{"the second Connection line names Host", get("Connection: close\r\nConnection: X, Host\r\n"), 400, "bad_request"},
	{"Connection names very many fields", get("Connection: " + strings.Repeat("x,", 4000) + "\r\n"), 400, "bad_request"},

	// Limits.
	{"target over its limit", line("GET /pub" + strings.Repeat("x", 8<<10) + " HTTP/1.1"), 414, "uri_too_long"},
	{"target far over its limit, unfinished", "GET /pub" + strings.Repeat("x", 64<<10), 414, "uri_too_long"},
	{"headers over their limit", get("X: " + strings.Repeat("x", 16<<10) + "\r\n"), 431, "headers_too_large"},
	{"headers over their limit, unfinished", "GET /pub HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 64<<10), 431, "headers_too_large"},
	{"very many headers", get(strings.Repeat("a:\r\n", 6000)), 431, "headers_too_large"},
}

// next is what an attacker hopes is parsed as a request of its own.
const next = "GET /pub/smuggled HTTP/1.1\r\nHost: a\r\n\r\n"

// Properties 12 and 13: what could be read in two ways is read in none. The
// answer says why, the connection ends, the origin sees no byte of it, and
// nothing behind it is taken for a request.
func TestRefusedHeads(t *testing.T) {
	baseline(t)
	origin := newLedger(t)
	g := startGateway(t, nil, origin.addr)
	t.Logf("%d requests", len(refusedHeads))
	for _, path := range []string{"/pub", "/stream", "/else"} {
		for _, tc := range refusedHeads {
			t.Run(tc.name+" to "+path, func(t *testing.T) {
				request := strings.ReplaceAll(tc.request, "/pub", path)
				checkRefusal(t, g, origin, request+next, tc)
			})
		}
	}
	stillWorks(t, g)
}

// Property 13: how the network cuts a request up makes no difference.
func TestRefusedHeadsByteByByte(t *testing.T) {
	origin := newLedger(t)
	g := startGateway(t, nil, origin.addr)
	for _, tc := range refusedHeads {
		if len(tc.request) > 300 {
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			before := len(g.events.all())
			c := dial(t, g.addr)
			for i := range len(tc.request) {
				if _, err := c.Write([]byte{tc.request[i]}); err != nil {
					t.Fatal(err)
				}
			}
			checkRefusalOn(t, g, origin, c, before, tc)
		})
	}
}

func checkRefusal(t *testing.T, g *gateway, origin *ledger, request string, want refusal) {
	t.Helper()
	before := len(g.events.all())
	c := dial(t, g.addr)
	go func() { _, _ = io.WriteString(c, request) }()
	checkRefusalOn(t, g, origin, c, before, want)
}

func checkRefusalOn(t *testing.T, g *gateway, origin *ledger, c net.Conn, before int, want refusal) {
	t.Helper()
	defer c.Close()
	r := bufio.NewReader(c)
	got := readReply(t, r, "GET")
	if got.StatusCode != want.status || got.reason() != want.reason {
		t.Errorf("answered with %d %s, want %d %s", got.StatusCode, got.body, want.status, want.reason)
	}
	if !got.Close {
		t.Error("the answer does not say Connection: close")
	}
	checkProblem(t, got)
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Errorf("after the answer came %q, %v", rest, err)
	}
	if requests, rest := origin.take(); len(requests) > 0 || rest != "" {
		t.Errorf("the origin received %.300q and %.300q", requests, rest)
	}
	events := g.waitEvents(t, before+1)
	if last := events[len(events)-1]; last != (event{"not_tried", "none", want.status}) {
		t.Errorf("reported as %v", last)
	}
}

// checkProblem checks what every refusal carries (DESIGN.md section 3).
func checkProblem(t *testing.T, got reply) {
	t.Helper()
	if ct := got.Header.Get("Content-Type"); ct != "application/problem+json" {
		t.Errorf("Content-Type is %q", ct)
	}
	var p map[string]any
	if err := json.Unmarshal(got.body, &p); err != nil {
		t.Fatalf("%v in %q", err, got.body)
	}
	for _, key := range []string{"type", "title", "detail", "reason", "request_id"} {
		if s, _ := p[key].(string); s == "" {
			t.Errorf("%q is missing in %s", key, got.body)
		}
	}
	if p["status"] != float64(got.StatusCode) {
		t.Errorf("status is %v in the body", p["status"])
	}
	if id := got.Header.Get("X-Request-Id"); id == "" || id != p["request_id"] {
		t.Errorf("X-Request-Id is %q, in the body %q", id, p["request_id"])
	}
}
