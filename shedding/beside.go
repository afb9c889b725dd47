package shedding

import (
	"sync/atomic"
	"time"

	"sluice/admission"
)

// Beside returns a gate without queues for [New] to take over from: the gate
// made so decides beside g about the same requests, and is not obeyed. It has
// g's clock and draws. Promises it counts and does not make, and how requests
// stand to those that g made is told to it by [admission.Decision]; what g did
// not look at it looks up where g keeps them.
func (g *Gate) Beside() *Gate {
	return &Gate{
		line: g.line, header: g.header, tickets: g.tickets, seed: g.seed, idKey: g.idKey, drawKey: g.drawKey,
		ids: new(atomic.Uint64), promises: g.promises, uses: g.uses, beside: true,
	}
}

// stand says how r stands to the promise that was made to it, and notes that.
// It fills in the promise where r is no newcomer and g made it.
func (g *Gate) stand(now time.Time, r *admission.Request, d *admission.Decision, tenant uint64, p *admission.Promise) admission.Standing {
	if g.beside && d.Standing != admission.Unasked {
		return d.Standing
	}
	d.Standing = g.recall(now, r, tenant, p)
	return d.Standing
}

// redeem marks a promise as used, and reports whether it was not yet.
func (g *Gate) redeem(now time.Time, p *admission.Promise, d *admission.Decision) bool {
	if g.beside || g.use(now, p) {
		return true
	}
	d.Standing = admission.Newcomer
	return false
}
