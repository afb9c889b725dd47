package gateway

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"sluice/admin"
	"sluice/admission"
	"sluice/admission/ratelimit"
	"sluice/config"
	"sluice/proxy"
	"sluice/shedding"
	"sluice/shedding/signals"
)

// candidate is a policy that decides beside the one in force, and is not obeyed;
// see [admission.Candidate]. A reload makes another one, also where only the
// policy in force has changed; levels, learned rates and places go on from one
// to the next by name, as they do for the policy in force.
type candidate struct {
	cfg     *config.Config
	decider *admission.Candidate
	queues  *queues
	buckets *ratelimit.Gate
	places  *places
	since   time.Time // when this configuration became the candidate
	failure string    // of the latest attempt to load it; "" where it succeeded
}

// newCandidate makes a candidate of cfg, to be asked beside live. was is the one
// before, nil where there is none to go on from. An error leaves that one as it
// was.
func (g *Gateway) newCandidate(cfg *config.Config, live *prepared, was *candidate, now time.Time) (*candidate, error) {
	c := &candidate{cfg: cfg, since: now, places: &places{}}
	learned := &queues{gate: live.queues.gate.Beside()}
	if was != nil {
		learned, c.places = was.queues, was.places
		if was.cfg.Source.Hash == cfg.Source.Hash {
			c.since = was.since
		}
	}
	// What has nothing to do with deciding is left out, and the origin is that of
	// the policy in force.
	bare := *cfg
	bare.TLS, bare.Admin.TLS, bare.Origin.TLS = nil, nil, nil
	p, err := prepareAt(&bare, &prepared{cfg: &bare, policy: &proxy.Policy{Origin: live.policy.Origin}, queues: learned}, now)
	if err != nil {
		return nil, err
	}
	c.queues = p.queues
	if was != nil {
		c.buckets = was.buckets
		_, err = c.buckets.Reconfigure(p.buckets, now)
	} else {
		c.buckets, err = newBuckets(p, now)
	}
	if err != nil {
		c.queues.close()
		return nil, err
	}
	var nowhere admission.Gate
	if all, ok := c.places.gate(p.places, p.names.Routes).(*placeGate); ok {
		nowhere = placesAtOnce{all}
	}
	ctl := p.policy.Controller
	o := admission.CandidateOptions{
		Classifier: ctl.Classifier, Identifier: ctl.Identifier, RefuseUnmatched: ctl.RefuseUnmatched,
		Gates: p.gates(c.buckets, nowhere), Classes: p.names.Classes, Failed: g.candidateFailed,
	}
	if p.keys != nil {
		o.Keys = &candidateKeys{p.keys, sameKeys(cfg, live.cfg)}
	}
	c.decider = admission.NewCandidate(o)
	return c, nil
}

// candidateFailed tells of a panic in the candidate, which has switched it off.
func (g *Gateway) candidateFailed(cause any, stack []byte) {
	g.candidatePanics.Add(1)
	g.log.Error("the candidate policy panicked and is not asked any more, until the next reload; the policy in force is not affected",
		"panic", fmt.Sprint(cause), "stack", string(stack))
}

// beside has c asked after each decision of p, and hands it p's readings.
func (c *candidate) beside(p *prepared, g *Gateway) {
	p.policy.Controller.Candidate = c.decider
	told := &besideSink{live: p.queues.gate, candidate: c, also: map[signalName][]signalName{}}
	c.hear(p, told.also)
	p.queues.sink = told
	c.queues.sink = guardedSink{c}
	for _, field := range c.queues.listeners(g.log) {
		field.Pass = true
		p.policy.Signals = append(p.policy.Signals, field)
	}
}

// signalName names a signal.
type signalName struct{ queue, signal string }

// hear gives up c's own readers where live has a reader of the same definition:
// what that reads goes to both, and no broker is asked twice. also is filled with
// c's signals by those of live.
func (c *candidate) hear(live *prepared, also map[signalName][]signalName) {
	c.queues.sources = slices.DeleteFunc(c.queues.sources, func(own signals.Source) bool {
		name := signalName{own.Queue, own.Signal}
		for _, theirs := range live.queues.sources {
			other := signalName{theirs.Queue, theirs.Signal}
			if !sameReader(signalOf(c.cfg, name), signalOf(live.cfg, other), name == other) {
				continue
			}
			_ = own.Reader.Close()
			c.queues.pushed = slices.DeleteFunc(c.queues.pushed, func(p pushed) bool {
				return p.queue == own.Queue && p.signal == own.Signal
			})
			also[other] = append(also[other], name)
			return true
		}
		return false
	})
}

func signalOf(cfg *config.Config, name signalName) *config.Signal {
	list := cfg.Queues[config.ID(name.queue)].Signals
	return &list[slices.IndexFunc(list, func(s config.Signal) bool { return string(s.Name) == name.signal })]
}

// sameReader reports whether two signals read the same, as often. What is pushed
// is the same only where it is for the same signal.
func sameReader(a, b *config.Signal, sameName bool) bool {
	if a.Push != nil && !sameName {
		return false
	}
	x, y := *a, *b
	// What is made of a reading is each policy's own.
	x.Name, x.Delay, x.OnLoss, x.Retention = y.Name, y.Delay, y.OnLoss, y.Retention
	return reflect.DeepEqual(x, y)
}

