package rehearse

import (
	"container/heap"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"sluice/admission"
	"sluice/config"
	"sluice/gateway"
	"sluice/shedding"
)

// Given is what a rehearsal begins with. The zero value is queues that are empty
// and an origin that answers 200 at once.
type Given struct {
	// Signals holds the timelines of signals, by "queue" for all the signals of
	// one, or by "queue/signal". A queue without one is empty.
	Signals map[string]Timeline
	// Told: no signal is read. Readings are handed in, by [Stage.Tell].
	Told   bool
	Origin Origin
	// Seed of everything that a gateway draws at random.
	Seed uint64
	// Begin is the wall-clock time of the beginning; zero: [Epoch].
	Begin time.Time
}

// Origin is how the origin takes a request.
type Origin struct {
	Takes   time.Duration     // for one request
	Outcome admission.Outcome // NotTried, the zero value, stands for Answered
	Status  int               // of its answers; 0: 200
}

// Performance is what became of one request. It is complete when it is handed
// over.
type Performance struct {
	At       time.Duration // since the beginning
	Request  *admission.Request
	Decision admission.Decision
	// Stops are the gates that it came to. None where it was decided without.
	Stops []gateway.Stop
	// Early: it was refused before the gates, for what the request is like.
	Early bool
	// Status on the wire: of the refusal, of the recorded answer, or of what the
	// origin is given to answer; 0 where it gives no answer.
	Status int
}

// Epoch is the wall-clock time at which rehearsals begin that do not say.
var Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Stage is a policy with a clock. It is for one goroutine. Make it with
// [NewStage] and end it with Close.
type Stage struct {
	*gateway.Rehearsal
	Config *config.Config

	given    Given
	identity *identified
	now      time.Duration
	sources  []*source
	underway endings
	order    int
}

// source is one signal that is read every so often.
type source struct {
	queue, signal string
	every, delay  time.Duration
	timeline      Timeline
	next          time.Duration
	reads         int
}

// NewStage sets the stage for a policy, at time 0. Signals are read for the
// first time there. It is an error if given names no signal of the policy.
func NewStage(cfg *config.Config, given Given) (*Stage, error) {
	if err := given.check(cfg); err != nil {
		return nil, err
	}
	if given.Begin.IsZero() {
		given.Begin = Epoch
	}
	r, err := gateway.Rehearse(cfg, given.Begin, given.Seed)
	if err != nil {
		return nil, err
	}
	s := &Stage{Rehearsal: r, Config: cfg, given: given}
	s.identity = &identified{Identifier: r.Controller.Identifier}
	r.Controller.Identifier = s.identity
	if given.Told {
		return s, nil
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Queues)) {
		for _, signal := range cfg.Queues[name].Signals {
			timeline, ok := given.Signals[string(name)+"/"+string(signal.Name)]
			if !ok {
				timeline = given.Signals[string(name)]
			}
			s.sources = append(s.sources, &source{
				queue: string(name), signal: string(signal.Name), timeline: timeline,
				every: time.Duration(signal.Every), delay: time.Duration(signal.Delay),
			})
		}
	}
	return s, s.Advance(0)
}

// check is an error where a timeline is for no signal of cfg.
func (g *Given) check(cfg *config.Config) error {
	known := SignalNames(cfg)
	for _, name := range slices.Sorted(maps.Keys(g.Signals)) {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%q is no queue of %s, and no queue/signal; there are: %s", name, cfg.Source.File, listed(known))
		}
	}
	return nil
}

// SignalNames lists what timelines can be for: each queue, and each of its
// signals as queue/signal.
func SignalNames(cfg *config.Config) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(cfg.Queues)) {
		names = append(names, string(name))
		for _, s := range cfg.Queues[name].Signals {
			names = append(names, string(name)+"/"+string(s.Name))
		}
	}
	return names
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	text := names[0]
	for _, n := range names[1:] {
		text += ", " + n
	}
	return text
}

// Now is the time since the beginning.
func (s *Stage) Now() time.Duration { return s.now }

// Clock is the wall-clock time on the stage.
func (s *Stage) Clock() time.Time { return s.given.Begin.Add(s.now) }

// errPast is an attempt to go back in time.
var errPast = errors.New("a rehearsal cannot go back in time")

// Advance lets time pass up to t: signals are read, requests end.
func (s *Stage) Advance(t time.Duration) error {
	if t < s.now {
		return errPast
	}
	for {
		next := s.nextSource()
		read := next != nil && next.next <= t
		if len(s.underway) > 0 && s.underway[0].at <= t && (!read || s.underway[0].at <= next.next) {
			e := heap.Pop(&s.underway).(*ending)
			s.now = max(s.now, e.at)
			s.end(e)
			continue
		}
		if !read {
			break
		}
		s.now = max(s.now, next.next)
		if err := s.read(next); err != nil {
			return err
		}
	}
	s.now = t
	return nil
}

// nextSource is the signal that is read next; nil if there are none.
func (s *Stage) nextSource() *source {
	var next *source
	for _, c := range s.sources {
		if next == nil || c.next < next.next {
			next = c
		}
	}
	return next
}

// errSilent is why a silent signal gives no reading.
var errSilent = errors.New("the signal is silent")

