package admission

import (
	"math/bits"
	"time"
)

// Identifier finds out on whose behalf a request comes and sets r.Tenant. It
// is safe for concurrent use and does not allocate for known tenants.
type Identifier interface {
	Identify(r *Request) Refusal
}

// Classifier finds a request's route and class and sets r.Route and r.Class. A
// request that no route matches is left without a route. It is safe for
// concurrent use and does not allocate.
type Classifier interface {
	// Route finds the route. It refuses a request whose path could be read as
	// that of another route.
	Route(r *Request) Refusal
	// Class finds the class of a request whose route and tenant are known.
	Class(r *Request)
}

// Gate reserves what a request needs from one scarce thing. Gates decide from
// memory: they do no I/O and do not read the clock. They are safe for
// concurrent use.
type Gate interface {
	// Anticipate is told of a request as soon as its route and tenant are known,
	// so that what Reserve will look at can be on its way from memory meanwhile.
	// It changes nothing that is decided by, and it need not be called.
	Anticipate(r *Request)

	// Reserve takes what r needs. It returns a permit (zero where nothing had
	// to be reserved), or a refusal, in which case it has reserved nothing. A
	// refusal that is not enforced (Mode Shadow, or a route in shadow mode)
	// lets the request pass, so it comes with a permit all the same. The permit
	// ends at the gate that gave it.
	Reserve(now time.Time, r *Request, d *Decision) (Permit, Refusal)

	// GiveBack undoes a reservation because the request does not reach the
	// origin after all: afterwards everything is as if it had never asked.
	GiveBack(now time.Time, p Permit)

	// End ends the reservation of a request that was sent to the origin.
	End(now time.Time, p Permit, o Outcome)
}

// Permit is what a gate reserved for a request. The zero value reserves
// nothing.
type Permit struct {
	Ref    any // what was reserved from, as the gate knows it; nil: nothing
	Amount int64
	Key    uint64 // a second word for the gate's own use
}

// Refusal is a gate's no. The zero value is no refusal. It has four fields,
// since Go's compiler keeps no larger struct in registers, and every gate
// returns one for every request.
type Refusal struct {
	Reason     Reason
	Mode       Mode // Shadow: count it, but let the request pass
	RetryAfter time.Duration
	Form       *Form // nil: the reason's own
}

// Form is how a refusal is put to the client where that is not how its reason
// is. It is shared by refusals and must not be changed.
type Form struct {
	Status    int    // 0: the reason's own
	Detail    string // "" the reason's own
	Challenge string // value of WWW-Authenticate; "" none
}

// Is reports whether there is a refusal.
func (f Refusal) Is() bool { return f.Reason != None }

// maxGates bounds how many gates a controller has.
const maxGates = 4

// Controller leads requests past the gates in the one order that Sluice has.
// It is immutable: a reload makes a new one, and a request finishes under the
// one that admitted it. It is safe for concurrent use.
type Controller struct {
	Classifier Classifier
	Identifier Identifier
	Keys       Keys   // nil: no route looks at keys
	Gates      []Gate // in order: the tenant's bucket, then the queue; at most maxGates

	// RefuseUnmatched refuses requests that no route matches. Otherwise they
	// pass: no route, no policy.
	RefuseUnmatched bool

	// Candidate is asked after each decision, and changes none; nil: there is
	// none.
	Candidate *Candidate
}

// Classify finds route, tenant and class, and reads the idempotency key: what
// has to be known of a request before its body is read. It reserves nothing.
func (c *Controller) Classify(r *Request) Refusal {
	f := c.classify(r)
	if f.Is() && c.Candidate != nil {
		var d Decision
		d.Refuse(f)
		c.Candidate.decide(r.Received, r, &d)
	}
	return f
}

func (c *Controller) classify(r *Request) Refusal {
	if f := c.Classifier.Route(r); f.Is() {
		return f
	}
	if r.Route == nil {
		if c.RefuseUnmatched {
			return Refusal{Reason: NoRoute}
		}
		return Refusal{}
	}
	if f := c.Identifier.Identify(r); f.Is() {
		return f
	}
	for _, gate := range c.Gates {
		gate.Anticipate(r)
	}
	c.Classifier.Class(r)
	if c.Keys == nil {
		return Refusal{}
	}
	return c.Keys.Check(r)
}

// Admit makes the decision for a classified request, in the one order there is:
//
//  1. A recorded answer that is at hand is given again. It costs the origin
//     nothing, so it takes no tokens and is never shed.
//  2. Each gate reserves what the request needs.
//  3. Where one refuses, everything is given back. A key is looked up all the
//     same: it may be the retry of a request that was executed.
//  4. Where all let it pass, a key is claimed. Where that finds a record,
//     everything is given back, and what is recorded counts.
//
// An admitted request must be ended: by End, or by GiveBack. Of a request with
// a key the body must have been prepared.
func (c *Controller) Admit(now time.Time, r *Request, d *Decision) {
	c.decide(now, r, d)
	if c.Candidate != nil {
		c.Candidate.decide(now, r, d)
	}
}

