package config

import (
	"encoding"
	"regexp"
	"testing"
)

// text is a type that a single value of the file is read into.
type text interface {
	encoding.TextUnmarshaler
	Grammar() (what, pattern string)
}

// The schema's patterns may be more generous than the loader, never stricter.
func TestPatternsAcceptWhatTheLoaderAccepts(t *testing.T) {
	corpus := []string{
		"", "a", "A", "create-order", "a-", "-a", "a--b", "a1", "1a", "127.0.0.1:8080", ":0", "[::1]:80", "[::1%lo]:80",
		"localhost:1", "host_name:65535", "host:65536", "http://a", "HTTP://a.b:80/", "https://[::1]:443", "http://a/b", "http://a?", "http://u@a",
		"/", "//", "/*", "/**", "/a/*/b/**", "/a/**/b", "/a*", "/a/", "/%41", "/a;b", "/_a/-.~", "/a b", "/é", "/~a;b=c:@!$&'()+,", "*", "**", "a*b",
		"off", "stdout", "./a", "/var/log/x", "a/", "x", "GET", "PROPFIND", "get", "X-Y", "x y", "10.0.0.0/8", "10.0.0.1", "::1", "fe80::/10", "1::/129",
		"a\nb", "\n", "/healthz?x=1", "/healthz#x",
	}
	for _, zero := range []func() text{
		func() text { return new(ID) }, func() text { return new(Address) }, func() text { return new(OriginURL) },
		func() text { return new(RequestPath) }, func() text { return new(Path) }, func() text { return new(Output) },
		func() text { return new(Token) }, func() text { return new(HeaderName) }, func() text { return new(Method) },
		func() text { return new(Glob) }, func() text { return new(Network) }, func() text { return new(PathPattern) },
		func() text { return new(KeyHash) },
	} {
		what, pattern := zero().Grammar()
		syntax := regexp.MustCompile(pattern)
		accepted := 0
		for _, s := range corpus {
			if zero().UnmarshalText([]byte(s)) == nil {
				accepted++
				if !syntax.MatchString(s) {
					t.Errorf("%q is %s to the loader, and not to the pattern %s", s, what, pattern)
				}
			}
		}
		if _, secret := zero().(*KeyHash); accepted == 0 && !secret {
			t.Errorf("nothing of the corpus is %s", what)
		}
	}
}

func TestCoversNeverClaimsTooMuch(t *testing.T) {
	for _, tt := range []struct {
		p, q string
		want bool
	}{
		{"/**", "/", true}, {"/**", "/a/b", true}, {"/a", "/a", true}, {"/a", "/b", false}, {"/a", "/a/", false},
		{"/a/**", "/a/b/c", true}, {"/a/**", "/a/b/**", true}, {"/a/**", "/a", true}, {"/a/**", "/a/", true}, {"/a/**", "/b/c", false}, {"/a/b/**", "/a/**", false},
		{"/a/*", "/a/b", true}, {"/a/*", "/a/*", true}, {"/a/*", "/a/", false}, {"/a/*", "/a/**", false}, {"/a/b", "/a/*", false}, {"/*/b", "/a/*", false},
	} {
		if got := PathPattern(tt.p).covers(PathPattern(tt.q)); got != tt.want {
			t.Errorf("%s covers %s: %v", tt.p, tt.q, got)
		}
	}
	for _, tt := range []struct {
		g, q string
		want bool
	}{
		{"*", "a*", true}, {"a", "a", true}, {"a", "*", false}, {"a*", "ab", true}, {"a*", "a*b", true}, {"a*", "*", false},
		{"a*b", "a*", false}, {"*b*", "abc", true}, {"*b*", "ac", false}, {"a*a", "a", false}, {"*a", "ba", true}, {"a*b*c", "a-b-c", true}, {"a*b*c", "a-c-b", false},
	} {
		if got := Glob(tt.g).covers(Glob(tt.q)); got != tt.want {
			t.Errorf("%s covers %s: %v", tt.g, tt.q, got)
		}
	}
}

func TestGatewayRecognisesItself(t *testing.T) {
	for _, tt := range []struct {
		listen  Address
		address string
		want    bool
	}{
		{"127.0.0.1:80", "127.0.0.1:80", true}, {"127.0.0.1:80", "localhost:80", true}, {":80", "127.0.0.1:80", true}, {"[::]:80", "[::1]:80", true},
		{"127.0.0.1:80", "127.0.0.1:81", false}, {"127.0.0.1:0", "127.0.0.1:0", false}, {":80", "api.internal:80", false}, {"10.0.0.1:80", "127.0.0.1:80", false},
		{"api.internal:80", "api.internal:80", true},
	} {
		if got := sameEndpoint(tt.listen, tt.address); got != tt.want {
			t.Errorf("connecting to %s reaches a listener on %s: %v", tt.address, tt.listen, got)
		}
	}
}
