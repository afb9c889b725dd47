package ratelimit

import (
	"time"

	"golang.org/x/time/rate"
)

// Report says what a change of policy did to the buckets.
type Report struct {
	Kept     int // whose quota stayed as it was
	Rescaled int // that go on at their level under a changed quota
	Dropped  int // of limits that no longer exist
}

// Reconfigure puts a policy into force. Levels survive; see the package
// comment. A limit that goes with its route takes its buckets with it. An
// invalid policy changes nothing. The call takes time in proportion to the
// number of overrides, not of tenants.
//
// A bucket that belonged to a removed override falls back to the limit's quota
// and becomes an ordinary bucket, also where that makes one more than
// Options.MaxTenants.
func (g *Gate) Reconfigure(o Options, now time.Time) (Report, error) {
	if err := o.Validate(); err != nil {
		return Report{}, err
	}
	g.reload.Lock()
	defer g.reload.Unlock()

	old := g.policy.Load()
	if old == nil {
		old = &policy{}
	}
	at := g.since(now)
	var report Report
	next := &policy{since: at, most: int64(o.MaxTenants), routes: make(map[string]*limit, len(o.Routes))}
	next.tenants = g.replace(old.tenants, o.Tenants, at, &report)
	for id, l := range o.Routes {
		next.routes[id] = g.replace(old.routes[id], l, at, &report)
	}
	for id, l := range old.routes {
		if next.routes[id] == nil {
			g.replace(l, nil, at, &report)
		}
	}
	g.policy.Store(next)
	return report, nil
}

// replace makes the limit that follows old, which may be nil. Requests that
// still run under the old policy meet the same buckets meanwhile.
func (g *Gate) replace(old *limit, l *Limit, at int64, report *Report) *limit {
	switch {
	case old == nil && l == nil:
		return nil
	case l == nil:
		t := old.terms.table
		report.Dropped += int(t.live.Load() + t.kept.Load())
		return nil
	case old == nil:
		old = &limit{terms: newTerms(Quota{Rate: rate.Inf}, newTable(at, l.Quota))}
	}
	t := old.terms.table
	shared := int(t.live.Load()) // buckets that neither had an override nor get one
	next := &limit{name: l.Name, terms: newTerms(l.Quota, t), overrides: make(map[string]*terms, len(l.Overrides))}
	for tenant, quota := range l.Overrides {
		hash, own := g.hash(tenant), newTerms(quota, t)
		next.overrides[tenant] = &own
		found, kept := t.keep(hash, true)
		if !found {
			if !quota.Unlimited() {
				t.addKept(newBucket(hash, at, quota))
			}
			continue
		}
		if !kept {
			shared--
		}
		before := &old.terms
		if was := old.overrides[tenant]; was != nil {
			before = was
		}
		report.count(before.quota, quota)
	}
	for tenant, was := range old.overrides {
		if next.overrides[tenant] != nil {
			continue
		}
		if found, _ := t.keep(g.hash(tenant), false); found {
			report.count(was.quota, l.Quota)
		}
	}
	if old.terms.quota.sameSize(l.Quota) {
		report.Kept += shared
	} else {
		report.Rescaled += shared
	}
	return next
}

func (r *Report) count(before, after Quota) {
	if before.sameSize(after) {
		r.Kept++
	} else {
		r.Rescaled++
	}
}

// sameSize reports whether a bucket of q needs no change to be one of p.
func (q Quota) sameSize(p Quota) bool { return q.Rate == p.Rate && q.Burst == p.Burst }
