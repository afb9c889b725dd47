package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var fuzzLimits = headLimits{target: 512, headers: 2048}

// readInPieces reads a head whose bytes arrive cut up as the seed says.
func readInPieces(data []byte, seed uint64) (*head, violation) {
	cuts := rand.New(rand.NewPCG(seed, 1))
	h := &head{}
	h.reset()
	for n := 0; ; {
		if seed == 0 {
			n = len(data)
		} else {
			n = min(len(data), n+1+cuts.IntN(8))
		}
		h.buf = data[:n]
		if v := h.read(fuzzLimits); v.is() || h.size > 0 || n == len(data) {
			return h, v
		}
	}
}

// Properties 12 and 13: a head that is accepted is read by Go's own server as
// the same request, or refused by it; it is read the same however it arrives;
// and what the origin is sent for it is again one head, with the same method,
// target, fields and framing.
func FuzzHead(f *testing.F) {
	for i, tc := range refusedHeads {
		if len(tc.request) < 2000 {
			f.Add([]byte(tc.request), uint64(i))
		}
	}
	for i, tc := range forwardedRequests {
		if len(tc.request) < 2000 {
			f.Add([]byte(tc.request), uint64(i))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		h, v := readInPieces(data, 0)
		cut, cutV := readInPieces(data, seed|1)
		if v.is() != cutV.is() || !v.is() && (h.size != cut.size || !slices.Equal(h.fields, cut.fields) || h.targetEnd != cut.targetEnd) {
			t.Fatalf("whole: %v %d %v; in pieces: %v %d %v", v, h.size, h.fields, cutV, cut.size, cut.fields)
		}
		if v.is() || h.size == 0 {
			return
		}
		asGo(t, h, h.buf[h.start:h.size])
		forwardsSame(t, h)
	})
}

// asGo compares an accepted head with what net/http makes of it.
func asGo(t *testing.T, h *head, wire []byte) {
	req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(wire)))
	if err != nil {
		return // Go is stricter in places: percent-encoding in targets, say
	}
	if m := string(h.buf[h.start:h.method]); req.Method != m {
		t.Fatalf("method %q, to Go %q", m, req.Method)
	}
	if target := string(h.buf[h.target:h.targetEnd]); req.RequestURI != target {
		t.Fatalf("target %q, to Go %q", target, req.RequestURI)
	}
	if host := string(h.hostValue()); req.Host != host {
		t.Fatalf("host %q, to Go %q", host, req.Host)
	}
	if chunked := len(req.TransferEncoding) > 0; chunked != h.chunked {
		t.Fatalf("chunked %v, to Go %v", h.chunked, req.TransferEncoding)
	}
	if !h.chunked && req.ContentLength != max(0, h.contentLength) {
		t.Fatalf("length %d, to Go %d", h.contentLength, req.ContentLength)
	}
	want := http.Header{}
	for i := range h.fields {
		f := &h.fields[i]
		name := http.CanonicalHeaderKey(string(h.nameOf(f)))
		if f.kind == kindHost || f.kind == kindTransferEncoding {
			continue
		}
		want[name] = append(want[name], string(h.valueOf(f)))
	}
	if want.Get("Pragma") == "no-cache" {
		delete(want, "Cache-Control") // which Go makes up
		delete(req.Header, "Cache-Control")
	}
	for name, values := range want {
		if !slices.Equal(req.Header[name], values) {
			t.Fatalf("%s is %q, to Go %q", name, values, req.Header[name])
		}
	}
	if len(want) != len(req.Header) {
		t.Fatalf("fields %q, to Go %q", want, req.Header)
	}
}

