package shedding

import "math"

const (
	// rateMemory is the time constant, in seconds, over which the service
	// rate and what others put in are averaged.
	rateMemory = 10
	// longMemory is that of the rate a stall is told by: it rises at once and
	// falls slowly.
	longMemory = 600
	// backlogged is from how many seconds of work on a queue's throughput is
	// the rate of its workers, and not of its arrivals.
	backlogged = 0.5
	// standstill is below which share of the usual rate a queue stands still.
	standstill = 0.05
	// wobble is by which share of itself a rate may differ from one sample to
	// the next without having changed.
	wobble = 0.25
	// countable is how many completions must be due between two samples for
	// their number to say anything about a rate.
	countable = 20
)

// estimator turns the believed samples of one signal and the gateway's own
// admissions into a predicted wait. Times are seconds on the queue's time
// line. It is for one goroutine at a time.
type estimator struct {
	log *admissions

	have  bool    // a backlog is known
	at    float64 // when the last sample was true
	q     float64 // backlog then
	age   Value   // of the oldest work then
	blind Value   // raw age, while the log does not reach back to the oldest work

	// Where the running measurement of the rate began.
	base     bool
	baseAt   float64
	baseQ    float64
	baseDone float64 // the source's counter
	counted  bool    // baseDone is known

	rate     float64 // completions per second
	pace     float64 // throughput, backlog or not
	long     float64
	measured bool // rate was seen under a backlog; otherwise it is a lower bound

	foreign float64 // work per second that this gateway did not admit
	yield   float64 // work per own admission, at most 1: some put nothing on the queue
	stall   float64 // seconds without progress at the last sample
	flows   bool    // work was completed when last measured
	stuck   bool    // the oldest work waits on while the rest flows
}

func newEstimator(log *admissions) *estimator { return &estimator{log: log, yield: 1} }

// observe takes in a believed sample.
func (e *estimator) observe(r reading, now float64) {
	age, hasAge := r.age.Get()
	depth, hasDepth := r.depth.Get()
	reaches := hasAge && e.log.reaches(r.at-age)
	e.age, e.blind = r.age, Value{}
	if !hasDepth && !reaches {
		// What was admitted before the log began is anyone's guess: go by the
		// age itself until the log covers it.
		e.blind = r.age
		e.at, e.have, e.base = r.at, false, false
		return
	}
	var own float64 // admitted since the oldest work was
	if reaches {
		own = e.log.at(r.at, now) - e.log.at(r.at-age, now)
	}
	q := own
	if hasDepth {
		q = depth
	}
	// Without a depth everything is measured in the gateway's own admissions:
	// a share of the queue flows at a share of the rate, and the wait is the
	// same. A counter that counts all of it would not fit.
	done, counted := r.done.Get()
	counted = counted && hasDepth

	if e.base && counted == e.counted && !(counted && done < e.baseDone) {
		d := r.at - e.baseAt
		if e.long*d >= countable || d >= 60 || e.long == 0 && d >= 1 {
			e.measure(r, now, d, q, own, reaches && hasDepth)
			e.rebase(r, q, done, counted)
		}
	} else {
		e.rebase(r, q, done, counted)
	}
	e.q, e.at, e.have = q, r.at, true
	e.stuck = hasAge && hasDepth && e.flows && age > 3*q/e.rate+5
}

func (e *estimator) rebase(r reading, q, done float64, counted bool) {
	e.base, e.baseAt, e.baseQ, e.baseDone, e.counted = true, r.at, q, done, counted
}

