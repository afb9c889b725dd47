package priority

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPattern(t *testing.T) {
	cases := []struct {
		pattern  string
		matches  []string
		mismatch []string
	}{
		{"/", []string{"/"}, []string{"", "//", "/a", "*", "a"}},
		{"/v1/orders", []string{"/v1/orders"}, []string{"/v1/orders/", "/v1/order", "/v1/orders/1", "/V1/orders", "v1/orders", "/v1//orders", "/v1"}},
		{"/v1/orders/", []string{"/v1/orders/"}, []string{"/v1/orders", "/v1/orders//"}},
		{"/v1/*/send", []string{"/v1/7/send", "/v1/*/send", "/v1/../send", "/v1/a%2Fb/send"}, []string{"/v1//send", "/v1/7/8/send", "/v1/send", "/v1/7/send/"}},
		{"/*", []string{"/a", "/a;b", "/%"}, []string{"/", "/a/", "/a/b"}},
		{"/files/**", []string{"/files", "/files/", "/files/a", "/files/a/b/", "/files//"}, []string{"/file", "/filesystem", "/"}},
		{"/**", []string{"/", "/a", "//", "/a/b"}, []string{"", "*", "a/b"}},
		{"/a/*/**", []string{"/a/b", "/a/b/", "/a/b/c/d"}, []string{"/a", "/a/", "/a//c"}},
		{"/a-._~!$&'()+,=:@9", []string{"/a-._~!$&'()+,=:@9"}, nil},
	}
	for _, c := range cases {
		p, err := ParsePattern(c.pattern)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		if p.String() != c.pattern {
			t.Errorf("%s prints as %s", c.pattern, p)
		}
		for _, path := range c.matches {
			if !p.Match(path) {
				t.Errorf("%s does not match %q", c.pattern, path)
			}
		}
		for _, path := range c.mismatch {
			if p.Match(path) {
				t.Errorf("%s matches %q", c.pattern, path)
			}
		}
	}
	if (Pattern{}).Match("/") {
		t.Error("the zero pattern matches")
	}
}

func TestBadPatterns(t *testing.T) {
	for pattern, want := range map[string]string{
		"":            `path pattern "": want a leading slash`,
		"v1":          `path pattern "v1": want a leading slash`,
		"/a//b":       `path pattern "/a//b": want no empty segment`,
		"/**/a":       `path pattern "/**/a": "**" stands for all that follows, want it at the end`,
		"/a/./b":      `path pattern "/a/./b": want no dot segment`,
		"/a/..":       `path pattern "/a/..": want no dot segment`,
		"/a*":         `path pattern "/a*": segment "a*" holds '*': want letters, digits and -._~!$&'()+,=:@, or "*" for a whole segment`,
		"/a/***":      `path pattern "/a/***": segment "***" holds '*': want letters, digits and -._~!$&'()+,=:@, or "*" for a whole segment`,
		"/a%20b":      `path pattern "/a%20b": segment "a%20b" holds '%': want letters, digits and -._~!$&'()+,=:@, or "*" for a whole segment`,
		"/a;b":        `path pattern "/a;b": segment "a;b" holds ';': want letters, digits and -._~!$&'()+,=:@, or "*" for a whole segment`,
		"/caf\u00e9":  `path pattern "/café": segment "café" holds 'é': want letters, digits and -._~!$&'()+,=:@, or "*" for a whole segment`,
		"/a?b":        `path pattern "/a?b": segment "a?b" holds '?': want letters, digits and -._~!$&'()+,=:@, or "*" for a whole segment`,
		"/{id}":       `path pattern "/{id}": segment "{id}" holds '{': want letters, digits and -._~!$&'()+,=:@, or "*" for a whole segment`,
		"/a\\b":       `path pattern "/a\\b": segment "a\\b" holds '\\': want letters, digits and -._~!$&'()+,=:@, or "*" for a whole segment`,
		"/a\xffb":     `path pattern "/a\xffb": segment "a\xffb" holds '�': want letters, digits and -._~!$&'()+,=:@, or "*" for a whole segment`,
		"/a b":        `path pattern "/a b": segment "a b" holds ' ': want letters, digits and -._~!$&'()+,=:@, or "*" for a whole segment`,
		"http://a/b ": `path pattern "http://a/b ": want a leading slash`,
	} {
		if _, err := ParsePattern(pattern); err == nil || err.Error() != want {
			t.Errorf("%q: error is\n%v, want\n%s", pattern, err, want)
		}
	}
}