func (s *Stage) read(c *source) error {
	sample, ok := c.timeline.sample(max(c.next-c.delay, 0), c.reads)
	c.next += c.every
	c.reads++
	if !ok {
		return s.Queues.Fail(s.Clock(), c.queue, c.signal, errSilent)
	}
	_, err := s.Queues.Observe(s.Clock(), c.queue, c.signal, sample)
	return err
}

// Tell hands in a reading of a signal now; ok is false where there was none. It
// is an error if the policy has no such signal.
func (s *Stage) Tell(queue, signal string, sample shedding.Sample, ok bool) error {
	if !ok {
		return s.Queues.Fail(s.Clock(), queue, signal, errSilent)
	}
	_, err := s.Queues.Observe(s.Clock(), queue, signal, sample)
	return err
}

// Leave makes the store hold what a request like q, sent before the beginning,
// left there, without asking the gates. Where o gives no outcome, it still runs.
// It does nothing where the policy does not look at the request's key.
func (s *Stage) Leave(q *Request, o Origin) {
	p := s.Classify(q)
	r := p.Request
	if p.Early || !r.Keyed {
		return
	}
	if s.Controller.Keys.Claim(r).Verdict == admission.Admit && o.Outcome != admission.NotTried {
		s.Controller.Keys.Settle(r, o.Outcome, admission.Answer{Status: o.Status})
	}
	s.forget(r)
}

// Send sends a request now, to an origin as given, or as o says if that is not
// nil. done is told what became of it: at once, or when the request ends where
// the answer then tells more.
func (s *Stage) Send(q *Request, o *Origin, done func(*Performance)) {
	if o == nil {
		o = &s.given.Origin
	}
	p := s.Classify(q)
	s.Decide(p)
	r := p.Request
	if p.Decision.Verdict != admission.Admit {
		done(p)
		return
	}
	outcome, status := o.Outcome, o.Status
	if outcome == admission.NotTried {
		outcome = admission.Answered
	}
	if status == 0 {
		status = 200
	}
	if outcome == admission.Answered {
		p.Status = status
	} else {
		p.Status = failure(outcome).Status()
	}
	e := &ending{at: s.now + o.Takes, p: p, outcome: outcome, status: status}
	if r.Keyed { // whether its answer is kept is known at its end
		e.done = done
	} else {
		done(p)
	}
	if o.Takes == 0 {
		s.end(e)
		return
	}
	s.order++
	e.order = s.order
	heap.Push(&s.underway, e)
}

// failure is what the client of a request is told that got no answer.
func failure(o admission.Outcome) admission.Reason {
	if o == admission.NotSent {
		return admission.OriginUnreachable
	}
	return admission.OriginFailed
}

// Classify begins with a request: it finds its route, tenant and class, reads its
// key, and refuses it where that is reason enough. Decide has to follow.
func (s *Stage) Classify(q *Request) *Performance {
	r, direct := q.facts(s.Config, s.Clock())
	s.identity.as = direct
	p := &Performance{At: s.now, Request: r}
	p.Decision.Lot, p.Decision.Again = q.Lot, q.Again
	if f := s.Controller.Classify(r); f.Is() {
		p.Decision.Refuse(f)
		p.Early, p.Status = true, p.Decision.Status
		return p
	}
	if r.Keyed {
		s.Controller.Keys.Prepare(r, []byte(q.Body))
	}
	return p
}

// Decide makes the decision for a classified request. One that is admitted is
// held as one that is at the origin until the end of the stage.
func (s *Stage) Decide(p *Performance) {
	r, d := p.Request, &p.Decision
	if p.Early {
		return
	}
	s.Admit(s.Clock(), r, d)
	if r.Route != nil {
		p.Stops = slices.Clone(s.Stops())
	}
	switch d.Verdict {
	case admission.Refuse:
		p.Status = d.Status
	case admission.Replay:
		p.Status = d.Recorded.Status
	}
	if d.Verdict != admission.Admit {
		s.forget(r)
	}
}

func (s *Stage) end(e *ending) {
	r := e.p.Request
	status := s.Controller.End(s.Clock(), r, e.outcome, admission.Answer{Status: e.status})
	if status != "" {
		e.p.Decision.KeyStatus = status
	}
	s.forget(r)
	if e.done != nil {
		e.done(e.p)
	}
}

func (s *Stage) forget(r *admission.Request) {
	if r.Keyed {
		s.Controller.Keys.Forget(r)
	}
}

// Finish lets all requests that are under way end.
func (s *Stage) Finish() error {
	for len(s.underway) > 0 {
		if err := s.Advance(s.underway[0].at); err != nil {
			return err
		}
	}
	return nil
}

// ending is a request that is at the origin until at.
type ending struct {
	at      time.Duration
	order   int
	p       *Performance
	outcome admission.Outcome
	status  int
	done    func(*Performance)
}

// endings are a heap, the earliest first.
type endings []*ending

func (h endings) Len() int      { return len(h) }
func (h endings) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h endings) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].order < h[j].order
}
func (h *endings) Push(e any) { *h = append(*h, e.(*ending)) }
func (h *endings) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	*h = (*h)[:last]
	return e
}

// RetryAfter is what the client is told of when to come back, in whole seconds;
// false where it is told nothing.
func (p *Performance) RetryAfter() (time.Duration, bool) {
	if p.Decision.Verdict != admission.Refuse || !p.Decision.Reason.Retryable() {
		return 0, false
	}
	wait := (p.Decision.RetryAfter + time.Second - 1).Truncate(time.Second)
	return max(wait, time.Second), true
}
