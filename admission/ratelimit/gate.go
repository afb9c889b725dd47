package ratelimit

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"sluice/admission"
)

// Gate is the tenants' buckets. It implements admission.Gate and is safe for
// concurrent use. Make one with [New] and keep it over reloads: it holds the
// levels.
type Gate struct {
	base    time.Time
	seed    maphash.Seed
	stripes [stripes]stripe
	policy  atomic.Pointer[policy]
	reload  sync.Mutex // one Reconfigure at a time
}

var _ admission.Gate = (*Gate)(nil)

// policy is an Options made ready for use. It is immutable.
type policy struct {
	since   int64 // when it came into force
	most    int64 // Options.MaxTenants
	tenants *limit
	routes  map[string]*limit
}

type limit struct {
	name      string
	quota     Quota
	overrides map[string]override
	table     *table
}

// override is a quota and a bucket of a tenant's own.
type override struct {
	quota  Quota
	bucket *bucket
}

// New makes a gate whose buckets are full.
func New(o Options, now time.Time) (*Gate, error) {
	g := &Gate{base: now, seed: maphash.MakeSeed()}
	if _, err := g.Reconfigure(o, now); err != nil {
		return nil, err
	}
	return g, nil
}

// limitOf returns the limit that a route's requests meet; nil: none.
func (p *policy) limitOf(route *admission.Route) *limit {
	if route != nil && len(p.routes) > 0 {
		if l, ok := p.routes[route.ID]; ok {
			return l
		}
	}
	return p.tenants
}

// hash is what tenants go by in tables.
func (g *Gate) hash(tenant string) uint64 { return maphash.String(g.seed, tenant) }

func (g *Gate) since(now time.Time) int64 { return int64(now.Sub(g.base)) }

func (g *Gate) time(at int64) time.Time { return g.base.Add(time.Duration(at)) }

// claim is what a request asks of a bucket.
type claim struct {
	policy *policy
	limit  *limit
	own    override // zero: the tenant has none
	quota  Quota
	cost   int64  // at most the burst
	tenant uint64 // hash
	at     int64
}

// claim returns what r asks; false where nothing limits it.
func (g *Gate) claim(now time.Time, r *admission.Request) (claim, bool) {
	p := g.policy.Load()
	l := p.limitOf(r.Route)
	if l == nil {
		return claim{}, false
	}
	c := claim{policy: p, limit: l, quota: l.quota}
	if own, ok := l.overrides[r.Tenant]; ok {
		c.own, c.quota = own, own.quota
	}
	if c.quota.Unlimited() {
		return claim{}, false
	}
	c.cost = min(cost(r), int64(c.quota.Burst))
	c.tenant = g.hash(r.Tenant)
	c.at = g.since(now)
	return c, true
}

// lock returns the bucket that c takes from, with its stripe locked.
func (g *Gate) lock(c *claim) *bucket {
	i := stripeOf(c.tenant)
	g.stripes[i].Lock()
	if c.own.bucket != nil {
		return c.own.bucket // in the stripe of its tenant, like any other
	}
	b := c.limit.table.get(g.base, c.at, c.tenant, c.quota, c.policy.most)
	if b.stripe != i { // the overflow bucket
		g.stripes[i].Unlock()
		g.stripes[b.stripe].Lock()
	}
	return b
}

// Reserve takes what r costs from the bucket of its tenant. It fills d.Limit,
// except from a limit in shadow mode: clients are not to act on what is not
// enforced. It does not allocate for a tenant that has a bucket.
func (g *Gate) Reserve(now time.Time, r *admission.Request, d *admission.Decision) (admission.Permit, admission.Refusal) {
	c, limited := g.claim(now, r)
	if !limited {
		return admission.Permit{}, admission.Refusal{}
	}
	b := g.lock(&c)
	defer g.stripes[b.stripe].Unlock()

	b.adopt(g.base, c.at, c.policy.since, c.quota)
	at := b.advance(c.at)
	t := g.time(at)
	tokens := b.lim.TokensAt(t)
	// A quota of nothing refuses everything, though nothing is all it costs.
	ok := c.cost > 0 && b.lim.AllowN(t, int(c.cost))
	if ok {
		tokens -= float64(c.cost)
	}
	if c.quota.Mode == admission.Enforce {
		d.Limit = c.state(tokens)
	}
	if ok {
		return admission.Permit{Gate: g, Ref: b, Amount: c.cost, Key: uint64(c.quota.Burst)}, admission.Refusal{}
	}
	return admission.Permit{}, admission.Refusal{
		Reason:     admission.TenantLimit,
		RetryAfter: c.retryAfter(b, at, tokens),
		Mode:       c.quota.Mode,
	}
}

// retryAfter returns when a refused request is told to come back; 0: never.
func (c *claim) retryAfter(b *bucket, at int64, tokens float64) time.Duration {
	wait := c.quota.until(float64(c.cost) - tokens)
	if c.cost <= 0 || wait == never {
		return 0
	}
	behind := time.Duration(at - c.at) // the caller's clock, of the bucket's
	return behind + wait + b.place(at, wait, float64(c.cost), c.quota) + spread(wait, c.tenant)
}

// state describes a bucket that holds so many tokens.
func (c *claim) state(tokens float64) admission.Limit {
	burst := float64(c.quota.Burst)
	s := admission.Limit{
		Name:      c.limit.name,
		Quota:     int64(c.quota.Burst),
		Remaining: int64(max(tokens, 0)),
	}
	if window := c.quota.until(burst); window != never {
		s.Window = window
		s.Reset = c.quota.until(burst - tokens)
	}
	return s
}

// GiveBack returns the tokens of p to the bucket that they came from, exactly and
// up to the burst. Where the burst has changed since, their worth is returned:
// the same share of the bucket.
//
// What the bucket gained while they were out stays gained: tokens held for long
// by requests that are given back in the end can so be spent on top of a full
// burst, though never more over time than burst and rate allow.
func (g *Gate) GiveBack(now time.Time, p admission.Permit) {
	b, ok := p.Ref.(*bucket)
	if !ok {
		return
	}
	s := &g.stripes[b.stripe]
	s.Lock()
	defer s.Unlock()
	t := g.time(b.advance(g.since(now)))
	tokens := float64(p.Amount)
	if burst := b.lim.Burst(); p.Key != uint64(burst) {
		tokens *= float64(burst) / float64(p.Key)
	}
	b.credit(t, tokens)
}

// End leaves the tokens spent: the origin has had the request.
func (g *Gate) End(time.Time, admission.Permit, admission.Outcome) {}
