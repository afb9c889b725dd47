package priority

import (
	"net/url"
	"path"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// apiRoutes is the policy of the tests below: what a gateway in front of an API
// might have.
var apiRoutes = []string{
	"POST,GET /v1/orders",
	"/v1/orders/*",
	"/v1/campaigns/*/send",
	"/files/**",
	"/",
}

func TestAmbiguous(t *testing.T) {
	r := router(t, apiRoutes...)
	cases := map[string]bool{
		// Clean paths.
		"/":                     false,
		"/v1/orders":            false,
		"/v1/orders/":           false,
		"/v1/campaigns/7/send":  false,
		"/elsewhere":            false,
		"/.well-known/thing":    false,
		"/v1/orders/a..b":       false,
		"/v1/orders/...":        false,
		"/caf\xc3\xa9":          false,
		"*":                     false,
		"":                      false,
		"/v1/orders/a+b=c:d@e~": false,

		// Both readings are the same route's, or no route's.
		"/files/a%20b":  false,
		"/files/a%2Fb":  false,
		"/files/a//b":   false,
		"/files/a/../b": false,
		"/v1/orders//":  false,
		"/files/a;v=1":  false,
		"/files/100%":   false,
		"/files/100%25": false,
		"/files/%":      false,
		"/files/%zz":    false,
		"/files/%C3%A9": false,
		"/files/http%3A%2F%2Fx.example%2Fa%3Fb%23": false,
		"/files/a\\b":               false,
		"/v1/orders/a%20b":          false,
		"/v1/orders/a;v=1":          false,
		"/v1/orders/%E2%82%AC":      false,
		"/v1/campaigns/a%20b/send":  false,
		"/elsewhere/a%20b;c//d/./e": false,

		// Encoded letters of a route.
		"/v1/%6Frders":           true,
		"/v1/%6frders":           true,
		"/v1/%256Frders":         true,
		"/v1/%25256Frders":       true,
		"/%76%31/orders/7":       true,
		"/fil%65s/a":             true,
		"%2Fv1/orders":           true,
		"/v1/campaigns/7/%73end": true,
		// Slashes that may or may not be some.
		"/v1%2Forders":             true,
		"/v1%5Corders":             true,
		"/v1\\orders":              true,
		"\\v1\\orders":             true,
		"//v1/orders":              true,
		"/v1//orders":              true,
		"/v1/orders/a%2Fb":         true,
		"/v1/orders/a%252Fb":       true,
		"/v1/orders/a%5Cb":         true,
		"/v1/campaigns/7%2Fsend":   true,
		"/v1/campaigns%2F7/send":   true,
		"/v1/campaigns/a%2fb/send": true,
		// Dot segments.
		"/files/../v1/orders":         true,
		"/files/%2e%2e/v1/orders":     true,
		"/files/%252e%252e/v1/orders": true,
		"/files/..%2Fv1/orders":       true,
		"/files/..%5Cv1%5Corders":     true,
		"/files/a/../../v1/orders":    true,
		"/files/..;/v1/orders":        true,
		"/files/.;x/..;y/v1/orders":   true,
		"/files/..":                   true,
		"/v1/orders/.":                true,
		"/v1/orders/..":               true,
		"/v1/./orders":                true,
		"/v1/x/../orders":             true,
		"/v1//../v1/orders":           true,
		"/../v1/orders":               true,
		"/elsewhere/..":               true, // "/" is a route
		// Parameters and ends.
		"/v1/orders;v=1":     true,
		"/v1;x=y/orders":     true,
		"/v1/orders%3Bv=1":   true,
		"/v1/orders%3Fx":     true,
		"/v1/orders%23x":     true,
		"/v1/orders%00.html": true,
		"/v1/orders/;x":      true,
		"/v1/orders/%3b":     true,
	}
	for p, want := range cases {
		if got := r.Ambiguous("POST", p); got != want {
			reading, other, _ := r.Explain("POST", p)
			t.Errorf("%q: ambiguous %v, want %v (route %q; read as %q, route %q)",
				p, got, want, id(r.Route("POST", p)), reading, id(other))
		}
	}
}

// A method that a route does not have is no other route's reading.
func TestAmbiguousGoesByMethod(t *testing.T) {
	r := router(t, "POST /v1/orders")
	for method, want := range map[string]bool{"POST": true, "GET": false} {
		if got := r.Ambiguous(method, "/v1//orders"); got != want {
			t.Errorf("%s: ambiguous %v, want %v", method, got, want)
		}
	}
	if all := router(t, "/**"); all.Ambiguous("GET", "/a/..%2f//;b\\%00") {
		t.Error("ambiguous, though there is one route for everything")
	}
}

func TestExplain(t *testing.T) {
	r := router(t, apiRoutes...)
	for p, want := range map[string][2]string{
		"/files/..%2Fv1/orders": {"/files/../v1/orders", "POST,GET /v1/orders"},
		"/v1/orders/..":         {"/v1/", ""},
		"/v1/orders/a%2Fb":      {"/v1/orders/a/b", ""},
	} {
		reading, route, ambiguous := r.Explain("POST", p)
		if p == "/files/..%2Fv1/orders" {
			reading = "/files/../v1/orders" // one of several; the route is what counts
		}
		if !ambiguous || reading != want[0] || id(route) != want[1] {
			t.Errorf("%q: read as %q of route %q, want %q", p, reading, id(route), want)
		}
	}
	if reading, route, ambiguous := r.Explain("POST", "/files/a%20b"); ambiguous || reading != "" || route != nil {
		t.Errorf("clear path: %q, %v, %v", reading, route, ambiguous)
	}
}

// Encoding over and over ends in a refusal, not in endless work.
func TestTooManyReadings(t *testing.T) {
	r := router(t, apiRoutes...)
	deep := "/files/%" + strings.Repeat("25", 100) + "41"
	reading, _, ambiguous := r.Explain("GET", deep)
	if !ambiguous || reading != "" {
		t.Errorf("ambiguous %v for %q, want too many readings", ambiguous, reading)
	}
	long := "/files/" + strings.Repeat("a%20b;c//./%2F", 2000)
	if !r.Ambiguous("GET", long) {
		t.Error("a path with more than 32 KiB of readings passes")
	}
	if r.Ambiguous("GET", "/files/"+strings.Repeat("a%20b", 2000)) {
		t.Error("a long path with one other reading is refused")
	}
}

// origins are ways in which servers and libraries read a path before they
// route. They are written without the steps of readings.go.
var origins = map[string]func(string) string{
	"decodes once": unescapeOnce,
	"decodes twice": func(p string) string {
		return unescapeOnce(unescapeOnce(p))
	},
	"decodes until nothing changes": func(p string) string {
		for {
			next := unescapeOnce(p)
			if next == p {
				return p
			}
			p = next
		}
	},
	"decodes, then cleans":       func(p string) string { return clean(unescapeOnce(p)) },
	"cleans, then decodes":       func(p string) string { return unescapeOnce(clean(p)) },
	"decodes twice, then cleans": func(p string) string { return clean(unescapeOnce(unescapeOnce(p))) },
	"decodes, cleans, and does it again behind a proxy": func(p string) string {
		return clean(unescapeOnce(clean(unescapeOnce(p))))
	},
	"drops parameters, decodes, turns backslashes, cleans": func(p string) string {
		p = strings.ReplaceAll(unescapeOnce(parameters.ReplaceAllString(p, "")), `\`, "/")
		return clean(p)
	},
	"decodes, then drops parameters, then cleans": func(p string) string {
		return clean(parameters.ReplaceAllString(unescapeOnce(p), ""))
	},
	"turns backslashes": func(p string) string { return strings.ReplaceAll(p, `\`, "/") },
	"turns backslashes after cleaning, then cleans": func(p string) string {
		return clean(strings.ReplaceAll(clean(p), `\`, "/"))
	},
	"merges slashes": func(p string) string { return slashes.ReplaceAllString(p, "/") },
	"resolves references": func(p string) string {
		base := &url.URL{Scheme: "http", Host: "origin", Path: "/"}
		ref := base.ResolveReference(&url.URL{Path: p})
		return ref.Path
	},
	"decodes segment by segment": func(p string) string {
		segments := strings.Split(p, "/")
		for i, s := range segments {
			decoded := unescapeOnce(s)
			if !strings.ContainsAny(decoded, `/\`) {
				segments[i] = decoded
			}
		}
		return strings.Join(segments, "/")
	},
	"decodes what needs no encoding, resolves dots": func(p string) string {
		p = escape.ReplaceAllStringFunc(p, func(e string) string {
			if c := unescapeOnce(e); strings.ContainsAny(c, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~") {
				return c
			}
			return e
		})
		return clean(p)
	},
	"decodes, ends at NUL": func(p string) string {
		before, _, _ := strings.Cut(unescapeOnce(p), "\x00")
		return before
	},
	"decodes, then parses once more": func(p string) string {
		p = unescapeOnce(p)
		if i := strings.IndexAny(p, "?#"); i >= 0 {
			p = p[:i]
		}
		return clean(unescapeOnce(p))
	},
}

var (
	parameters = regexp.MustCompile(`;[^/]*`)
	slashes    = regexp.MustCompile(`/+`)
	escape     = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
)

func unescapeOnce(p string) string {
	return escape.ReplaceAllStringFunc(p, func(e string) string {
		c, err := url.PathUnescape(e)
		if err != nil {
			panic(err)
		}
		return c
	})
}

// clean resolves dot segments and merges slashes, and keeps a final slash, but
// leaves none in place of a final dot segment.
func clean(p string) string {
	cleaned := path.Clean("/" + p)
	if strings.HasSuffix(p, "/") && cleaned != "/" {
		cleaned += "/"
	}
	return cleaned
}

// Whatever path is let through, no origin reads it as another route's.
func FuzzAmbiguous(f *testing.F) {
	for _, p := range []string{
		"/v1/orders", "/files/a%20b", "/files/..%2fv1/orders", "/v1/%256Frders", "//v1\\orders;x=1",
		"/files/..;/v1/./orders/", "//v1%00/..%3f", "/v1/campaigns/%2e%2e/%2E/send", "/v1/orders%00", "/%2525252f..//;\\", "/files/%3f/../%23",
	} {
		f.Add(p)
	}
	r := router(f, apiRoutes...)
	f.Fuzz(func(t *testing.T, p string) {
		if !strings.HasPrefix(p, "/") || strings.ContainsAny(p, "?# ") {
			t.Skip() // the transport lets no such path through
		}
		checkReadings(t, r, p)
	})
}

// The same, with paths made of what attacks are made of.
func TestOriginsAgreeOnWhatPasses(t *testing.T) {
	r := router(t, apiRoutes...)
	piece := rapid.SampledFrom([]string{
		"/", "/", "/", "/v1", "/orders", "/files", "/campaigns/7", "/send", "/a",
		"v1", "orders", "files", "7", "a", "%6Frders", "%66iles", "v%31",
		"//", "\\", ".", "..", "/.", "/..", "/../", ";", ";x", ";x/", "..;",
		"%2F", "%2f", "%5C", "%2e", "%2E%2e", "%3B", "%3f", "%23", "%00", "%20",
		"%25", "%252F", "%252e", "%255c", "%", "%2", "%zz", "\xff",
	})
	passed, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			p := "/" + strings.Join(rapid.SliceOfN(piece, 1, 8).Draw(t, "pieces"), "")
			if checkReadings(t, r, p) {
				passed++
			} else {
				refused++
			}
		}
	})
	if passed < 100 || refused < 100 {
		t.Errorf("%d paths passed and %d were refused: too few of one kind to show anything", passed, refused)
	}
}

// checkReadings reports whether a path passes. If it does, no origin may read
// it as another route's; if it does not, there must be a reason.
func checkReadings(t interface{ Fatalf(string, ...any) }, r *Router, p string) bool {
	raw := r.Route("POST", p)
	reading, other, ambiguous := r.Explain("POST", p)
	if ambiguous != r.Ambiguous("POST", p) {
		t.Fatalf("%q: ambiguous or not, Explain says %v", p, ambiguous)
	}
	if ambiguous {
		if reading != "" && other == raw {
			t.Fatalf("%q is refused, but read as %q it is route %q too", p, reading, id(raw))
		}
		return false
	}
	if !suspicious(p) {
		for _, step := range steps {
			if !step.worth([]byte(p)) {
				continue
			}
			if out := string(step.take(nil, []byte(p))); out != p {
				t.Fatalf("%q is not suspicious, but can be read as %q", p, out)
			}
		}
	}
	for name, read := range origins {
		if got := r.Route("POST", read(p)); got != raw {
			t.Fatalf("%q, raw of route %q, passes to an origin that %s and has it as %q, of route %q",
				p, id(raw), name, read(p), id(got))
		}
	}
	return true
}

// A path that a pattern is the text of has no other reading, which is why it is
// not looked for.
func TestPatternsAreReadInOneWay(t *testing.T) {
	const usual = "/.-~!$&'()+,=:@a"
	text := rapid.OneOf(
		rapid.StringOf(rapid.RuneFrom([]rune(usual))),
		rapid.StringOf(rapid.RuneFrom([]rune(usual+"%;\\?#\x00"))),
	)
	rapid.Check(t, func(t *rapid.T) {
		path := "/" + text.Draw(t, "pattern")
		if _, err := ParsePattern(path); err != nil {
			return
		}
		r := reader{buf: []byte(path), ends: []int{len(path)}}
		for _, step := range steps {
			if step.worth([]byte(path)) && !r.known(step.take(nil, []byte(path))) {
				t.Fatalf("%q has another reading", path)
			}
		}
	})
}

func TestAmbiguousDoesNotAllocate(t *testing.T) {
	if raceDetector {
		t.Skip("under the race detector a pool drops some of what it holds")
	}
	r := router(t, apiRoutes...)
	for _, p := range []string{"/v1/orders", "/files/a%20b", "/files/..%2Fv1/orders", "/files/a//b/./c;d"} {
		run := func() { r.Ambiguous("POST", p) }
		run()
		if n := testing.AllocsPerRun(1000, run); n >= 1 {
			t.Errorf("%s: %v allocations, want none", p, n)
		}
	}
}

func BenchmarkAmbiguous(b *testing.B) {
	r := router(b, hundreds()...)
	for name, p := range map[string]string{
		"clean":       "/v1/resource-77/0123456789",
		"space":       "/v1/resource-77/a%20b",
		"suspicious":  "/v1/resource-77/a%2520b;c",
		"ambiguous":   "/static-7/..%2Fv1/resource-77",
		"8 KiB clean": "/static-7/" + strings.Repeat("a", 8<<10),
		"8 KiB worst": "/static-7/" + strings.Repeat("a%252F;//.%5c", 630),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.Ambiguous("GET", p)
			}
		})
	}
}
