package policytest

import (
	"cmp"
	"fmt"
	"slices"

	"sluice/config"
	"sluice/config/strict"
	"sluice/rehearse"
)

// Coverage is which parts of policies the tests have exercised. The zero value
// is ready; nil covers nothing. It is for one goroutine.
type Coverage struct {
	policies []*policyCoverage
}

type policyCoverage struct {
	file  string
	items map[string]*Item // by path
}

// Item is one part of a policy that tests can exercise: a route, a priority
// rule, a limit, a band or a bound of places.
type Item struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Kind string `json:"kind"` // route, rule, limit, band, places
	Name string `json:"name"`
	// Met is how many requests came to it, and Decided of how many it decided: a
	// route that matched, a rule that gave the class, a limit, a band or places
	// that refused, in shadow mode too.
	Met     int `json:"met"`
	Decided int `json:"decided"`
}

// Covered reports whether the item has decided at least once.
func (i *Item) Covered() bool { return i.Decided > 0 }

// add makes room for the parts of a policy.
func (c *Coverage) add(cfg *config.Config) *policyCoverage {
	for _, p := range c.policies {
		if p.file == cfg.Source.File {
			return p
		}
	}
	p := &policyCoverage{file: cfg.Source.File, items: map[string]*Item{}}
	item := func(path, kind, name string) {
		p.items[path] = &Item{File: p.file, Line: cfg.Line(path), Kind: kind, Name: name}
	}
	if cfg.Tenants.Limit != nil {
		item("tenants.limit", "limit", "tenants")
	}
	for _, name := range sortedKeys(cfg.Tenants.Overrides) {
		if cfg.Tenants.Overrides[name].Rate > 0 {
			item(strict.Key("tenants.overrides", name), "limit", "tenant "+name)
		}
	}
	for i, r := range cfg.Priority {
		item(strict.Index("priority", i), "rule", string(r.ID))
	}
	for _, name := range sortedKeys(cfg.Queues) {
		for _, class := range sortedKeys(cfg.Queues[name].Shed) {
			item(strict.Key(strict.Key("queues", string(name))+".shed", string(class)), "band", fmt.Sprintf("%s at %s", class, name))
		}
	}
	if cfg.Origin.MaxInFlight > 0 {
		item("origin.max_in_flight", "places", "origin")
	}
	for i, r := range cfg.Routes {
		at := strict.Index("routes", i)
		item(at, "route", string(r.ID))
		if r.Limit != nil {
			item(at+".limit", "limit", "route "+string(r.ID))
		}
		if r.MaxInFlight > 0 {
			item(at+".max_in_flight", "places", "route "+string(r.ID))
		}
	}
	c.policies = append(c.policies, p)
	return p
}

// note takes note of one request.
func (c *Coverage) note(stage *rehearse.Stage, p *rehearse.Performance) {
	if c == nil {
		return
	}
	items := c.add(stage.Config).items
	count := func(path string, decided bool) {
		if i := items[path]; i != nil {
			i.Met++
			if decided {
				i.Decided++
			}
		}
	}
	r := p.Request
	if r.Route == nil {
		return
	}
	count(stage.RoutePath(r.Route), true)
	for i, rule := range stage.Config.Priority {
		if string(rule.ID) == r.Rule {
			count(strict.Index("priority", i), true)
		}
	}
	for _, stop := range p.Stops {
		count(stage.StopPath(stop, r), stop.Refusal.Is())
	}
}

// Items lists the parts of all policies, in the order of their files' lines.
func (c *Coverage) Items() (all []Item) {
	for _, p := range c.policies {
		from := len(all)
		for _, path := range sortedKeys(p.items) {
			all = append(all, *p.items[path])
		}
		slices.SortStableFunc(all[from:], func(a, b Item) int { return cmp.Compare(a.Line, b.Line) })
	}
	return all
}
