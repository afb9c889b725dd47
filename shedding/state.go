package shedding

import (
	"math"
	"time"

	"sluice/admission"
)

// State is what the gate knows of one queue at one time: the whole story for
// status pages and metrics. It shares nothing with the gate.
type State struct {
	Queue        string
	Mode         admission.Mode
	MaxUsefulAge time.Duration
	MaxDepth     float64
	At           time.Time

	// Wait is how long work admitted now is predicted to wait, in seconds.
	Wait Value
	// Strain is what the bands go by: wait or depth as a share of what the
	// queue allows, whichever is worse.
	Strain float64
	// Worst names the signal that Strain comes from; "" none.
	Worst string
	// RateCap is the most that is admitted per second because a signal is
	// lost; 0: none.
	RateCap float64
	// Closed: a signal is lost and its policy says so.
	Closed bool
	// Transitions counts how often a class began or ceased to be refused.
	Transitions uint64

	Signals []SignalState
	Classes []ClassState
}

// SignalState is what is known of and through one signal.
type SignalState struct {
	Name   string
	OnLoss Loss
	Health Health
	// Last is the last sample as it came, Received when, Flaw what was wrong
	// with it, and Err why there was none instead.
	Last     Sample
	Received time.Time
	Flaw     Flaw
	Err      error
	// Believed is when the last believed sample arrived; zero: none did.
	Believed time.Time
	// Flaws counts samples by flaw; index with a Flaw.
	Flaws []uint64

	Wait     Value   // predicted by this signal, in seconds
	Backlog  Value   // projected to now
	Rate     float64 // completions per second; 0: not known
	Measured bool    // Rate was seen under a backlog; otherwise it is at least so much
	Foreign  float64 // work per second that others put in
	Yield    float64 // work per own admission
	Stall    float64 // seconds without progress
	Stuck    bool    // the oldest work is stuck while the rest flows
	Blind    bool    // the log does not reach back to the oldest work yet
}

// ClassState is what one class gets.
type ClassState struct {
	Share     float64 // of newcomers admitted
	BackShare float64 // of those who come back when told
	Reason    admission.Reason
	Mode      admission.Mode
	// Level is the demand, in requests per second, up to which a tenant is
	// not refused; infinite while nobody is.
	Level float64
	// RetryAfter is what a refusal now says, before jitter; 0 while the class
	// is fully open.
	RetryAfter time.Duration
	// Since is when the class began to be refused; zero while it is not.
	Since time.Time
	// Rates of the last seconds.
	Offered, Admitted float64

	// Running totals of requests. Admitted newcomers and kept returners went
	// on to the origin, unless they were given back.
	Newcomers, AdmittedNewcomers, Returners, Kept, Early, Refused, Shadow, Promised, GivenBack uint64
}

// State returns the state of every queue at now, in the order of the options.
func (g *Gate) State(now time.Time) []State {
	all := make([]State, len(g.queues))
	for i, q := range g.queues {
		all[i] = q.state(now)
	}
	return all
}

// QueueState returns the state of one queue at now; false where there is none of
// that name.
func (g *Gate) QueueState(now time.Time, queue string) (State, bool) {
	q := g.queue(queue)
	if q == nil {
		return State{}, false
	}
	return q.state(now), true
}

func (q *queue) state(now time.Time) State {
	t := q.gate.line.at(now)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.run(t)
	s := State{
		Queue: q.opts.Name, Mode: q.opts.Mode, MaxUsefulAge: q.opts.MaxUsefulAge, MaxDepth: q.opts.MaxDepth, At: now,
		Wait: q.wait, Strain: q.strain, RateCap: q.rateCap, Closed: q.closed, Transitions: q.turned,
	}
	if q.worst >= 0 {
		s.Worst = q.signals[q.worst].opts.Name
	}
	for _, sig := range q.signals {
		s.Signals = append(s.Signals, sig.state(q.gate.line, t))
	}
	memory := demandMemory(q.limit)
	for i := range q.classes {
		s.Classes = append(s.Classes, q.classes[i].state(q.opts.Bands[i], q.gate.line, memory))
	}
	return s
}

func (s *signal) state(line timeline, t float64) SignalState {
	e := s.est
	st := SignalState{
		Name: s.opts.Name, OnLoss: s.opts.OnLoss, Health: s.health(t),
		Last: s.last, Flaw: s.flaw, Err: s.err, Flaws: append([]uint64(nil), s.flaws[:]...),
		Wait: e.wait(t), Rate: e.rate, Measured: e.measured, Foreign: e.foreign, Yield: e.yield,
		Stall: e.stall, Stuck: e.stuck, Blind: e.blind.known,
	}
	if s.lastAt != 0 || s.heard || s.err != nil {
		st.Received = line.time(s.lastAt)
	}
	if s.heard {
		st.Believed = line.time(s.arrived)
	}
	if e.have {
		st.Backlog = Known(e.backlog(t))
	}
	return st
}

func (c *class) state(b Band, line timeline, memory float64) ClassState {
	s := ClassState{
		Share: c.share.Load(), BackShare: c.back.Load(), Reason: admission.Reason(c.reason.Load()), Mode: b.Mode,
		Level: c.level.Load() / memory, Offered: c.offered, Admitted: c.admitted,
		Newcomers: c.count.newcomers(), AdmittedNewcomers: c.count.admitted.Load(),
		Returners: c.count.back.Load(), Kept: c.count.kept.Load(), Early: c.count.early.Load(),
		Refused: c.count.refused.Load(), Shadow: c.count.shadow.Load(),
		Promised: c.count.promised.Load(), GivenBack: c.count.returned.Load(),
	}
	if s.Share >= 1 {
		s.Level, s.Reason = math.Inf(1), admission.None
		return s
	}
	s.RetryAfter = time.Duration(c.again.Load() * float64(time.Second))
	s.Since = line.time(c.since)
	return s
}
