package priority

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"sluice/admission"
)

// Route is a route with what it matches.
type Route struct {
	Methods []string // as sent, so in capitals as a rule; none: any
	Path    string   // a Pattern
	Route   *admission.Route
}

// Router finds the first of its routes that matches. It is immutable, safe for
// concurrent use, and does not allocate. The time it takes grows with the depth
// of the path and hardly with the number of routes; a path that some pattern is
// the text of is looked up as a whole.
type Router struct {
	routes  []*admission.Route
	root    *node
	whole   texts[[]end] // by the path: of all patterns that match it, in order
	methods []string     // that routes name; the bit of the i-th is the i+1st
}

// otherMethod is the bit of the methods that no route names.
const otherMethod = 1

// node is where patterns stand that begin with the same segments.
type node struct {
	by    texts[*node] // by a literal segment
	one   *node        // by "*"
	ends  []end        // of the patterns that end here
	rests []end        // of the patterns whose "**" is here
	first int32        // lowest order here and below
}

// texts is a map from texts. The zero value is empty.
type texts[V any] struct {
	few  []text[V]    // as long as there are few
	many map[string]V // all, from then on
}

type text[V any] struct {
	text string
	is   V
}

// fewTexts is up to how many it is faster to compare than to hash: mostly their
// lengths differ.
const fewTexts = 8

// get returns what a text stands for; the zero value where it is not there.
func (t *texts[V]) get(s string) (v V) {
	for i := range t.few {
		if t.few[i].text == s {
			return t.few[i].is
		}
	}
	if t.many == nil {
		return v
	}
	return t.many[s]
}

// add adds a text that is not there.
func (t *texts[V]) add(s string, v V) {
	if len(t.few) < fewTexts && t.many == nil {
		t.few = append(t.few, text[V]{s, v})
		return
	}
	if t.many == nil {
		t.many = make(map[string]V)
		for _, f := range t.few {
			t.many[f.text] = f.is
		}
		t.few = nil
	}
	t.many[s] = v
}

// end is a route's place in the order, and its methods.
type end struct {
	order   int32
	methods uint64
}

// none is an order behind all routes.
const none = math.MaxInt32

func newNode() *node { return &node{first: none} }

// NewRouter makes a router. It reports everything that is wrong with the
// routes.
func NewRouter(routes []Route) (*Router, error) {
	t := &Router{root: newNode()}
	var errs []error
	for i, r := range routes {
		if r.Route == nil {
			errs = append(errs, fmt.Errorf("route %d has nothing to route to", i+1))
			continue
		}
		pattern, err := ParsePattern(r.Path)
		if err != nil {
			errs = append(errs, fmt.Errorf("route %q: %w", r.Route.ID, err))
			continue
		}
		methods, err := t.methodBits(r.Methods)
		if err != nil {
			errs = append(errs, fmt.Errorf("route %q: %w", r.Route.ID, err))
			continue
		}
		t.root.add(pattern, end{order: int32(len(t.routes)), methods: methods})
		t.routes = append(t.routes, r.Route)
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("priority: %w", errors.Join(errs...))
	}
	for _, r := range routes {
		if p, err := ParsePattern(r.Path); err == nil && p.literal() && t.whole.get(p.text) == nil {
			ends := t.root.all(p.text[1:], true, nil)
			slices.SortFunc(ends, func(a, b end) int { return cmp.Compare(a.order, b.order) })
			t.whole.add(p.text, ends)
		}
	}
	return t, nil
}

// methodBits returns the bits of some methods; of no methods, all bits.
func (t *Router) methodBits(methods []string) (uint64, error) {
	if len(methods) == 0 {
		return math.MaxUint64, nil
	}
	var set uint64
	for _, m := range methods {
		if m == "" {
			return 0, errors.New("empty method, want a name such as POST")
		}
		bit := t.bit(m)
		if bit == otherMethod {
			if len(t.methods) == 63 {
				return 0, fmt.Errorf("method %q: more than 63 different methods", m)
			}
			t.methods = append(t.methods, m)
			bit = t.bit(m)
		}
		set |= bit
	}
	return set, nil
}

func (n *node) add(p Pattern, e end) {
	n.first = min(n.first, e.order)
	for _, s := range p.segments {
		n = n.child(s)
		n.first = min(n.first, e.order)
	}
	if p.rest {
		n.rests = append(n.rests, e)
	} else {
		n.ends = append(n.ends, e)
	}
}

// child returns the node that a pattern's segment leads to.
func (n *node) child(segment string) *node {
	if segment == wildcard {
		if n.one == nil {
			n.one = newNode()
		}
		return n.one
	}
	to := n.by.get(segment)
	if to == nil {
		to = newNode()
		n.by.add(segment, to)
	}
	return to
}

// Route returns the first route that matches a method and a raw path, and nil
// if none does.
func (t *Router) Route(method, path string) *admission.Route {
	if i := t.find(t.bit(method), path); i != none {
		return t.routes[i]
	}
	return nil
}

func (t *Router) bit(method string) uint64 {
	for i, m := range t.methods {
		if m == method {
			return otherMethod << (i + 1)
		}
	}
	return otherMethod
}

// find returns the order of the first route that matches.
func (t *Router) find(method uint64, path string) int32 {
	if found, ok := t.wholly(method, path); ok {
		return found
	}
	return t.walk(method, path)
}

// wholly is find for a path that some pattern is the text of; false if none is.
// Such a path has no other reading: ParsePattern lets nothing pass that a step
// has an effect on.
func (t *Router) wholly(method uint64, path string) (found int32, ok bool) {
	if ends := t.whole.get(path); ends != nil {
		return firstOf(ends, method, none), true
	}
	return none, false
}

// walk is find by segments.
func (t *Router) walk(method uint64, path string) int32 {
	path, ok := strings.CutPrefix(path, "/")
	if !ok {
		return none
	}
	return t.root.find(method, path, true, none)
}

// all appends what matches the rest of the path at or below n to ends, of any
// method; see find.
func (n *node) all(path string, more bool, ends []end) []end {
	ends = append(ends, n.rests...)
	if !more {
		return append(ends, n.ends...)
	}
	segment, path, more := strings.Cut(path, "/")
	if next := n.by.get(segment); next != nil {
		ends = next.all(path, more, ends)
	}
	if n.one != nil && segment != "" {
		ends = n.one.all(path, more, ends)
	}
	return ends
}

// find returns the lowest order of a route at or below n that matches the rest
// of the path, or best if none is lower. more says whether there is a rest: "/a"
// ends at "a", "/a/" goes on with an empty segment.
func (n *node) find(method uint64, path string, more bool, best int32) int32 {
	for n != nil && n.first < best {
		best = firstOf(n.rests, method, best)
		if !more {
			return firstOf(n.ends, method, best)
		}
		var segment string
		segment, path, more = strings.Cut(path, "/")
		next := n.by.get(segment)
		if n.one != nil && segment != "" {
			if next != nil {
				best = next.find(method, path, more, best)
			}
			next = n.one
		}
		n = next
	}
	return best
}

// firstOf returns the order of the first that has the method, if it is below
// best. They are in order.
func firstOf(ends []end, method uint64, best int32) int32 {
	for _, e := range ends {
		if e.order >= best {
			break
		}
		if e.methods&method != 0 {
			return e.order
		}
	}
	return best
}
