package shedding

import (
	"math"
	"time"

	"sluice/admission"
)

// A permit's Amount is the request's class, and whether it came back when
// told; its Key is then the promise's id, and otherwise the tenant's hash.
const (
	permitClass = 0xff
	permitBack  = 0x100
)

// minGrace is the least number of seconds for which a promise can be redeemed
// once it is due.
const minGrace = 60

// jitter is by how much of itself a Retry-After may be longer, so that those
// who were refused together do not return together.
const jitter = 0.5

var _ admission.Gate = (*Gate)(nil)

// reserve decides for one request.
func (q *queue) reserve(now time.Time, r *admission.Request, d *admission.Decision) (admission.Permit, admission.Refusal) {
	t := q.tick(now)
	c, g := &q.classes[r.Class], q.gate
	tenant := demandKey(r.TenantHash(g.seed), r.Class)
	demand := q.demand.add(tenant, t)
	open := c.share.Load() >= 1
	permit := admission.Permit{Ref: q, Amount: int64(r.Class), Key: tenant}

	var promise admission.Promise
	standing := g.stand(now, r, d, tenant, &promise)
	if standing == admission.Early && !open {
		// Neither better nor worse off than by waiting.
		c.count.early.Add(1)
		return q.refuse(now, r, d, permit, &promise)
	}
	if standing != admission.Newcomer && g.redeem(now, &promise, d) {
		permit.Amount, permit.Key = permit.Amount|permitBack, promise.ID
		c.count.back.Add(1)
		if open || float64(q.draw(&d.Lot)) < c.back.Load() {
			c.count.kept.Add(1)
			q.log.add(1)
			return permit, admission.Refusal{}
		}
		q.pledge(now, r, d, tenant, &promise)
		return q.refuse(now, r, d, permit, &promise)
	}

	// A tenant's requests are spread over its demand; what is below the water
	// level is admitted. A tenant whose demand is below it is safe.
	height := float64(q.drawFor(tenant+c.spread.add(demand), &d.Lot) * demand)
	if open || height < c.level.Load() {
		c.count.admitted.Add(1)
		q.log.add(1)
		return permit, admission.Refusal{}
	}
	c.count.declined.Add(1)
	if height < c.pledge.Load() {
		q.pledge(now, r, d, tenant, &promise)
	} else {
		promise = admission.Promise{NotBefore: now.Add(q.comeBackIn(c, d))}
	}
	return q.refuse(now, r, d, permit, &promise)
}

// refuse refuses r until the promise falls due, or where the policy is not
// enforced counts what it would have done and lets r pass with its permit.
func (q *queue) refuse(now time.Time, r *admission.Request, d *admission.Decision, permit admission.Permit, promise *admission.Promise) (admission.Permit, admission.Refusal) {
	c := &q.classes[r.Class]
	f := admission.Refusal{
		Reason:     admission.Reason(c.reason.Load()),
		RetryAfter: max(promise.NotBefore.Sub(now), time.Second),
		Form:       c.form,
	}
	if q.shadow(r) {
		f.Mode = admission.Shadow
		c.count.shadow.Add(1)
		q.log.add(1)
		return permit, f
	}
	c.count.refused.Add(1)
	if promise.ID != 0 {
		d.Promise = *promise
	}
	return admission.Permit{}, f
}

// shadow reports whether a refusal of r is counted only.
func (q *queue) shadow(r *admission.Request) bool {
	return q.opts.Mode == admission.Shadow || q.opts.Bands[r.Class].Mode == admission.Shadow || r.Route.Mode == admission.Shadow
}

// pledge makes p the promise to r that it gets in if it comes back when told;
// without an ID where that can only be hoped.
func (q *queue) pledge(now time.Time, r *admission.Request, d *admission.Decision, tenant uint64, p *admission.Promise) {
	c, g := &q.classes[r.Class], q.gate
	wait := q.comeBackIn(c, d)
	*p = admission.Promise{NotBefore: time.Unix(now.Unix()+int64(wait/time.Second), 0)}
	switch {
	case q.shadow(r):
		return
	case g.beside:
		c.count.promised.Add(1)
		return
	}
	p.Lapse, p.ID = p.NotBefore.Add(max(wait, minGrace*time.Second)), g.newID()
	if g.tickets != nil {
		p.Signer = g.tickets
	}
	if !g.remember(now, r, p, tenant) && p.Signer == nil {
		p.Lapse, p.ID = time.Time{}, 0 // nobody would know it again
		return
	}
	c.count.promised.Add(1)
}

// comeBackIn draws how long a request refused now should stay away, in whole
// seconds.
func (q *queue) comeBackIn(c *class, d *admission.Decision) time.Duration {
	s := c.again.Load() * (1 + jitter*float64(q.draw(&d.Again)))
	return time.Duration(math.Ceil(min(max(s, 1), q.maxRetry))) * time.Second
}

// giveBack undoes an admission.
func (q *queue) giveBack(now time.Time, p admission.Permit) {
	c := &q.classes[p.Amount&permitClass]
	q.log.add(-1)
	c.count.returned.Add(1)
	switch {
	case p.Amount&permitBack == 0:
		q.demand.take(p.Key, q.gate.line.at(now))
	case !q.gate.beside:
		q.gate.uses.remove(p.Key)
	}
}

// draw returns a number from 0 up to but not 1: lot's, or where that is none yet,
// the next of a fixed sequence that looks random. So decisions repeat exactly,
// requests and clock given.
func (q *queue) draw(lot *admission.Lot) float32 {
	if *lot != 0 {
		return lotNumber(*lot)
	}
	return q.drawFor(1<<63|q.draws.Add(1), lot)
}

// drawFor is draw where the caller has a number that no other has.
func (q *queue) drawFor(turn uint64, lot *admission.Lot) float32 {
	if *lot == 0 {
		*lot = 1 + admission.Lot(mix(q.drawKey+turn)>>40)
	}
	return lotNumber(*lot)
}

func lotNumber(lot admission.Lot) float32 { return float32(lot-1) / (1 << 24) }
