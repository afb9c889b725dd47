package priority

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/admission"
)

const (
	critical admission.Class = iota
	standard
	bulk
)

// policy is what the tests below classify by.
func policy() Options {
	list := routes("POST /v1/orders", "/v1/reports/**", "/**")
	for i := range list {
		list[i].Route.Class = standard
	}
	return Options{
		Routes:  list,
		Classes: []string{"critical", "standard", "bulk"},
		Rules: []Rule{
			{ID: "backfills", Class: bulk, When: Condition{Headers: []HeaderCondition{{Name: "X-Job-Type", Value: "backfill"}}}},
			{ID: "vip orders", Class: critical, When: Condition{
				Methods: []string{"POST"}, Path: "/v1/orders", Tenants: []string{"vip-*", "acme"},
				Not: &Condition{Headers: []HeaderCondition{{Name: "X-Trial", Op: Present}}},
			}},
			{ID: "reports", Class: bulk, When: Condition{
				Any: []Condition{{Path: "/v1/reports/**"}, {Headers: []HeaderCondition{{Name: "User-Agent", Op: Like, Value: "*report*"}}}},
				All: []Condition{{Methods: []string{"GET", "HEAD"}}, {Headers: []HeaderCondition{{Name: "X-Urgent", Op: Absent}}}},
			}},
		},
		Header:   "X-Priority",
		Ceiling:  standard,
		Ceilings: map[string]admission.Class{"trusted": critical, "batch": bulk},
	}
}

