package priority

import (
	"errors"
	"fmt"
	"maps"

	"sluice/admission"
)

// Options is a policy of routes and classes.
type Options struct {
	Routes []Route // in order: the first that matches wins

	// Classes names the classes, most important first; admission.Class is an
	// index into it.
	Classes []string

	Rules []Rule // in order: the first that holds wins

	// Header is a field in which a client may name the class that it wants; ""
	// none. A field that is repeated, or names no class, is as good as none.
	Header string
	// Ceiling is the most important class that Header can give; Ceilings says
	// so for single tenants.
	Ceiling  admission.Class
	Ceilings map[string]admission.Class
}

// Rule gives some requests a class.
type Rule struct {
	ID    string
	When  Condition
	Class admission.Class
}

// Classifier finds a request's route and class. It implements
// admission.Classifier, is immutable, safe for concurrent use, and does not
// allocate.
type Classifier struct {
	router   *Router
	rules    []rule
	header   string
	byName   map[string]admission.Class
	ceiling  admission.Class
	ceilings map[string]admission.Class
}

var _ admission.Classifier = (*Classifier)(nil)

type rule struct {
	id    string
	when  condition
	class admission.Class
}

// By says what chose a class.
type By uint8

const (
	ByNothing By = iota // the request has no route
	ByRoute
	ByRule
	ByHeader
	ByCeiling // the header asked for a more important class than the tenant may have
)

var byNames = [...]string{"nothing", "route", "rule", "header", "ceiling"}

func (b By) String() string { return byNames[b] }

// Choice is a class and where it comes from.
type Choice struct {
	Class admission.Class
	By    By
	Rule  int // position of the rule that decided; -1 unless ByRule
}

// New makes a classifier. It reports everything that is wrong with the policy.
func New(o Options) (*Classifier, error) {
	var errs []error
	c := &Classifier{header: o.Header, byName: make(map[string]admission.Class), ceiling: o.Ceiling, ceilings: maps.Clone(o.Ceilings)}
	for i, name := range o.Classes {
		if _, ok := c.byName[name]; ok {
			errs = append(errs, fmt.Errorf("class %q is listed twice", name))
		}
		c.byName[name] = admission.Class(i)
	}
	class := func(class admission.Class, format string, args ...any) {
		if class < 0 || int(class) >= len(o.Classes) {
			errs = append(errs, fmt.Errorf("%s: class %d, want 0 to %d", fmt.Sprintf(format, args...), class, len(o.Classes)-1))
		}
	}
	var err error
	if c.router, err = NewRouter(o.Routes); err != nil {
		errs = append(errs, err)
	}
	for _, r := range o.Routes {
		if r.Route != nil {
			class(r.Route.Class, "route %q", r.Route.ID)
		}
	}
	ids := make(map[string]bool)
	for i, r := range o.Rules {
		where := fmt.Sprintf("rule %q", r.ID)
		if r.ID == "" || ids[r.ID] {
			errs = append(errs, fmt.Errorf("rule %d: id %q, want one that no other rule has", i+1, r.ID))
		}
		ids[r.ID] = true
		class(r.Class, "%s", where)
		when, err := r.When.compile(where)
		if err != nil {
			errs = append(errs, err)
		}
		c.rules = append(c.rules, rule{id: r.ID, when: when, class: r.Class})
	}
	if o.Header != "" {
		class(o.Ceiling, "ceiling")
		for tenant, ceiling := range o.Ceilings {
			class(ceiling, "ceiling of %q", tenant)
		}
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("priority: %w", errors.Join(errs...))
	}
	return c, nil
}

var ambiguous = admission.Form{
	Detail: "The path can be read in more than one way. Send it without encoded or repeated slashes, dot segments, backslashes and parameters.",
}

// Route sets r.Route, to nil where none matches. It refuses a request whose
// path could be read as another route's.
func (c *Classifier) Route(r *admission.Request) admission.Refusal {
	r.Route = nil
	method := c.router.bit(r.Method)
	found, plain := c.router.wholly(method, r.Path)
	if !plain {
		found = c.router.walk(method, r.Path)
		if suspicious(r.Path) && c.router.ambiguous(method, r.Path, found) {
			return admission.Refusal{Reason: admission.BadRequest, Form: &ambiguous}
		}
	}
	if found != none {
		r.Route = c.router.routes[found]
	}
	return admission.Refusal{}
}

// Class sets r.Class and r.Rule.
func (c *Classifier) Class(r *admission.Request) {
	choice := c.Choose(r)
	r.Class, r.Rule = choice.Class, ""
	if choice.By == ByRule {
		r.Rule = c.rules[choice.Rule].id
	}
}

// Choose returns what Class would set, and why.
func (c *Classifier) Choose(r *admission.Request) Choice {
	if r.Route == nil {
		return Choice{Class: admission.NoClass, Rule: -1}
	}
	for i := range c.rules {
		if c.rules[i].when.holds(r) {
			return Choice{Class: c.rules[i].class, By: ByRule, Rule: i}
		}
	}
	if c.header != "" {
		if name, count := r.Header.Get(c.header); count == 1 {
			if class, ok := c.byName[name]; ok {
				return c.under(r.Tenant, class)
			}
		}
	}
	return Choice{Class: r.Route.Class, By: ByRoute, Rule: -1}
}

// under returns a class that the header asked for, held down to the tenant's
// ceiling.
func (c *Classifier) under(tenant string, class admission.Class) Choice {
	ceiling, ok := c.ceilings[tenant]
	if !ok {
		ceiling = c.ceiling
	}
	if class < ceiling {
		return Choice{Class: ceiling, By: ByCeiling, Rule: -1}
	}
	return Choice{Class: class, By: ByHeader, Rule: -1}
}

// Holds reports whether the condition of the i-th rule holds for r, whichever
// rule decides: for explaining a choice rule by rule.
func (c *Classifier) Holds(i int, r *admission.Request) bool { return c.rules[i].when.holds(r) }

// Router returns the classifier's routes.
func (c *Classifier) Router() *Router { return c.router }
