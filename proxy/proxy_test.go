package proxy

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestRoundTrip(t *testing.T) {
	g := startGateway(t, nil, echoOrigin(t))
	for _, path := range []string{"/pub?a=b", "/stream", "/elsewhere"} {
		got := raw(t, g.addr, "POST "+path+" HTTP/1.1\r\nHost: api.example\r\nX-Tenant-Id: acme\r\nCookie: a=\"1\"; =x\r\nx-lOwEr: v\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello")
		t.Log(got)
		if !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") || !strings.HasSuffix(got, "hello") {
			t.Errorf("%s: unexpected answer", path)
		}
	}
}

func TestKeepAliveAndPipelining(t *testing.T) {
	g := startGateway(t, nil, echoOrigin(t))
	c := dial(t, g.addr)
	one := "POST /pub HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"
	two := "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n"
	if _, err := io.WriteString(c, one+two+one); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	for i, want := range []string{"abcde", "\r\n\r\n", "abcde"} {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || !strings.HasSuffix(string(body), want) {
			t.Errorf("answer %d: %v %q", i, err, body)
		}
	}
}