func classifier(t testing.TB, o Options) *Classifier {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestClass(t *testing.T) {
	cases := []struct {
		name         string
		method, path string
		tenant       string
		header       fields
		class        admission.Class
		by           By
		rule         int
	}{
		{"route", "GET", "/a", "x", nil, standard, ByRoute, -1},
		{"header equals", "GET", "/a", "x", fields{{"x-job-type", "backfill"}}, bulk, ByRule, 0},
		{"header differs", "GET", "/a", "x", fields{{"X-Job-Type", "Backfill"}}, standard, ByRoute, -1},
		{"repeated header equals nothing", "GET", "/a", "x", fields{{"X-Job-Type", "backfill"}, {"X-Job-Type", "backfill"}}, standard, ByRoute, -1},
		{"tenant by name", "POST", "/v1/orders", "acme", nil, critical, ByRule, 1},
		{"tenant by glob", "POST", "/v1/orders", "vip-7", nil, critical, ByRule, 1},
		{"tenant that is no such", "POST", "/v1/orders", "xvip-7", nil, standard, ByRoute, -1},
		{"method that is no such", "PUT", "/v1/orders", "acme", nil, standard, ByRoute, -1},
		{"path that is no such", "POST", "/v1/orders/1", "acme", nil, standard, ByRoute, -1},
		{"not", "POST", "/v1/orders", "acme", fields{{"X-Trial", ""}}, standard, ByRoute, -1},
		{"not, repeated", "POST", "/v1/orders", "acme", fields{{"X-Trial", "a"}, {"X-Trial", "b"}}, standard, ByRoute, -1},
		{"first rule wins", "POST", "/v1/orders", "acme", fields{{"X-Job-Type", "backfill"}}, bulk, ByRule, 0},
		{"any by path", "GET", "/v1/reports/7", "x", nil, bulk, ByRule, 2},
		{"any by header", "HEAD", "/a", "x", fields{{"User-Agent", "my-reporter/1"}}, bulk, ByRule, 2},
		{"all but one", "GET", "/v1/reports/7", "x", fields{{"X-Urgent", "1"}}, standard, ByRoute, -1},
		{"all but any", "GET", "/a", "x", nil, standard, ByRoute, -1},
		{"asked for less", "GET", "/a", "x", fields{{"X-Priority", "bulk"}}, bulk, ByHeader, -1},
		{"asked for the ceiling", "GET", "/a", "x", fields{{"X-Priority", "standard"}}, standard, ByHeader, -1},
		{"asked for more", "GET", "/a", "x", fields{{"X-Priority", "critical"}}, standard, ByCeiling, -1},
		{"may have more", "GET", "/a", "trusted", fields{{"X-Priority", "critical"}}, critical, ByHeader, -1},
		{"may have less", "GET", "/a", "batch", fields{{"X-Priority", "critical"}}, bulk, ByCeiling, -1},
		{"the ceiling is the header's", "GET", "/a", "batch", nil, standard, ByRoute, -1},
		{"rule before header", "GET", "/a", "x", fields{{"X-Priority", "critical"}, {"X-Job-Type", "backfill"}}, bulk, ByRule, 0},
		{"unknown class", "GET", "/a", "x", fields{{"X-Priority", "Bulk"}}, standard, ByRoute, -1},
		{"asked for twice", "GET", "/a", "x", fields{{"X-Priority", "bulk"}, {"X-Priority", "bulk"}}, standard, ByRoute, -1},
		{"no route", "GET", "*", "x", fields{{"X-Job-Type", "backfill"}}, admission.NoClass, ByNothing, -1},
	}
	c := classifier(t, policy())
	ids := []string{"backfills", "vip orders", "reports"}
	for _, want := range cases {
		r := admission.Request{Method: want.method, Path: want.path, Tenant: want.tenant, Header: want.header, Class: 77, Rule: "left over"}
		if f := c.Route(&r); f.Is() {
			t.Errorf("%s: refused: %+v", want.name, f)
			continue
		}
		if got := c.Choose(&r); got != (Choice{Class: want.class, By: want.by, Rule: want.rule}) {
			t.Errorf("%s: got %+v by %v", want.name, got, got.By)
		}
		c.Class(&r)
		rule := ""
		if want.rule >= 0 {
			rule = ids[want.rule]
			if !c.Holds(want.rule, &r) {
				t.Errorf("%s: rule %q decided and does not hold", want.name, rule)
			}
		}
		if r.Class != want.class || r.Rule != rule {
			t.Errorf("%s: class %d by rule %q, want %d by %q", want.name, r.Class, r.Rule, want.class, rule)
		}
	}
	if s := fmt.Sprint(ByNothing, ByRoute, ByRule, ByHeader, ByCeiling); s != "nothing route rule header ceiling" {
		t.Errorf("reasons print as %s", s)
	}
}

func TestRouteRefusesAmbiguousPaths(t *testing.T) {
	o := policy()
	o.Routes = routes("POST /v1/orders", "/files/**")
	c := classifier(t, o)
	for path, want := range map[string]admission.Reason{
		"/v1/orders":            admission.None,
		"/v1/%6Frders":          admission.BadRequest,
		"/files/../v1/orders":   admission.BadRequest,
		"/files/a%20b":          admission.None,
		"/nothing/a//b%2Fc;d/.": admission.None,
	} {
		r := admission.Request{Method: "POST", Path: path, Route: &admission.Route{ID: "left over"}}
		f := c.Route(&r)
		if f.Reason != want || f.Is() && f.Form.Detail == "" {
			t.Errorf("%s: %+v, want %v", path, f, want)
		}
		if want == admission.None && r.Route != c.Router().Route("POST", path) {
			t.Errorf("%s: route %q", path, id(r.Route))
		}
	}
}

// No header raises a class above the tenant's ceiling.
func TestCeilingHolds(t *testing.T) {
	o := policy()
	o.Rules = nil
	c := classifier(t, o)
	rapid.Check(t, func(t *rapid.T) {
		var header fields
		for range rapid.IntRange(0, 3).Draw(t, "fields") {
			name := rapid.SampledFrom([]string{"X-Priority", "x-priority", "X-Other"}).Draw(t, "name")
			header = append(header, [2]string{name, rapid.SampledFrom([]string{"critical", "standard", "bulk", "", "0", "critical, bulk"}).Draw(t, "value")})
		}
		tenant := rapid.SampledFrom([]string{"trusted", "batch", "x", ""}).Draw(t, "tenant")
		r := admission.Request{Tenant: tenant, Header: header, Route: o.Routes[0].Route}
		c.Class(&r)
		ceiling, ok := o.Ceilings[tenant]
		if !ok {
			ceiling = o.Ceiling
		}
		if r.Class < ceiling && r.Class != r.Route.Class {
			t.Fatalf("%q has class %d above its ceiling %d by %v", tenant, r.Class, ceiling, header)
		}
	})
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "abc", true}, {"a", "a", true}, {"a", "b", false}, {"a", "", false},
		{"a*", "a", true}, {"a*", "abc", true}, {"a*", "ba", false}, {"*a", "ba", true}, {"*a", "ab", false}, {"*a*", "bab", true},
		{"a*b", "ab", true}, {"a*b", "aXbXb", true}, {"a*b", "aXbX", false}, {"**", "x", true}, {"a**b", "acb", true},
		{"a*b*c", "abbc", true}, {"a*b*c", "acb", false}, {"*.*.*", "a.b", false}, {"?", "a", false}, {"[a]", "a", false},
	} {
		if got := glob(c.pattern, c.text); got != c.want {
			t.Errorf("glob(%q, %q) = %v", c.pattern, c.text, got)
		}
	}
	// Backtracking is bounded.
	if glob(strings.Repeat("a*", 500)+"b", strings.Repeat("a", 5000)) {
		t.Error("matched")
	}
}

