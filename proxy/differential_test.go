package proxy

import (
	"bufio"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"testing"
)

// mirror is an origin that keeps what it sees and answers in a way that depends
// on the request alone.
type mirror struct {
	addr string
	mu   sync.Mutex
	seen []sight
}

// sight is a request as its origin sees it: the parts that have to be the same
// with and without a gateway.
type sight struct {
	line   string
	fields []string
	body   string
}

func newMirror(t testing.TB) *mirror {
	m := &mirror{}
	m.addr = scriptOrigin(t, func(_ int, c net.Conn, r *bufio.Reader) {
		for {
			wire, err := readWire(r)
			if err != nil {
				return
			}
			head, body, _ := strings.Cut(wire, "\r\n\r\n")
			if strings.Contains(strings.ToLower(head), "\r\ntransfer-encoding:") {
				plain, err := io.ReadAll(httputil.NewChunkedReader(strings.NewReader(body)))
				if err != nil {
					t.Errorf("the origin was sent malformed chunks: %v", err)
				}
				body = string(plain)
			}
			s := sightOf(head+"\r\n\r\n", body)
			m.mu.Lock()
			m.seen = append(m.seen, s)
			m.mu.Unlock()
			if _, err := io.WriteString(c, mirrored(s)); err != nil {
				return
			}
		}
	})
	return m
}

func (m *mirror) last() sight {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen[len(m.seen)-1]
}

// endsHere are the fields that end at a hop, whoever is there: framing is
// compared by what it frames.
var endsHere = map[string]bool{
	"connection": true, "keep-alive": true, "te": true, "proxy-connection": true, "upgrade": true,
	"content-length": true, "transfer-encoding": true, "expect": true,
}

// ours are the fields that the gateway adds.
var ours = map[string]bool{
	"x-forwarded-for": true, "x-forwarded-proto": true, "x-forwarded-host": true, "x-request-id": true,
	"via": true, "traceparent": true, "sluice-tenant": true, "sluice-class": true,
}

func sightOf(head, body string) sight {
	lines := strings.Split(strings.TrimSuffix(head, "\r\n\r\n"), "\r\n")
	s := sight{line: lines[0], body: body}
	for _, f := range lines[1:] {
		name, _, _ := strings.Cut(strings.ToLower(f), ":")
		if !endsHere[name] && !ours[name] {
			s.fields = append(s.fields, f)
		}
	}
	return s
}

// mirrored is the answer to a request, in one of many forms.
func mirrored(s sight) string {
	hash := fnv.New64a()
	_, _ = fmt.Fprint(hash, s)
	dice := rand.New(rand.NewPCG(hash.Sum64(), 0))
	pick := func(list ...string) string { return list[dice.IntN(len(list))] }

	status := pick("200 OK", "201 Created", "202 ", "299 Odd  one", "404 Not Found", "429 Too Many Requests", "500 Internal Server Error", "204 No Content", "304 Not Modified")
	var b strings.Builder
	for range dice.IntN(3) {
		b.WriteString(pick("HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n", "HTTP/1.1 102 Processing\r\n\r\n"))
	}
	b.WriteString("HTTP/1.1 " + status + "\r\n")
	for range dice.IntN(8) {
		b.WriteString(pick("Server: x/1 (y)", "Date: Thu, 01 Jan 1970 00:00:00 GMT", "set-cookie: a=\"b\"; Path=/", "Set-Cookie: c=d",
			"ETag:W/\"x\"", "Vary:  Accept ,Cookie\t", "Content-Type: ", "X-Odd: \xe9\xff", "RETRY-AFTER: 7", "Cache-Control: no-store", "X_Under: 1") + "\r\n")
	}
	if strings.HasPrefix(status, "204") || strings.HasPrefix(status, "304") {
		return b.String() + "\r\n"
	}
	body := strings.Repeat("0123456789", dice.IntN(3)*dice.IntN(2500)) + s.body
	if strings.HasPrefix(s.line, "HEAD ") {
		return b.String() + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body))
	}
	if dice.IntN(2) == 0 {
		return b.String() + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
	}
	b.WriteString("Transfer-Encoding: chunked\r\n\r\n")
	for len(body) > 0 {
		n := min(len(body), 1+dice.IntN(20000))
		_, _ = fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return b.String() + "0\r\n\r\n"
}

