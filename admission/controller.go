package admission

import "time"

// Gate reserves what a request needs from one scarce thing. Gates decide from
// memory: they do no I/O and do not read the clock. They are safe for
// concurrent use.
type Gate interface {
	// Reserve takes what r needs. It returns a permit (zero where nothing had
	// to be reserved), or a refusal, in which case it has reserved nothing. A
	// refusal that is not enforced (Mode Shadow, or a route in shadow mode)
	// lets the request pass, so it comes with a permit all the same.
	Reserve(now time.Time, r *Request, d *Decision) (Permit, Refusal)

	// GiveBack undoes a reservation because a later gate refused: afterwards
	// everything is as if the request had never asked.
	GiveBack(now time.Time, p Permit)

	// End ends a reservation of an admitted request.
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
	Mode       Mode // Shadow: count it, but let the request pass
}

// maxPermits bounds how many gates can hold a permit for one request.
const maxPermits = 4

// end takes every permit of r exactly once, latest first.
func (r *Request) end(each func(Permit)) {
	for r.reserved > 0 {
		r.reserved--
		p := r.permits[r.reserved]
		r.permits[r.reserved] = Permit{}
		each(p)
	}
}
