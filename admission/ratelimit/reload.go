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
	if old == nil {
		old = &limit{quota: Quota{Rate: rate.Inf}}
	}
	shared := 0 // buckets that are not of an override
	if old.table != nil {
		shared = int(old.table.live.Load()) - g.alsoInTable(old)
	}
	if l == nil {
		report.Dropped += shared + old.buckets()
		return nil
	}
	next := &limit{name: l.Name, quota: l.Quota, table: old.table, overrides: make(map[string]override, len(l.Overrides))}
	if next.table == nil {
		next.table = newTable(g.base, at, l.Quota)
	}
	for tenant, quota := range l.Overrides {
		before, bucket := g.inherit(old, next.table, tenant)
		switch {
		case bucket == nil && !quota.Unlimited():
			bucket = newBucket(stripeOf(g.hash(tenant)), g.base, at, quota)
		case bucket != nil:
			report.count(before, quota)
			if _, was := old.overrides[tenant]; !was {
				shared--
			}
		}
		next.overrides[tenant] = override{quota: quota, bucket: bucket}
	}
	for tenant, was := range old.overrides {
		if _, still := next.overrides[tenant]; still || was.bucket == nil {
			continue
		}
		s := &g.stripes[was.bucket.stripe]
		s.Lock()
		next.table.put(g.hash(tenant), was.bucket)
		s.Unlock()
		report.count(was.quota, l.Quota)
	}
	if old.quota.sameSize(l.Quota) {
		report.Kept += shared
	} else {
		report.Rescaled += shared
	}
	return next
}

// inherit returns the bucket that a tenant has had so far, if any, and its
// quota. A bucket found in the table stays there too, so that requests under
// the old policy keep finding it; it may be dropped from there like any other.
func (g *Gate) inherit(old *limit, t *table, tenant string) (Quota, *bucket) {
	if was, ok := old.overrides[tenant]; ok {
		return was.quota, was.bucket
	}
	return old.quota, g.peek(t, tenant)
}

// alsoInTable counts the overrides whose bucket is in the table too.
func (g *Gate) alsoInTable(l *limit) int {
	n := 0
	for tenant, o := range l.overrides {
		if o.bucket != nil && g.peek(l.table, tenant) == o.bucket {
			n++
		}
	}
	return n
}

// peek returns a tenant's bucket in a table; nil if it has none.
func (g *Gate) peek(t *table, tenant string) *bucket {
	hash := g.hash(tenant)
	i := stripeOf(hash)
	g.stripes[i].Lock()
	defer g.stripes[i].Unlock()
	b, _ := t.parts[i].Peek(hash)
	return b
}

// buckets counts the overrides that have a bucket.
func (l *limit) buckets() int {
	n := 0
	for _, o := range l.overrides {
		if o.bucket != nil {
			n++
		}
	}
	return n
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
