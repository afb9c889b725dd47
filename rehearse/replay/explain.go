package replay

import (
	"fmt"
	"time"

	"sluice/admin"
	"sluice/admission"
	"sluice/config"
	"sluice/config/value"
	"sluice/rehearse"
	"sluice/rehearse/explain"
	"sluice/rehearse/recording"
)

// Explain replays rec up to the decision d, which is one of its own, makes that
// again under cfg, and tells it step by step.
func Explain(cfg *config.Config, rec *recording.Recording, d *recording.Decision, seed uint64) (*explain.Explanation, error) {
	p, err := NewPlayer(cfg, rec, seed)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if why := p.taken(d); why != "" {
		return nil, fmt.Errorf("the decision about %s cannot be made again: %s", d.ID, why)
	}
	if err := p.Before(d); err != nil {
		return nil, err
	}
	q := p.request(d)
	p.leave(d, q)
	if sampledOut, dropped := rec.Missing(); d.Limit != "" && (sampledOut+dropped > 0 || !everything(rec)) {
		p.level(d, q)
	}
	e := explain.Next(p.Stage, q)
	e.Recorded = recorded(d, rec)
	if from, to := Word(d.Verdict, d.Reason), Word(verdictOf(e)); from != to {
		e.Recorded.Differs = "what was recorded does not tell everything that the gateway knew"
		if d.Config != cfg.Source.Hash {
			e.Recorded.Differs = fmt.Sprintf("it was decided under another configuration, %s", d.Config)
		}
	}
	return e, nil
}

// Remembered tells a decision that a running gateway remembers, under the
// configuration that made it. What is remembered is the request, the readings
// before it and the level of its tenant's bucket, but not the requests before
// it. It can be given to [gateway.Options] as Explain.
func Remembered(cfg *config.Config, m admin.Remembered) (any, error) {
	rec, d, err := recording.Of(m)
	if err != nil {
		return nil, err
	}
	e, err := Explain(cfg, rec, d, 1)
	if err != nil {
		return nil, err // not a nil *Explanation in an interface
	}
	return e, nil
}

// everything reports whether rec was to hold every decision.
func everything(rec *recording.Recording) bool {
	for _, p := range rec.Policies {
		if p.Admits != "all" || p.Refusals != "all" {
			return false
		}
	}
	return len(rec.Policies) > 0
}

func verdictOf(e *explain.Explanation) (v admission.Verdict, r admission.Reason) {
	for _, verdict := range []admission.Verdict{admission.Refuse, admission.Admit, admission.Replay} {
		if verdict.String() == e.Verdict {
			v = verdict
		}
	}
	for _, reason := range admission.Reasons() {
		if reason.String() == e.Reason {
			r = reason
		}
	}
	return v, r
}

// level brings the bucket that the request meets to what it was before the
// decision.
func (p *Player) level(d *recording.Decision, q *rehearse.Request) {
	made := p.Classify(q)
	r := made.Request
	defer func() {
		if r.Keyed {
			p.Controller.Keys.Forget(r)
		}
	}()
	if made.Early || r.Route == nil {
		return
	}
	look := p.Buckets.Look(p.Clock(), r)
	before := d.Tokens
	if d.Verdict == admission.Admit && d.Reason == admission.None {
		before += look.Cost
	}
	spend := int64(look.Tokens) - before
	if spend <= 0 {
		return
	}
	spender, route := *r, *r.Route
	route.Cost, route.CostBy = spend, ""
	spender.Route = &route
	var ignored admission.Decision
	p.Buckets.Reserve(p.Clock(), &spender, &ignored)
}

// recorded is d as explanations show it, with what is known of the state that it
// met.
func recorded(d *recording.Decision, rec *recording.Recording) *explain.Recorded {
	r := &explain.Recorded{
		ID: d.ID, Received: d.Received, Verdict: d.Verdict.String(), Reason: d.Reason.String(), Status: d.Status,
		RetryAfter: d.RetryAfter, Outcome: d.Line.Outcome, Failure: d.Failure, Detail: d.Detail,
	}
	saw := func(what, format string, args ...any) {
		r.Saw = append(r.Saw, explain.Fact{What: what, Value: fmt.Sprintf(format, args...)})
	}
	if d.Limit != "" {
		saw("tokens left", "%d of %d", d.Tokens, d.Burst)
	}
	latest := map[string]*admin.SignalLine{} // by queue
	var queues []string
	for _, s := range rec.Signals {
		if s.Time.After(d.Asked()) {
			continue
		}
		was := latest[s.Queue]
		if was == nil {
			queues = append(queues, s.Queue)
		}
		if was == nil || !s.Time.Before(was.Time) {
			latest[s.Queue] = s
		}
	}
	for _, name := range queues {
		s := latest[name]
		share, told := s.Share[d.Class]
		if !told {
			continue
		}
		wait := "not known"
		if s.Wait != nil {
			wait = value.Duration(time.Duration(*s.Wait * float64(time.Second)).Round(10 * time.Millisecond)).String()
		}
		saw("queue "+name, "predicted wait %s, %.1f%% of %s let in, as told %s before", wait, share*100, d.Class,
			d.Asked().Sub(s.Time).Round(time.Millisecond))
	}
	return r
}
