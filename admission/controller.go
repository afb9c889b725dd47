package admission

import "time"

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
	// Reserve takes what r needs. It returns a permit (zero where nothing had
	// to be reserved), or a refusal, in which case it has reserved nothing. A
	// refusal that is not enforced (Mode Shadow, or a route in shadow mode)
	// lets the request pass, so it comes with a permit all the same.
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
	Gate   Gate
	Ref    any // what was reserved from, as the gate knows it
	Amount int64
	Key    uint64 // a second word for the gate's own use
}

// Refusal is a gate's no. The zero value is no refusal.
type Refusal struct {
	Reason     Reason
	Status     int // 0: the reason's own
	RetryAfter time.Duration
	Mode       Mode   // Shadow: count it, but let the request pass
	Detail     string // for the client, instead of the reason's own; "" none
	Challenge  string // value of WWW-Authenticate; "" none
}

// Is reports whether there is a refusal.
func (f Refusal) Is() bool { return f.Reason != None }

// maxPermits bounds how many gates can hold a permit for one request.
const maxPermits = 4

// Controller leads requests past the gates in the one order that Sluice has.
// It is immutable: a reload makes a new one, and a request finishes under the
// one that admitted it. It is safe for concurrent use.
type Controller struct {
	Classifier Classifier
	Identifier Identifier
	Gates      []Gate // in order: the tenant's bucket, then the queue; at most maxPermits

	// RefuseUnmatched refuses requests that no route matches. Otherwise they
	// pass: no route, no policy.
	RefuseUnmatched bool
}

// Decide makes the decision for r: it classifies, then takes from each gate
// what the request needs, and gives everything back where one of them refuses.
// An admitted request must be ended with [Controller.End] or
// [Controller.GiveBack].
func (c *Controller) Decide(now time.Time, r *Request, d *Decision) {
	if f := c.Classify(r); f.Is() {
		d.Refuse(f)
		return
	}
	c.Admit(now, r, d)
}

// Classify finds route, tenant and class: what has to be known of a request
// before its body is read. It reserves nothing.
func (c *Controller) Classify(r *Request) Refusal {
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
	c.Classifier.Class(r)
	return Refusal{}
}

// Admit leads a classified request past the gates.
func (c *Controller) Admit(now time.Time, r *Request, d *Decision) {
	d.Verdict = Admit
	if r.Route == nil {
		return
	}
	for _, gate := range c.Gates {
		permit, refusal := gate.Reserve(now, r, d)
		if refusal.Is() {
			if refusal.Mode == Enforce && r.Route.Mode == Enforce {
				c.GiveBack(now, r)
				d.Refuse(refusal)
				return
			}
			if d.Shadow == None {
				d.Shadow = refusal.Reason
			}
		}
		if permit.Gate != nil {
			r.permits[r.reserved] = permit
			r.reserved++
		}
	}
}

// GiveBack undoes an admission: the request never reached the origin.
func (c *Controller) GiveBack(now time.Time, r *Request) {
	for p, ok := r.nextPermit(); ok; p, ok = r.nextPermit() {
		p.Gate.GiveBack(now, p)
	}
}

// End ends an admission with what happened at the origin. A request of which
// nothing was sent cost the origin nothing, and so costs its tenant nothing.
func (c *Controller) End(now time.Time, r *Request, o Outcome) {
	if o == NotTried || o == NotSent {
		c.GiveBack(now, r)
		return
	}
	for p, ok := r.nextPermit(); ok; p, ok = r.nextPermit() {
		p.Gate.End(now, p, o)
	}
}

// nextPermit hands out the permits of r, latest first, each exactly once.
func (r *Request) nextPermit() (Permit, bool) {
	if r.reserved == 0 {
		return Permit{}, false
	}
	r.reserved--
	p := r.permits[r.reserved]
	r.permits[r.reserved] = Permit{}
	return p, true
}

// Refuse makes d the refusal f.
func (d *Decision) Refuse(f Refusal) {
	d.Verdict = Refuse
	d.Reason = f.Reason
	d.Status = f.Status
	if d.Status == 0 {
		d.Status = f.Reason.Status()
	}
	d.RetryAfter = f.RetryAfter
	d.Detail, d.Challenge = f.Detail, f.Challenge
}