// forwardsSame composes what the origin is sent and reads that again.
func forwardsSame(t *testing.T, h *head) {
	x := acquireExchange(&conn{server: &Server{via: "sluice-test"}})
	x.policy = &Policy{XForwarded: true, Forwarded: true, Origin: &Origin{authority: "origin:80"}}
	x.head = *h
	x.facts()
	target := string(h.buf[h.target:h.targetEnd])
	if r := &x.request; target != r.Path && target != r.Path+"?"+r.Query {
		t.Fatalf("target %q became path %q and query %q", target, r.Path, r.Query)
	}
	for _, rp := range []RoutePolicy{{}, {Stream: true}, {Stream: true, Upgrade: true}} {
		out := x.appendRequestHead(nil, &rp)
		again := &head{buf: out}
		fields := again.fields
		again.reset()
		again.buf, again.fields = out, fields
		if v := again.read(headLimits{1 << 20, 1 << 20}); v.is() || again.size != len(out) {
			t.Fatalf("what is sent on is not one head: %v in %q", v, out)
		}
		if string(out[:again.targetEnd]) != string(h.buf[h.start:h.targetEnd]) {
			t.Fatalf("method or target changed in %q", out)
		}
		body := h.chunked || h.contentLength > 0
		switch {
		case rp.Stream && (again.chunked != h.chunked || again.contentLength != h.contentLength):
			t.Fatalf("framing changed in %q", out)
		case !rp.Stream && (again.chunked || body != (again.contentLength >= 0 && (h.chunked || again.contentLength > 0))):
			t.Fatalf("framing changed in %q", out)
		}
		var kept, sent []string
		for i := range h.fields {
			if f := &h.fields[i]; f.kind == kindPlain || f.kind == kindAuthorization || f.kind == kindIdempotencyKey {
				kept = append(kept, string(h.buf[f.line:f.next]))
			}
		}
		for i := range again.fields {
			if f := &again.fields[i]; f.kind == kindPlain || f.kind == kindAuthorization || f.kind == kindIdempotencyKey {
				sent = append(sent, string(out[f.line:f.next]))
			}
			switch k := again.fields[i].kind; k {
			case kindHop, kindTrailer, kindExpect, kindLookAlike:
				t.Fatalf("a field that ends here got through in %q", out)
			}
		}
		if !slices.Equal(kept, sent) {
			t.Fatalf("fields %q became %q", kept, sent)
		}
	}
}

// dechunkAll takes the coding off data, cut up as the seed says.
func dechunkAll(data []byte, seed uint64, trailers bool) (body []byte, used int, trailer string, err error) {
	cuts := rand.New(rand.NewPCG(seed, 2))
	d := dechunker{trailers: trailers}
	for n := 0; ; {
		if seed == 0 {
			n = len(data)
		} else {
			n = min(len(data), n+1+cuts.IntN(6))
		}
		for used < n && err == nil {
			limit := 1 << 20
			if seed != 0 {
				limit = 1 + cuts.IntN(5)
			}
			var piece []byte
			var m int
			piece, m, err = d.next(data[used:n], limit)
			body = append(body, piece...)
			used += m
			if len(piece) > limit || m == 0 && err == nil {
				panic("next is given room and makes no progress, or takes more than its limit")
			}
		}
		if err != nil || n == len(data) {
			return body, used, string(d.trailer), err
		}
	}
}

// Properties 12 and 13: chunks that are accepted are read by Go's reader as the
// same body, or refused by it; and the same however they arrive.
func FuzzChunks(f *testing.F) {
	for i, tc := range refusedBodies {
		if _, body, ok := strings.Cut(tc.request, "\r\n\r\n"); ok && len(body) < 2000 {
			f.Add([]byte(body), uint64(i), i%2 == 0)
		}
	}
	f.Add([]byte("5;a=\"b\"\r\nhello\r\n00\r\nX: y\r\nZ:\r\n\r\nrest"), uint64(3), true)
	f.Fuzz(func(t *testing.T, data []byte, seed uint64, trailers bool) {
		body, used, trailer, err := dechunkAll(data, 0, trailers)
		body2, used2, trailer2, err2 := dechunkAll(data, seed|1, trailers)
		if err != err2 || err == io.EOF && (used != used2 || trailer != trailer2) || err != nil && !bytes.Equal(body, body2) {
			t.Fatalf("whole: %q %d %q %v; in pieces: %q %d %q %v", body, used, trailer, err, body2, used2, trailer2, err2)
		}
		if err != io.EOF {
			return
		}
		got, goErr := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(data[:used])))
		if goErr == nil && !bytes.Equal(got, body) {
			t.Fatalf("body %q, to Go %q", body, got)
		}
		if !trailers && trailer != "" {
			t.Fatalf("trailers %q were let through", trailer)
		}
		if !bytes.HasSuffix(data[:used], []byte("\r\n")) {
			t.Fatalf("the body ends in %q", data[:used])
		}
		// What is framed anew has the same content.
		again := appendChunkSize(nil, len(body))
		if len(body) > 0 {
			again = append(append(again, body...), "\r\n0\r\n\r\n"...)
		} else {
			again = append(again, "\r\n"...)
		}
		if b, n, _, err := dechunkAll(again, 0, false); err != io.EOF || n != len(again) || !bytes.Equal(b, body) {
			t.Fatalf("framed anew as %q it reads %q, %v", again, b, err)
		}
	})
}