// Glob agrees with the plain definition.
func FuzzGlob(f *testing.F) {
	f.Add("a*b", "aXb")
	f.Add("**a*", "bab")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 12 || len(text) > 24 {
			t.Skip()
		}
		var like func(p, s string) bool
		like = func(p, s string) bool {
			switch {
			case p == "":
				return s == ""
			case p[0] == '*':
				return like(p[1:], s) || s != "" && like(p, s[1:])
			}
			return s != "" && s[0] == p[0] && like(p[1:], s[1:])
		}
		if strings.Count(pattern, "*") > 5 {
			t.Skip()
		}
		if got, want := glob(pattern, text), like(pattern, text); got != want {
			t.Fatalf("glob(%q, %q) = %v", pattern, text, got)
		}
	})
}

func TestBadPolicy(t *testing.T) {
	o := policy()
	o.Classes = []string{"critical", "standard", "critical"}
	o.Routes[1].Route.Class = 3
	o.Routes = append(o.Routes, routes("x")...)
	o.Ceiling = -1
	o.Ceilings = map[string]admission.Class{"x": 9}
	o.Rules = []Rule{
		{ID: "a", Class: 5, When: Condition{Methods: []string{"GET"}}},
		{ID: "a", When: Condition{}},
		{When: Condition{Path: "no", Any: []Condition{{}, {Headers: []HeaderCondition{{}, {Name: "X", Op: 9}}}}, Not: &Condition{Methods: []string{""}}}},
	}
	_, err := New(o)
	want := `priority: class "critical" is listed twice
priority: route "x": path pattern "x": want a leading slash
route "/v1/reports/**": class 3, want 0 to 2
rule "a": class 5, want 0 to 2
rule 2: id "a", want one that no other rule has
rule "a": no condition, want at least one of method, path, header, tenant, any, all and not
rule 3: id "", want one that no other rule has
rule "": path pattern "no": want a leading slash
rule "": any 1: no condition, want at least one of method, path, header, tenant, any, all and not
rule "": any 2: header without a name
rule "": any 2: header X: unknown comparison 9
rule "": not: empty method, want a name such as POST
ceiling: class -1, want 0 to 2
ceiling of "x": class 9, want 0 to 2`
	if err == nil || err.Error() != want {
		t.Errorf("error is\n%v\nwant\n%s", err, want)
	}
}

// many is a policy of hundreds of routes and dozens of rules.
func many(t testing.TB) *Classifier {
	o := policy()
	o.Routes = routes(hundreds()...)
	for i := range 50 {
		o.Rules = append(o.Rules, Rule{ID: fmt.Sprint("rule-", i), Class: bulk, When: Condition{Tenants: []string{fmt.Sprint("batch-", i, "-*")}}})
	}
	return classifier(t, o)
}

func TestClassifyingDoesNotAllocate(t *testing.T) {
	c := many(t)
	for _, r := range []admission.Request{
		{Method: "POST", Path: "/v1/resource-77", Tenant: "batch-49-x", Header: fields{}},
		{Method: "POST", Path: "/v1/resource-77", Tenant: "x", Header: fields{{"X-Priority", "critical"}}},
		{Method: "GET", Path: "/v1/reports/7", Tenant: "x", Header: fields{}},
		{Method: "BREW", Path: "/unmatched", Header: fields{}},
	} {
		if n := testing.AllocsPerRun(100, func() {
			c.Route(&r)
			c.Class(&r)
		}); n != 0 {
			t.Errorf("%s %s: %v allocations, want none", r.Method, r.Path, n)
		}
	}
}

func BenchmarkClassify(b *testing.B) {
	for name, c := range map[string]*Classifier{"400 routes, 53 rules": many(b), "3 routes, 3 rules": classifier(b, policy())} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			r := admission.Request{Method: "POST", Path: "/v1/resource-77", Tenant: "some-tenant", Header: fields{{"X-Priority", "bulk"}}}
			for b.Loop() {
				c.Route(&r)
				c.Class(&r)
			}
		})
	}
}
