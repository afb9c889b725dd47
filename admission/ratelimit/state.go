package ratelimit

import (
	"time"

	"sluice/admission"
)

// Source says which bucket a request meets.
type Source uint8

const (
	// Unlimited is the zero value: no bucket.
	Unlimited Source = iota
	Fresh            // the tenant has no bucket yet; it would get a full one
	Own              // the tenant's bucket
	Override         // the tenant's bucket, by an override
	Overflow         // the bucket that tenants share for want of room
)

var sourceNames = [...]string{"unlimited", "fresh", "own", "override", "overflow"}

func (s Source) String() string { return sourceNames[s] }

// State is what a request would find at the gate.
type State struct {
	Source Source
	Name   string // of the limit
	Quota  Quota
	Cost   int64         // of the request, cut to the burst
	Tokens float64       // in the bucket
	Wait   time.Duration // until the request could have its tokens; 0: now
	Never  bool          // it never could
}

// Look returns what r would find at the given time, and changes nothing: it is
// for explaining a decision. Where the table is full, a tenant without a bucket
// is said to meet the overflow bucket, although Reserve might make room.
func (g *Gate) Look(now time.Time, r *admission.Request) State {
	var c claim
	if !g.claim(&c, now, r) {
		return State{}
	}
	s := State{Name: c.limit.name, Quota: c.quota, Cost: c.cost}
	s.Source, s.Tokens = c.find()
	switch wait := c.quota.until(float64(c.cost) - s.Tokens); {
	case c.cost <= 0 || wait == never:
		s.Never = true
	default:
		s.Wait = wait
	}
	return s
}

// find returns the bucket that c would meet and what it holds; the burst for one
// that would be made.
func (c *claim) find() (Source, float64) {
	p := c.table.part(c.tenant)
	p.Lock()
	defer p.Unlock()
	if b := p.find(c.tenant); b != nil {
		source := Own
		if c.own {
			source = Override
		}
		return source, b.level(c.now, c.policy.since, c.quota)
	}
	if c.table.live.Load() < c.policy.most {
		return Fresh, float64(c.quota.Burst)
	}
	c.table.shared.Lock()
	defer c.table.shared.Unlock()
	return Overflow, c.table.overflow.level(c.now, c.policy.since, c.quota)
}

// Stats counts what the gate keeps, over all its limits.
type Stats struct {
	Buckets    int    // kept now, overrides included
	Overflowed uint64 // requests that met an overflow bucket
	Dropped    uint64 // buckets dropped to make room
}

// Stats returns the gate's counts. Those of limits that a reload removed are
// gone with them.
func (g *Gate) Stats() Stats {
	var s Stats
	p := g.policy.Load()
	add := func(l *limit) {
		if l == nil {
			return
		}
		t := l.terms.table
		s.Buckets += int(t.live.Load() + t.kept.Load())
		s.Overflowed += t.overflowed.Load()
		s.Dropped += t.dropped.Load()
	}
	add(p.tenants)
	for _, l := range p.routes {
		add(l)
	}
	return s
}