// answerOf reads one answer as the client sees it: every interim one, then
// status line, fields and body.
func answerOf(t testing.TB, r *bufio.Reader, method string) string {
	t.Helper()
	var b strings.Builder
	for {
		var head strings.Builder
		for !strings.HasSuffix(head.String(), "\r\n\r\n") {
			line, err := r.ReadString('\n')
			if err != nil {
				t.Fatalf("%v after %q", err, head.String())
			}
			head.WriteString(line)
		}
		s := sightOf(head.String(), "")
		_, _ = fmt.Fprintf(&b, "%q %q\n", s.line, s.fields)
		if strings.HasPrefix(s.line, "HTTP/1.1 1") {
			continue
		}
		res, err := http.ReadResponse(bufio.NewReader(io.MultiReader(strings.NewReader(head.String()), r)), &http.Request{Method: method})
		if err != nil {
			t.Fatal(err)
		}
		// The reader above reads ahead; so every exchange has its own connection.
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return b.String() + string(body)
	}
}

// validRequest makes a request that has to get through.
func validRequest(dice *rand.Rand) (method, wire string) {
	pick := func(list ...string) string { return list[dice.IntN(len(list))] }
	method = pick("GET", "GET", "POST", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "QUERY", "M-SEARCH")
	var target strings.Builder
	target.WriteString(pick("/pub", "/stream", "/else"))
	const chars = "abcXYZ019-._~!$&'()*+,;=:@/%?[]{}|\\^`\"<>\xc3\xa4\xff"
	for range dice.IntN(60) {
		target.WriteByte(chars[dice.IntN(len(chars))])
	}
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", method, target.String())
	hostAt := dice.IntN(3)
	for i := range 3 {
		if i == hostAt {
			b.WriteString(pick("Host: api.example", "host:API.example:8080", "HOST:  [::1]:80 ") + "\r\n")
		}
		for range dice.IntN(4) {
			b.WriteString(pick("Accept: */*", "accept-encoding: gzip, br", "Cookie: a=\"1\"; =x; y", "Cookie: z", "User-Agent: \xe9 odd/1",
				"X-A:", "X-A: b", "x-a:\tc d \t", "Content-Type: multipart/form-data; boundary=x", "Authorization-Like: x", "If-None-Match: W/\"1\", \"2\"",
				"Range: bytes=0-", "X-Quoted: \"a, \\\" b\"", "Accept-Language: de;q=0.5", "X_Odd_Name: 1", "Origin: null", "Priority: u=1, i", "DNT: 1") + "\r\n")
		}
	}
	if dice.IntN(4) == 0 {
		b.WriteString("Idempotency-Key: \"" + fmt.Sprint(dice.Uint64()) + "\"\r\n")
	}
	if dice.IntN(4) == 0 {
		b.WriteString("Authorization: Bearer abc.def\r\n")
	}
	body := make([]byte, dice.IntN(3)*dice.IntN(20000))
	for i := range body {
		body[i] = byte(dice.Uint32())
	}
	switch dice.IntN(3) {
	case 0:
		return method, b.String() + "\r\n"
	case 1:
		return method, b.String() + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
	}
	b.WriteString("Transfer-Encoding: chunked\r\n\r\n")
	for len(body) > 0 {
		n := min(len(body), 1+dice.IntN(9000))
		_, _ = fmt.Fprintf(&b, "%s%s\r\n%s\r\n", fmt.Sprintf(pick("%x", "%X", "%06x"), n), pick("", ";a", ";a=\"b\";c"), body[:n])
		body = body[n:]
	}
	return method, b.String() + pick("0", "000") + pick("", ";x") + "\r\n\r\n"
}

// Property 12: with and without the gateway, the origin sees the same requests
// and the client the same answers, but for what the README lists.
func TestSameWithAndWithout(t *testing.T) {
	baseline(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	m := newMirror(t)
	g := startGateway(t, func(_ *Options, p *Policy) { p.RateLimit = false }, m.addr)
	for i := range 150 {
		method, wire := validRequest(dice)
		view := func(addr string) (sight, string) {
			c := dial(t, addr)
			defer c.Close()
			go func() { _, _ = io.WriteString(c, wire) }()
			answer := answerOf(t, bufio.NewReader(c), method)
			return m.last(), answer
		}
		seen, answer := view(m.addr)
		seenThrough, answerThrough := view(g.addr)
		if got, want := fmt.Sprintf("%q", seenThrough), fmt.Sprintf("%q", seen); got != want {
			t.Fatalf("request %d: the origin sees\n%s\nand straight\n%s", i, clip(got), clip(want))
		}
		if answerThrough != answer {
			t.Fatalf("request %d: the client sees\n%s\nand straight\n%s", i, clip(answerThrough), clip(answer))
		}
	}
}
