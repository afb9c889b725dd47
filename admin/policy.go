package admin

import (
	"sync"
	"sync/atomic"

	"sluice/admission"
)

// Policy says what the indexes in events mean. It is immutable.
type Policy struct {
	Hash    string             // of the configuration, as shown to operators
	Routes  []*admission.Route // by Route.Index
	Classes []string           // by admission.Class, most important first
	File    string             // that the configuration was read from
	Facts   Facts              // what records hold of requests

	fields []string // that are recorded: Facts.Recorded, once it is in use
}

// Labels of what has no name of its own.
const (
	unmatchedRoute = "unmatched" // a request that no route matched
	noClass        = "none"      // a request without a class
)

func (p *Policy) className(c admission.Class) string {
	if c >= 0 && int(c) < len(p.Classes) {
		return p.Classes[c]
	}
	return noClass
}

func routeName(r *admission.Route) string {
	if r == nil {
		return unmatchedRoute
	}
	return r.ID
}

// row numbers the policy's routes, with one more for requests without a route.
func (p *Policy) row(r *admission.Route) int {
	if r == nil {
		return len(p.Routes)
	}
	return r.Index
}

func (p *Policy) rows() int { return len(p.Routes) + 1 }

// keptPolicies is how many policies are remembered. Requests finish under the
// policy that admitted them, so a few outlive a reload.
const keptPolicies = 8

// policies are the policies that running requests may refer to, newest first,
// each with what one observer has prepared for it.
type policies[T any] struct {
	mu    sync.Mutex // held by add
	known atomic.Pointer[[]*view[T]]
}

type view[T any] struct {
	*Policy
	prepared T
}

func (ps *policies[T]) add(p *Policy, prepared T) *Policy {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p.fields == nil {
		own := *p
		own.fields, p = p.Facts.Recorded(), &own
	}
	views := []*view[T]{{p, prepared}}
	if old := ps.known.Load(); old != nil {
		views = append(views, *old...)
	}
	views = views[:min(len(views), keptPolicies)]
	ps.known.Store(&views)
	return p
}

// newest returns the view that was added last.
func (ps *policies[T]) newest() *view[T] { return (*ps.known.Load())[0] }

// of returns the view that r belongs to. A request without a route, or with
// one that is long gone, is read under the newest policy; found then tells
// whether r's row means r there.
func (ps *policies[T]) of(r *admission.Route) (v *view[T], found bool) {
	views := *ps.known.Load()
	if r == nil {
		return views[0], true
	}
	for _, v := range views {
		if r.Index < len(v.Routes) && v.Routes[r.Index] == r {
			return v, true
		}
	}
	return views[0], false
}
