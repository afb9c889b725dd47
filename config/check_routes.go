package config

import (
	"slices"
	"strings"

	"sluice/config/strict"
)

func (k checker) checkRoutes() {
	ids := make([]ID, len(k.Routes))
	methods := map[Method]bool{}
	for i, r := range k.Routes {
		ids[i] = r.ID
		for _, m := range r.Match.Methods {
			methods[m] = true
		}
		at := strict.Index("routes", i)
		if r.ID == "unmatched" {
			k.Problem(at+".id", `"unmatched" is what logs and metrics call requests without a route; choose another id`)
		}
		k.className(at+".class", r.Class)
		k.methods(at+".match", r.Match.Methods)
		k.checkIdempotency(i)
		if h := r.CostHeader; h != nil && h.Max > 0 && h.Max < r.Cost {
			k.Problem(at+".cost_header.max", "%d is less than the route's cost (%d), which every request pays; write %d or more", h.Max, r.Cost, r.Cost)
		}
	}
	k.unique("routes", "id", "route", ids)
	if n := len(methods); n > maxMethods {
		k.Problem("routes", "%d different methods are too many; routes can tell %d apart", n, maxMethods)
	}
}

// maxMethods is how many methods the routes of one config can tell apart.
const maxMethods = 63

// methods reports methods that stand in a list twice.
func (k checker) methods(section string, methods []Method) {
	for i, m := range methods {
		if m != "" && slices.Contains(methods[:i], m) {
			k.Problem(strict.Index(section+".methods", i), "%s stands in the list already; keep one of them", m)
		}
	}
}

func (k checker) checkPriority() {
	ids := make([]ID, len(k.Priority))
	for i, r := range k.Priority {
		ids[i] = r.ID
		at := strict.Index("priority", i)
		k.className(at+".class", r.Class)
		if !k.Failed(at + ".when") {
			k.condition(at+".when", r.When)
		}
	}
	k.unique("priority", "id", "rule", ids)
}

// condition checks one condition and those inside it.
func (k checker) condition(path string, c Condition) {
	if c.empty() && !k.FailedWithin(path) {
		k.Problem(path, "the condition is empty and would match every request; say which, with method, path, header or tenant, or path: /** for all")
	}
	k.methods(path, c.Methods)
	names := map[string]HeaderName{}
	for _, name := range sortedKeys(c.Header) {
		lower := strings.ToLower(string(name))
		if other, twice := names[lower]; twice {
			k.Problem(strict.Key(path+".header", string(name)), "%s and %s are the same header field; keep one of them", other, name)
		}
		names[lower] = name
	}
	for _, list := range []struct {
		key   string
		inner []Condition
	}{{"any", c.Any}, {"all", c.All}} {
		for i, inner := range list.inner {
			k.condition(strict.Index(path+"."+list.key, i), inner)
		}
	}
	if c.Not != nil {
		k.condition(path+".not", *c.Not)
	}
}

// empty reports whether c says nothing.
func (c Condition) empty() bool {
	return len(c.Methods) == 0 && c.Path == "" && len(c.Header) == 0 && len(c.Tenants) == 0 &&
		len(c.Any) == 0 && len(c.All) == 0 && c.Not == nil
}