// besideSink hands what is read for the policy in force to a candidate, too.
type besideSink struct {
	live      *shedding.Gate
	candidate *candidate
	also      map[signalName][]signalName
}

func (s *besideSink) Observe(now time.Time, queue, signal string, sample shedding.Sample) (shedding.Flaw, error) {
	flaw, err := s.live.Observe(now, queue, signal, sample)
	for _, to := range s.also[signalName{queue, signal}] {
		_, _ = guardedSink{s.candidate}.Observe(now, to.queue, to.signal, sample)
	}
	return flaw, err
}

func (s *besideSink) Fail(now time.Time, queue, signal string, cause error) error {
	err := s.live.Fail(now, queue, signal, cause)
	for _, to := range s.also[signalName{queue, signal}] {
		_ = guardedSink{s.candidate}.Fail(now, to.queue, to.signal, cause)
	}
	return err
}

// guardedSink is the queues of a candidate, whose panics are its own.
type guardedSink struct{ c *candidate }

func (s guardedSink) Observe(now time.Time, queue, signal string, sample shedding.Sample) (flaw shedding.Flaw, err error) {
	s.c.decider.Guard(func() { flaw, err = s.c.queues.gate.Observe(now, queue, signal, sample) })
	return flaw, err
}

func (s guardedSink) Fail(now time.Time, queue, signal string, cause error) (err error) {
	s.c.decider.Guard(func() { err = s.c.queues.gate.Fail(now, queue, signal, cause) })
	return err
}

// placesAtOnce is the places of a candidate. Nobody waits for them: it is asked
// when the policy in force has waited, and a request must not wait twice.
type placesAtOnce struct{ *placeGate }

func (g placesAtOnce) Reserve(now time.Time, r *admission.Request, _ *admission.Decision) (admission.Permit, admission.Refusal) {
	if s := g.byRoute[r.Route.Index]; s != nil {
		return s.ReserveNow(now, r)
	}
	return admission.Permit{}, admission.Refusal{}
}

// candidateKeys reads keys as a candidate's routes say.
type candidateKeys struct {
	keys *keys
	same []bool // by route index: the route of that id in force does the same with keys
}

// Check implements admission.CandidateKeys.
func (k *candidateKeys) Check(r *admission.Request) admission.Refusal {
	key, refusal := k.keys.read(r)
	r.Keyed = key != nil
	return refusal
}

// Same implements admission.CandidateKeys.
func (k *candidateKeys) Same(live, r *admission.Request) bool {
	return k.same[r.Route.Index] && live.Route.ID == r.Route.ID && live.Tenant == r.Tenant
}

// sameKeys tells of each route of cfg whether that of the same id in live does
// the same with keys.
func sameKeys(cfg, live *config.Config) []bool {
	same := make([]bool, len(cfg.Routes))
	for i := range cfg.Routes {
		for j := range live.Routes {
			if live.Routes[j].ID == cfg.Routes[i].ID {
				same[i] = reflect.DeepEqual(live.Routes[j].Idempotency, cfg.Routes[i].Idempotency)
			}
		}
	}
	return same
}

// nextCandidate loads the candidate again, to be asked beside p. One that is
// wrong leaves the one before, which then tells so. Of one that panicked nothing
// is kept.
func (g *Gateway) nextCandidate(p *prepared, was *candidate, now time.Time) *candidate {
	from := was
	if was.decider.Off() {
		from = nil
	}
	cfg, err := g.opts.Candidate()
	var next *candidate
	if err == nil {
		next, err = g.newCandidate(cfg, p, from, now)
	}
	if err == nil {
		return next
	}
	g.log.Error("the new candidate is wrong; the one before goes on", "error", err)
	next, again := g.newCandidate(was.cfg, p, from, now)
	if again != nil {
		g.log.Error("there is no candidate any more, until the next reload: the one before is no longer valid", "error", again)
		was.decider.Stop()
		kept := *was
		kept.queues, kept.failure = &queues{gate: was.queues.gate}, err.Error()
		return &kept
	}
	next.since, next.failure = was.since, err.Error()
	return next
}

// candidateStatus describes the candidate; nil where there is none.
func candidateStatus(now *running) *admin.CandidateStatus {
	c := now.candidate
	if c == nil {
		return nil
	}
	return &admin.CandidateStatus{
		Path: c.cfg.Source.File, Hash: c.cfg.Source.Hash, Since: c.since, LoadError: c.failure, Off: c.decider.Off(),
	}
}

// measureCandidate emits what there is to say of the candidate itself.
func (g *Gateway) measureCandidate(now *running, emit func(string, float64, ...string)) {
	c := now.candidate
	if c == nil {
		return
	}
	emit("sluice_candidate_info", 1, c.cfg.Source.Hash)
	emit("sluice_candidate_asked", oneIf(!c.decider.Off()))
	emit("sluice_candidate_last_load_successful", oneIf(c.failure == ""))
	emit("sluice_candidate_panics_total", float64(g.candidatePanics.Load()))
}
