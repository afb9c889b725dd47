package proxy

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"

	"sluice/admission"
)

// blind is an observer that looks at nothing.
type blind struct{}

func (blind) Begin()                   {}
func (blind) Observe(*admission.Event) {}

// plainOrigin answers every request with the same bytes, and allocates nothing
// for it. Requests end in the bytes that end says, after their head.
func plainOrigin(t testing.TB, answer, end string) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	reply := []byte(answer)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf, n, last := make([]byte, 64<<10), 0, []byte(end)
				for {
					m, err := c.Read(buf[n:])
					if err != nil {
						return
					}
					if n += m; !bytes.HasSuffix(buf[:n], last) {
						continue
					}
					n = 0
					if _, err := c.Write(reply); err != nil {
						return
					}
				}
			}()
		}
	}()
	return ln.Addr().String()
}

// roundTripper sends one request again and again on one connection.
type roundTripper struct {
	c       net.Conn
	request []byte
	end     []byte
	buf     []byte
}

func (r *roundTripper) do(t testing.TB) {
	if _, err := r.c.Write(r.request); err != nil {
		t.Fatal(err)
	}
	for n := 0; ; {
		m, err := r.c.Read(r.buf[n:])
		if err != nil {
			t.Fatal(err)
		}
		if n += m; bytes.HasSuffix(r.buf[:n], r.end) {
			return
		}
	}
}

// costs are the requests whose cost is measured: client to origin and back.
var costs = []struct {
	name, request, answer, originEnd, clientEnd string
	free                                        bool // allocates nothing
}{
	{"get buffered", "GET /pub/x?y=z HTTP/1.1\r\nHost: api.example\r\nUser-Agent: bench/1\r\nAccept: */*\r\nX-Tenant-Id: acme\r\n\r\n",
		head5 + "hello", "\r\n\r\n", "\r\n\r\nhello", true},
	{"post buffered", "POST /pub HTTP/1.1\r\nHost: api.example\r\nContent-Type: application/json\r\nX-Tenant-Id: acme\r\nContent-Length: 1024\r\n\r\n" + strings.Repeat("x", 1024),
		"HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\nhello", "xxxx", "\r\n\r\nhello", true},
	{"post chunked buffered", "POST /pub HTTP/1.1\r\nHost: api.example\r\nTransfer-Encoding: chunked\r\n\r\n400\r\n" + strings.Repeat("x", 1024) + "\r\n0\r\n\r\n",
		headTE + chunked5, "xxxx", "\r\n\r\nhello", true},
	{"get streamed", "GET /stream HTTP/1.1\r\nHost: api.example\r\n\r\n", head5 + "hello", "\r\n\r\n", "\r\n\r\nhello", true},
	{"get unmatched", "GET /else HTTP/1.1\r\nHost: api.example\r\n\r\n", head5 + "hello", "\r\n\r\n", "\r\n\r\nhello", true},
	{"get streamed chunks", "GET /stream HTTP/1.1\r\nHost: api.example\r\n\r\n", headTE + chunked5, "\r\n\r\n", "0\r\n\r\n", true},
	{"refused", "GET /pub HTTP/1.1\r\nHost: api.example\r\n\r\n", "", "", "}\n", true},
}

func startCost(t testing.TB, i int) *roundTripper {
	tc := costs[i]
	g := startGateway(t, func(o *Options, p *Policy) {
		o.Observer = blind{}
		if tc.name == "refused" {
			p.Controller.Gates = []admission.Gate{refusing{}}
		}
	}, plainOrigin(t, tc.answer, tc.originEnd))
	return &roundTripper{c: dial(t, g.addr), request: []byte(tc.request), end: []byte(tc.clientEnd), buf: make([]byte, 64<<10)}
}

// A request allocates nothing on its whole way, from the client's socket to the
// origin's and back.
func TestRequestsAllocateNothing(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates by itself")
	}
	for i, tc := range costs {
		t.Run(tc.name, func(t *testing.T) {
			r := startCost(t, i)
			for range 50 {
				r.do(t)
			}
			if n := testing.AllocsPerRun(2000, func() { r.do(t) }); tc.free && n > 0 {
				t.Errorf("%v allocations a request", n)
			} else {
				t.Logf("%v allocations a request", n)
			}
		})
	}
}

// Nor does looking at all lines of a field, as fingerprints do.
func TestLookingAtFieldsAllocatesNothing(t *testing.T) {
	h := &head{}
	data := []byte("GET / HTTP/1.1\r\nHost: a\r\nX-A: 1\r\nx-a: 2\r\n\r\n")
	n := testing.AllocsPerRun(100, func() {
		h.reset()
		h.buf = data
		if v := h.read(headLimits{8 << 10, 16 << 10}); v.is() {
			t.Fatal(v)
		}
		if got := h.PeekAll("X-A"); len(got) != 2 || string(got[0]) != "1" || string(got[1]) != "2" {
			t.Fatalf("%q", got)
		}
		if got := h.PeekAll("X-B"); len(got) != 0 {
			t.Fatalf("%q", got)
		}
	})
	if n > 0 {
		t.Errorf("%v allocations a request", n)
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	for i, tc := range costs {
		b.Run(tc.name, func(b *testing.B) {
			r := startCost(b, i)
			b.ReportAllocs()
			for b.Loop() {
				r.do(b)
			}
		})
	}
}

const benchHead = "POST /v1/orders?a=b HTTP/1.1\r\nHost: api.example.com\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) bench/1.0\r\nAccept: application/json\r\nAccept-Encoding: gzip, br\r\nContent-Type: application/json\r\nContent-Length: 512\r\nX-Tenant-Id: acme\r\nIdempotency-Key: \"01J9Z3K4M5N6P7Q8R9S0T1V2W3\"\r\nAuthorization: Bearer abcdefghijklmnopqrstuvwxyz0123456789\r\nCookie: session=abcdef; theme=dark\r\nConnection: keep-alive\r\n\r\n"

func BenchmarkReadHead(b *testing.B) {
	h := &head{}
	h.reset()
	b.SetBytes(int64(len(benchHead)))
	b.ReportAllocs()
	data := []byte(benchHead)
	for b.Loop() {
		h.reset()
		h.buf = data
		if v := h.read(headLimits{8 << 10, 16 << 10}); v.is() || h.size != len(data) {
			b.Fatal(v)
		}
	}
}

func BenchmarkComposeHead(b *testing.B) {
	x := acquireExchange(&conn{server: &Server{via: "sluice-bench"}, peerText: []byte("192.0.2.1")})
	x.policy = &Policy{XForwarded: true, Classes: []string{"critical"}, Origin: &Origin{}}
	x.head.buf = []byte(benchHead)
	if v := x.head.read(headLimits{8 << 10, 16 << 10}); v.is() {
		b.Fatal(v)
	}
	x.facts()
	x.request.Route, x.request.Tenant, x.request.Class = routePub, "acme", 0
	b.ReportAllocs()
	out := make([]byte, 0, 4096)
	for b.Loop() {
		out = x.appendRequestHead(out[:0], &RoutePolicy{})
	}
	b.SetBytes(int64(len(out)))
}

func BenchmarkDechunk(b *testing.B) {
	data := []byte(strings.Repeat("400\r\n"+strings.Repeat("x", 1024)+"\r\n", 30) + "0\r\n\r\n")
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		d := dechunker{}
		for used := 0; ; {
			_, n, err := d.next(data[used:], 32<<10)
			if used += n; err == io.EOF {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
	}
}
