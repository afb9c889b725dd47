package ratelimit

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"sluice/admission"
	"sluice/internal/prefetch"
)

// Gate is the tenants' buckets. It implements admission.Gate and is safe for
// concurrent use. Make one with [New] and keep it over reloads: it holds the
// levels.
type Gate struct {
	base   time.Time
	seed   uint64 // of the hashes that tenants go by
	policy atomic.Pointer[policy]
	reload sync.Mutex // one Reconfigure at a time
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
	terms     terms
	overrides map[string]*terms // of tenants by name
}

// terms are what a request asks a bucket on. A permit refers to those that its
// tokens were taken on.
type terms struct {
	quota  Quota
	window time.Duration // in which an empty bucket fills up; never: it does not
	table  *table
}

func newTerms(q Quota, t *table) terms {
	return terms{quota: q, window: q.until(float64(q.Burst)), table: t}
}

// New makes a gate whose buckets are full.
func New(o Options, now time.Time) (*Gate, error) {
	g := &Gate{base: now, seed: o.Seed}
	if g.seed == 0 {
		g.seed = max(rand.Uint64(), 1)
	}
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

// hash is what tenants go by in tables. It is never 0.
func (g *Gate) hash(tenant string) uint64 { return max(admission.Hash(g.seed, tenant), 1) }

// hashOf is hash for the tenant of r.
func (g *Gate) hashOf(r *admission.Request) uint64 { return max(r.TenantHash(g.seed), 1) }

func (g *Gate) since(now time.Time) int64 { return int64(now.Sub(g.base)) }

// claim is what a request asks of a bucket.
type claim struct {
	policy *policy
	limit  *limit
	*terms
	own    bool   // the terms are of the tenant alone
	cost   int64  // at most the burst
	tenant uint64 // hash
	now    int64
}

// claim makes c what r asks; false where nothing limits it.
func (g *Gate) claim(c *claim, now time.Time, r *admission.Request) (limited bool) {
	c.policy = g.policy.Load()
	c.limit = c.policy.limitOf(r.Route)
	if c.limit == nil {
		return false
	}
	c.terms = &c.limit.terms
	if len(c.limit.overrides) > 0 {
		if own := c.limit.overrides[r.Tenant]; own != nil {
			c.terms, c.own = own, true
		}
	}
	if c.quota.Unlimited() {
		return false
	}
	c.cost = min(cost(r), int64(c.quota.Burst))
	c.tenant = g.hashOf(r)
	c.now = g.since(now)
	return true
}

// lock returns the bucket that c takes from, and the lock that is held and
// guards it.
func (c *claim) lock() (*bucket, *sync.Mutex) {
	p := c.table.part(c.tenant)
	p.Lock()
	var b *bucket
	if c.own {
		b = p.find(c.tenant) // a reload has seen to it
	}
	if b == nil {
		b = c.table.get(p, c.now, c.tenant, c.quota, c.policy.most)
	}
	if b != nil {
		return b, &p.Mutex
	}
	p.Unlock()
	c.table.shared.Lock()
	return &c.table.overflow, &c.table.shared
}

// Anticipate implements [admission.Gate]: it asks for the place in which the
// tenant's bucket probably is.
func (g *Gate) Anticipate(r *admission.Request) {
	if l := g.policy.Load().limitOf(r.Route); l != nil {
		tenant := g.hashOf(r)
		prefetch.Line(l.terms.table.part(tenant).first(tenant))
	}
}

// Reserve takes what r costs from the bucket of its tenant. It fills d.Limit,
// except from a limit in shadow mode: clients are not to act on what is not
// enforced. It does not allocate for a tenant that has a bucket.
func (g *Gate) Reserve(now time.Time, r *admission.Request, d *admission.Decision) (admission.Permit, admission.Refusal) {
	var c claim
	if !g.claim(&c, now, r) {
		return admission.Permit{}, admission.Refusal{}
	}
	b, guard := c.lock()
	b.adopt(c.now, c.policy.since, c.quota)
	at := b.at(c.now)
	tokens := b.tokensAt(at)
	// A quota of nothing refuses everything, though nothing is all it costs.
	if c.cost > 0 && b.take(at, tokens, float64(c.cost)) {
		p := admission.Permit{Ref: c.terms, Amount: c.cost, Key: b.tenant}
		guard.Unlock()
		c.tell(d, tokens-float64(c.cost))
		return p, admission.Refusal{}
	}
	again := c.retryAfter(b, at, tokens)
	guard.Unlock()
	c.tell(d, tokens)
	return admission.Permit{}, admission.Refusal{Reason: admission.TenantLimit, RetryAfter: again, Mode: c.quota.Mode}
}

// retryAfter returns when a refused request is told to come back; 0: never.
func (c *claim) retryAfter(b *bucket, at int64, tokens float64) time.Duration {
	wait := c.quota.until(float64(c.cost) - tokens)
	if c.cost <= 0 || wait == never {
		return 0
	}
	behind := time.Duration(at - c.now) // the caller's clock, of the bucket's
	return behind + wait + b.place(at, wait, float64(c.cost), c.quota) + spread(wait, c.tenant)
}

// tell fills in the state of a bucket that holds so many tokens.
func (c *claim) tell(d *admission.Decision, tokens float64) {
	if c.quota.Mode != admission.Enforce {
		return
	}
	l := &d.Limit
	l.Name, l.Quota, l.Remaining = c.limit.name, int64(c.quota.Burst), int64(max(tokens, 0))
	l.Window, l.Reset = 0, 0
	if c.window != never {
		l.Window, l.Reset = c.window, c.quota.until(float64(c.quota.Burst)-tokens)
	}
}

// GiveBack returns the tokens of p to the bucket that they came from, exactly and
// up to the burst. Where the burst has changed since, their worth is returned:
// the same share of the bucket.
//
// What the bucket gained while they were out stays gained: tokens held for long
// by requests that are given back in the end can so be spent on top of a full
// burst, though never more over time than burst and rate allow.
func (g *Gate) GiveBack(now time.Time, p admission.Permit) {
	taken, ok := p.Ref.(*terms)
	if !ok {
		return
	}
	t := taken.table
	if p.Key == 0 {
		t.shared.Lock()
		t.overflow.giveBack(g.since(now), float64(p.Amount), taken.quota)
		t.shared.Unlock()
		return
	}
	part := t.part(p.Key)
	part.Lock()
	if b := part.find(p.Key); b != nil { // otherwise it was full, and dropped
		b.giveBack(g.since(now), float64(p.Amount), taken.quota)
	}
	part.Unlock()
}

// End leaves the tokens spent: the origin has had the request.
func (g *Gate) End(time.Time, admission.Permit, admission.Outcome) {}