// decide is Admit without a candidate.
func (c *Controller) decide(now time.Time, r *Request, d *Decision) {
	d.Verdict = Admit
	if r.Route == nil {
		return
	}
	if r.Keyed {
		if f, ok := c.Keys.Cached(r); ok {
			r.found = foundInMemory
			d.find(f)
			return
		}
	}
	if refusal := c.reserve(now, r, d); refusal.Is() {
		c.undo(now, r, d)
		if r.Keyed {
			if f, ok := c.Keys.Lookup(r); ok {
				r.found = foundInStore
				d.find(f)
				return
			}
		}
		d.Refuse(refusal)
		return
	}
	if r.Keyed {
		if f := c.Keys.Claim(r); f.Verdict != Admit {
			c.undo(now, r, d)
			r.found = foundInStore
			d.find(f)
			return
		}
		r.claimed = true
	}
}

// reserve takes from each gate what r needs, up to the first that refuses. A
// refusal that is not enforced is noted and does not end the round, so that it
// never hides one that is.
func (c *Controller) reserve(now time.Time, r *Request, d *Decision) Refusal {
	for i, gate := range c.Gates {
		permit, refusal := gate.Reserve(now, r, d)
		if refusal.Is() {
			if refusal.Mode == Enforce && r.Route.Mode == Enforce {
				return refusal
			}
			if d.Shadow == None {
				d.Shadow = refusal.Reason
			}
		}
		if permit.Ref != nil {
			r.permits[i] = permit
			r.held |= 1 << i
		}
	}
	return Refusal{}
}

// undo gives everything back because the request is not let in, also in what the
// client is told of its limit: the bucket is the first gate.
func (c *Controller) undo(now time.Time, r *Request, d *Decision) {
	if r.held&1 != 0 && d.Limit.Name != "" {
		d.Limit.Remaining = min(d.Limit.Quota, d.Limit.Remaining+r.permits[0].Amount)
	}
	c.giveBack(now, r)
}

// GiveBack undoes an admission: the transport refuses the request after all, so
// that it never reached the origin. What a candidate said no longer counts.
func (c *Controller) GiveBack(now time.Time, r *Request) {
	if r.beside != nil {
		c.Candidate.end(now, r, NotTried)
	}
	r.Second = Second{}
	c.giveBack(now, r)
}

func (c *Controller) giveBack(now time.Time, r *Request) {
	for r.held != 0 {
		i := r.release()
		c.Gates[i].GiveBack(now, r.permits[i])
	}
	if r.claimed {
		r.claimed = false
		c.Keys.Settle(r, NotSent, Answer{})
	}
}

// End ends an admission with what happened at the origin, and returns the
// Idempotency-Status of the answer, "" for none. a is the origin's answer where
// o is Answered. A request of which nothing was sent cost the origin nothing,
// and so costs its tenant nothing.
func (c *Controller) End(now time.Time, r *Request, o Outcome, a Answer) (keyStatus string) {
	if r.beside != nil {
		// Before the permits in force, so that who waited for one of those finds
		// the candidate's free as well.
		c.Candidate.end(now, r, o)
	}
	if r.claimed {
		r.claimed = false
		keyStatus = c.Keys.Settle(r, o, a)
	}
	if o == NotTried || o == NotSent {
		c.giveBack(now, r)
		return keyStatus
	}
	c.endPermits(now, r, o)
	return keyStatus
}

func (c *Controller) endPermits(now time.Time, r *Request, o Outcome) {
	for r.held != 0 {
		i := r.release()
		c.Gates[i].End(now, r.permits[i], o)
	}
}

// release lets go of the latest permit of r, of which there must be one, and
// returns which gate's it is: so each ends once, also where ending one panics.
func (r *Request) release() int {
	i := bits.Len8(r.held) - 1
	r.held &^= 1 << i
	return i
}

// Refuse makes d the refusal f.
func (d *Decision) Refuse(f Refusal) {
	d.Verdict = Refuse
	d.Reason = f.Reason
	d.Status = f.Reason.Status()
	if f.Form != nil && f.Form.Status != 0 {
		d.Status = f.Form.Status
	}
	d.RetryAfter, d.Form = f.RetryAfter, f.Form
}

// find makes d what is known of a keyed request.
func (d *Decision) find(f Finding) {
	d.KeyStatus = f.Status
	if f.Verdict == Replay {
		d.Verdict, d.Recorded = Replay, f.Recorded
		return
	}
	d.Refuse(Refusal{Reason: f.Reason, RetryAfter: f.RetryAfter})
}