func TestFirstRouteWins(t *testing.T) {
	r := router(t,
		"POST /v1/orders",
		"GET,HEAD /v1/orders/*",
		"/v1/*/status",
		"/v1/orders/special",
		"GET /v1/**",
		"PATCH,PURGE /**",
	)
	for request, want := range map[string]string{
		"POST /v1/orders":          "POST /v1/orders",
		"post /v1/orders":          "",
		"GET /v1/orders":           "GET /v1/**",
		"HEAD /v1/orders":          "",
		"GET /v1/orders/special":   "GET,HEAD /v1/orders/*", // it comes first
		"POST /v1/orders/special":  "/v1/orders/special",
		"GET /v1/orders/status":    "GET,HEAD /v1/orders/*",
		"POST /v1/orders/status":   "/v1/*/status",
		"BREW /v1/x/status":        "/v1/*/status",
		"GET /v1/x/status":         "/v1/*/status",
		"GET /v1/x/status/":        "GET /v1/**",
		"GET /v1":                  "GET /v1/**",
		"PURGE /v1/orders":         "PATCH,PURGE /**",
		"PATCH /v1/orders/status":  "/v1/*/status",
		"BREW /":                   "",
		"GET /v2":                  "",
		"GET *":                    "",
		"GET ":                     "",
		"PURGE http://x/v1/orders": "",
	} {
		method, path, _ := strings.Cut(request, " ")
		if got := id(r.Route(method, path)); got != want {
			t.Errorf("%s: route %q, want %q", request, got, want)
		}
	}
	if got := (*Router).Route(router(t), "GET", "/"); got != nil {
		t.Errorf("no routes: %v", got)
	}
}

// The tree finds what trying one pattern after the other finds.
func TestTreeAgreesWithTheList(t *testing.T) {
	segment := rapid.SampledFrom([]string{"a", "b", "c", "*"})
	line := rapid.Custom(func(t *rapid.T) string {
		line := ""
		for range rapid.IntRange(1, 4).Draw(t, "depth") {
			line += "/" + segment.Draw(t, "segment")
		}
		line += rapid.SampledFrom([]string{"", "", "/", "/**"}).Draw(t, "end")
		return rapid.SampledFrom([]string{"", "GET ", "POST ", "GET,POST "}).Draw(t, "methods") + line
	})
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(line, 0, 30).Draw(t, "routes")
		if rapid.Bool().Draw(t, "wide") { // more branches than are compared one by one
			lines = append([]string{"/e", "/f", "/g", "/h", "/i", "/j", "/k", "/l"}, lines...)
		}
		list := routes(lines...)
		tree, err := NewRouter(list)
		if err != nil {
			t.Fatal(err)
		}
		for range 30 {
			method := rapid.SampledFrom([]string{"GET", "POST", "PUT"}).Draw(t, "method")
			path := rapid.StringMatching(`(/[abcde]?){0,6}`).Draw(t, "path")
			want := ""
			for _, r := range list {
				p, err := ParsePattern(r.Path)
				if err != nil {
					t.Fatal(err)
				}
				any := len(r.Methods) == 0
				for _, m := range r.Methods {
					any = any || m == method
				}
				if any && p.Match(path) {
					want = r.Route.ID
					break
				}
			}
			if got := tree.Route(method, path); id(got) != want {
				t.Fatalf("%s %s: route %q, want %q", method, path, id(got), want)
			}
		}
	})
}

func TestBadRoutes(t *testing.T) {
	list := routes("GET /a", "GET, /b", "c")
	list = append(list, Route{Path: "/d"})
	for i := range 64 {
		list = append(list, routes(fmt.Sprintf("M%d /m", i))...)
	}
	_, err := NewRouter(list)
	want := `priority: route "GET, /b": empty method, want a name such as POST
route "c": path pattern "c": want a leading slash
route 4 has nothing to route to
route "M62 /m": method "M62": more than 63 different methods
route "M63 /m": method "M63": more than 63 different methods`
	if err == nil || err.Error() != want {
		t.Errorf("error is\n%v\nwant\n%s", err, want)
	}
}

func TestSixtyThreeMethods(t *testing.T) {
	var lines []string
	for i := range 63 {
		lines = append(lines, fmt.Sprintf("M%d /m", i))
	}
	r := router(t, append(lines, "/m")...)
	for i := range 63 {
		if got := id(r.Route(fmt.Sprint("M", i), "/m")); got != lines[i] {
			t.Errorf("M%d: route %q", i, got)
		}
	}
	if got := id(r.Route("M63", "/m")); got != "/m" {
		t.Errorf("M63: route %q, want the one for any method", got)
	}
}

func BenchmarkRoute(b *testing.B) {
	r := router(b, hundreds()...)
	for name, path := range map[string]string{
		"literal":   "/v1/resource-77",
		"wildcard":  "/v1/something/action-99",
		"tail":      "/static-50/a/b/c/d",
		"unmatched": "/v2/other/path",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.Route("POST", path)
			}
		})
	}
}

// Few texts are compared and many are hashed; both find all, and nothing else.
func TestTexts(t *testing.T) {
	var m texts[int]
	for n := range 3 * fewTexts {
		m.add(fmt.Sprint("/path/", n), n+1)
		for i := range n + 2 {
			want := i + 1
			if i > n {
				want = 0
			}
			if got := m.get(fmt.Sprint("/path/", i)); got != want {
				t.Errorf("of %d texts, /path/%d stands for %d, want %d", n+1, i, got, want)
			}
		}
	}
	if len(m.few) != 0 || len(m.many) != 3*fewTexts {
		t.Errorf("%d texts are compared and %d hashed", len(m.few), len(m.many))
	}
}
