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
		line: g.line, header: g.header, tickets: g.tickets, seed: g.seed, mixed: g.mixed,
		ids: new(atomic.Uint64), promises: g.promises, uses: g.uses, beside: true,
	}
}

// stand finds the promise that was made to r, and notes how r stands to it.
func (g *Gate) stand(now time.Time, r *admission.Request, d *admission.Decision, tenant uint64) (admission.Promise, standing) {
	if g.beside && d.Standing != admission.Unasked {
		return admission.Promise{}, standings[d.Standing]
	}
	p, s := g.recall(now, r, tenant)
	d.Standing = s.told()
	return p, s
}

// redeem marks a promise as used, and reports whether it was not yet.
func (g *Gate) redeem(now time.Time, p admission.Promise, d *admission.Decision) bool {
	if g.beside || g.use(now, p) {
		return true
	}
	d.Standing = admission.Newcomer
	return false
}

var standings = [...]standing{admission.Newcomer: stranger, admission.Early: early, admission.Due: due}

func (s standing) told() admission.Standing {
	switch s {
	case early:
		return admission.Early
	case due:
		return admission.Due
	}
	return admission.Newcomer
}