// Properties 12 and 13, for the origin's side: an answer's head that is
// accepted is read by Go's client as the same answer, or refused by it.
func FuzzAnswerHead(f *testing.F) {
	for i, s := range []string{
		head5, headTE, headNone, "HTTP/1.0 404 Not  Found\r\nX: y\r\nX: z\r\nConnection: a, close\r\nA: b\r\n\r\n",
		"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 \r\n\r\n", "HTTP/1.1 304\r\nContent-Length: 5\r\nSluice-X: y\r\n\r\n", upgradeAnswer,
	} {
		f.Add([]byte(s), uint64(i))
	}
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		read := func(seed uint64) (*answer, error) {
			cuts := rand.New(rand.NewPCG(seed, 3))
			a := &answer{}
			a.reset()
			for n := 0; ; {
				if seed == 0 {
					n = len(data)
				} else {
					n = min(len(data), n+1+cuts.IntN(8))
				}
				a.in = data[:n]
				if err := a.readHead(); err != nil || a.size > 0 || n == len(data) {
					return a, err
				}
			}
		}
		a, err := read(0)
		cut, cutErr := read(seed | 1)
		if (err == nil) != (cutErr == nil) || err == nil && (a.size != cut.size || !slices.Equal(a.fields, cut.fields) || a.status != cut.status) {
			t.Fatalf("whole: %v %d %v; in pieces: %v %d %v", err, a.size, a.fields, cutErr, cut.size, cut.fields)
		}
		if err != nil && !errors.Is(err, errAnswerHead) {
			t.Fatal(err)
		}
		if err != nil || a.size == 0 {
			return
		}
		res, goErr := http.ReadResponse(bufio.NewReader(bytes.NewReader(data[:a.size])), nil)
		if goErr == nil {
			if res.StatusCode != a.status {
				t.Fatalf("status %d, to Go %d", a.status, res.StatusCode)
			}
			if a.hasBody("GET") && a.status >= 200 && !a.chunked && a.contentLength >= 0 && res.ContentLength != a.contentLength {
				t.Fatalf("length %d, to Go %d", a.contentLength, res.ContentLength)
			}
		}
		// What the client is sent is again one head.
		x := acquireExchange(&conn{server: &Server{}})
		x.policy = &Policy{}
		x.answer = *a
		x.request.ID = "id"
		for _, f := range []framing{framedByLength, framedByChunks} {
			out := x.appendAnswer(nil, f)
			again := &answer{}
			again.reset()
			again.in = out
			if err := again.readHead(); err != nil || again.size != len(out) {
				t.Fatalf("what is sent on is not one head: %v in %q", err, out)
			}
			if again.status != a.status {
				t.Fatalf("status %d became %d", a.status, again.status)
			}
			if a.hasBody("GET") && a.contentLength > 0 && again.contentLength != a.contentLength {
				t.Fatalf("length %d became %d", a.contentLength, again.contentLength)
			}
		}
	})
}

var traceparent = regexp.MustCompile(`^(00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}|[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?)$`)

// A trace is taken up exactly where W3C Trace Context says that it is one.
func FuzzTraceparent(f *testing.F) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, s := range []string{good, good + "-", good + "-x", "01" + good[2:] + "-x", "01" + good[2:], "ff" + good[2:], "", strings.ToUpper(good), strings.Replace(good, "0af7651916cd43dd8448eb211c80319c", strings.Repeat("0", 32), 1)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want := !strings.ContainsAny(s, "\r\n") && traceparent.MatchString(s) && s[:2] != "ff" &&
			s[3:35] != strings.Repeat("0", 32) && s[36:52] != strings.Repeat("0", 16) && (s[:2] != "00" || len(s) == 55)
		if got := validTraceparent(s); got != want && !strings.ContainsAny(s, "\r\n") {
			t.Fatalf("%q is valid: %v, want %v", s, got, want)
		}
	})
}

// A Host that is accepted names one authority, without user or path.
func FuzzHost(f *testing.F) {
	for _, s := range []string{"a", "a:80", "[::1]:80", "a@b", "a/b", "a%20b", "", ":80", "[::1", "a:b", "1.2.3.4", "a_b.c-d", "[1.2.3.4]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if !validHost(b) || len(b) == 0 {
			return
		}
		u, err := url.Parse("http://" + string(b) + "/path")
		if err != nil {
			return
		}
		if u.Host != string(b) || u.User != nil || u.Path != "/path" || u.RawQuery != "" || u.Fragment != "" {
			t.Fatalf("%q is read as %#v", b, u)
		}
	})
}

// A wait that a client tells is positive, or there is none.
func FuzzWait(f *testing.F) {
	for _, s := range []string{"1", "2.5", "800ms", "1e5", "-1", "NaN", "Inf", "0x1p3", "9999999h", "1_0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, ok := parseWait(s, 1); ok && d < 0 {
			t.Fatalf("%q is %v", s, d)
		}
	})
}