// measure learns from the d seconds between the base and r. own is what this
// gateway put among the work now waiting; it is comparable to q if bounded.
func (e *estimator) measure(r reading, now, d, q, own float64, bounded bool) {
	admitted := (e.log.at(r.at, now) - e.log.at(e.baseAt, now)) / d
	growth := (q - e.baseQ) / d
	w := 1 - math.Exp(-d/rateMemory)

	var m float64
	switch {
	case e.counted:
		m = (r.done.v - e.baseDone) / d
		e.learnArrivals(w, m+growth, admitted)
	case bounded && r.age.v > 1:
		// All that waits came in during the age of the oldest: that is the
		// rate of arrivals, without a counter.
		e.learnArrivals(1-math.Exp(-min(d, r.age.v)/rateMemory), q/r.age.v, own/r.age.v)
		m = e.foreign + e.yield*admitted - growth
	default:
		m = e.yield*admitted - growth
	}
	m = max(0, m)
	e.pace += w * (m - e.pace)

	e.flows = m > standstill*e.long && m > 0
	idle := e.baseQ <= backlogged*e.rate || q <= backlogged*e.rate
	still := !e.flows && e.long > 0
	switch {
	case e.long == 0:
		e.rate, e.pace = m, m
		e.measured = e.baseQ > backlogged*m && q > backlogged*m && m > 0
	case still && q > backlogged*e.rate:
		// Nothing got done although there was work. How long already? The
		// oldest work knows, if the stall began within this interval.
		began := d
		if e.stall == 0 && r.age.known && e.baseQ <= backlogged*e.rate {
			began = min(d, r.age.v)
		}
		e.stall += began
	case idle || e.stall > 0:
		// A lower bound: an idle queue does what it is given, and an interval
		// in which work resumed holds some of the standstill.
		e.stall = 0
		e.rate = max(e.rate, e.pace)
	default:
		e.stall, e.measured = 0, true
		memory := float64(rateMemory)
		if math.Abs(m-e.rate) < wobble*e.rate {
			// Gateways that do not know of each other would answer each
			// other's wobbles with larger ones if rare samples counted fully.
			memory = max(memory, 2*d)
		}
		e.rate += (1 - math.Exp(-min(d/memory, e.rate*d/countable))) * (m - e.rate)
	}
	if e.rate > e.long {
		e.long = e.rate
	} else {
		e.long += (1 - math.Exp(-d/longMemory)) * (e.rate - e.long)
	}
}

// learnArrivals splits the rate of arrivals into own admissions and the rest.
func (e *estimator) learnArrivals(w, arrivals, admitted float64) {
	e.foreign += w * (max(0, arrivals-admitted) - e.foreign)
	if admitted > 0 {
		e.yield += w * (min(1, max(0, arrivals)/admitted) - e.yield)
	}
}

// backlog projects the last sample to now.
func (e *estimator) backlog(now float64) float64 {
	if !e.have {
		return 0
	}
	d := now - e.at
	q := e.q + e.yield*(float64(e.log.total.Load())-e.log.at(e.at, now)) + e.foreign*d
	if e.stall == 0 {
		q -= e.rate * d
	}
	return max(0, q)
}

// wait is how long work admitted at now is predicted to wait; not known
// before anything is.
func (e *estimator) wait(now float64) Value {
	if e.blind.known {
		return e.blind
	}
	if !e.have {
		return Value{}
	}
	d := now - e.at
	if e.rate <= 0 {
		// No rate yet: the oldest work is the only witness.
		return e.age
	}
	w := e.backlog(now) / e.rate
	if !e.measured && e.stall == 0 && e.age.known {
		// The rate is a lower bound, so this wait is an upper one. Another is
		// the oldest age the queue can show by now.
		w = min(w, e.age.v+d)
	}
	return Known(w + e.standstill(now))
}

// standstill is for how long the queue has stood still at now, as far as is
// known, and so for how long it is expected to go on doing so.
func (e *estimator) standstill(now float64) float64 {
	if e.stall == 0 {
		return 0
	}
	return e.stall + now - e.at
}

// busy reports whether the queue had work waiting at the last sample.
func (e *estimator) busy() bool {
	return e.blind.v > backlogged || e.have && (e.q > backlogged*e.rate || e.stall > 0)
}
