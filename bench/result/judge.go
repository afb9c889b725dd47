package result

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/bench/load"
	"sluice/bench/origin"
	"sluice/bench/scenario"
	"sluice/bench/target"
)

// Facts are what a run knows besides what the collector has seen.
type Facts struct {
	Begin    time.Time // of the load
	Ledger   *origin.Ledger
	Counters *target.Counters // of the gateway, for this run alone; nil where there are none
	// CountersLost says why there are none though there should be.
	CountersLost string
	// TargetError is what went wrong with the target, such as a stop that was not
	// clean.
	TargetError error
	Generator   Generator
	// Interrupted is after what time the load was broken off; 0 is not at all.
	// Nothing is judged then but what holds at any time.
	Interrupted time.Duration
	// Undone is how much accepted work was still to be done when the run was
	// given up.
	Undone int
}

// Result judges the run. It is called once, after the last of everything else.
func (c *Collector) Result(f Facts) *Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &Result{
		Format: Format, Name: string(c.s.Name), Rehearses: c.s.Rehearses, Healthy: c.s.Healthy,
		Started: f.Begin, Generator: f.Generator,
		// Lists that are empty are written as such, not as null.
		Inversions: append([]Inversion{}, c.inverted...), Events: []Event{}, Thresholds: []Threshold{}, Tenants: []Tenant{}, Why: []string{},
		Fingerprint: Fingerprint{Scenario: c.s.Hash, Seed: c.s.Seed},
		Origin:      describeOrigin(c.s),
	}
	facts := c.read(f.Ledger, f.Begin)
	t := c.tally(facts)
	r.Interrupted = f.Interrupted.Seconds()
	c.fill(r, t)
	for _, e := range c.s.Events {
		ev := Event{At: time.Duration(e.At).Seconds(), What: e.What()}
		if e.For > 0 {
			ev.Till = ev.At + time.Duration(e.For).Seconds()
		}
		r.Events = append(r.Events, ev)
	}
	var whole load.ClassInterval // warm-up included: counts are about everything
	for _, st := range c.stages {
		for n := range st {
			whole.Merge(&st[n])
		}
	}
	r.Generator.LagP99 = load.Quantile(c.lag, 0.99).Seconds()
	r.Generator.Unsent = whole.Endings[load.Unsent]
	lost := c.lost(facts)
	r.count(&whole, facts, f)
	r.check(&whole, facts, t, f, lost)
	for _, th := range c.s.Thresholds {
		r.Thresholds = append(r.Thresholds, r.judge(c.s, th))
	}
	r.decide(facts, f)
	return r
}

func describeOrigin(s *scenario.Scenario) Origin {
	o := Origin{Answer: s.Origin.Answer.Distribution().String(), Work: s.Origin.Work.Distribution().String(), Workers: s.Origin.Workers}
	if m := s.Origin.Work.Distribution().Mean().Seconds(); m > 0 {
		o.Capacity = float64(o.Workers) / m
	}
	return o
}

// lost counts the effects that a client was told are accepted and that nobody
// recorded, warm-up included.
func (c *Collector) lost(f *ledgerFacts) (n int64) {
	for i, e := range c.effects {
		if e.known && e.admitted > 0 && f.recorded[i] == 0 {
			n++
		}
	}
	return n
}

// check adds what holds in every sound run.
func (r *Result) check(all *load.ClassInterval, facts *ledgerFacts, t *tally, f Facts, lost int64) {
	add := func(ok bool, name, format string, args ...any) {
		r.Checks = append(r.Checks, Check{Name: name, OK: ok, Detail: fmt.Sprintf(format, args...)})
	}
	var ended int64
	for _, n := range all.Endings {
		ended += n
	}
	add(ended == all.Offered, "every request has one ending", "%d offered, %d ended", all.Offered, ended)
	hint := ""
	if lost > 0 && facts.totals.Recorded == 0 {
		hint = ": the origin was never reached; does the target have the bench's origin behind it?"
	}
	add(lost == 0, "what was accepted is recorded", "%d effects that clients were told are accepted are not in the origin's ledger%s", lost, hint)
	add(t.excess == 0 && facts.strange == 0, "nothing was recorded that was not accepted",
		"%d records that no client's answer accounts for, %d of effects that nobody asked for; %d requests may or may not have been recorded", t.excess, facts.strange, t.doubted)
	ok, differ := true, []string{}
	for _, n := range r.Counts {
		if !n.OK {
			ok = false
			differ = append(differ, n.String())
		}
	}
	detail := "clients' counts and the origin's ledger agree"
	if f.Counters != nil {
		detail = "clients' counts, the gateway's counters and the origin's ledger agree"
	} else if f.CountersLost != "" {
		detail += "; the gateway's counters were not compared: " + f.CountersLost
	}
	if !ok {
		detail = strings.Join(differ, "; ")
	}
	add(ok, "all counts agree", "%s", detail)
	if f.TargetError != nil {
		add(false, "the target did what it was told", "%v", f.TargetError)
	}
}

// Limits of a valid run.
const (
	maxUnsent   = 0.001
	maxCPUShare = 0.9
	// maxLagCounts is for runs whose times are not judged, in seconds: requests
	// that come later than that are another load, and their counts another
	// load's.
	maxLagCounts = 2.0
	// maxLagMissed is when a threshold that is missed in such a run says nothing:
	// a machine that holds requests back for that long holds back the gateway, the
	// origin and the events as well. What is met all the same is met.
	maxLagMissed = 0.1
)

// decide on the verdict: what was proved wrong first, then what the run cannot
// prove.
func (r *Result) decide(facts *ledgerFacts, f Facts) {
	var broken, invalid, missed, open []string
	for _, c := range r.Checks {
		if !c.OK {
			broken = append(broken, c.Name+": "+c.Detail)
		}
	}
	g := &r.Generator
	if share := float64(g.Unsent) / float64(max(r.Total.Offered, 1)); share > maxUnsent {
		invalid = append(invalid, fmt.Sprintf("%d requests (%.1f%%) could not be sent; at most 0.1%% may be: raise load.max_in_flight, or lower the rate", g.Unsent, 100*share))
	}
	if g.Timed && g.LagP99 > g.LagLimit {
		invalid = append(invalid, fmt.Sprintf("requests were sent late: p99 %v, at most %v: the generator could not keep up, or the machine is busy with something else",
			scenario.UnitDuration.Format(g.LagP99), scenario.UnitDuration.Format(g.LagLimit)))
	}
	if !g.Timed && g.LagP99 > maxLagCounts {
		invalid = append(invalid, fmt.Sprintf("requests were sent late: p99 %v; more than %v make it another load, whose counts say nothing: the machine is busy with something else",
			scenario.UnitDuration.Format(g.LagP99), scenario.UnitDuration.Format(maxLagCounts)))
	}
	if g.Timed && g.CPUShare > maxCPUShare {
		invalid = append(invalid, fmt.Sprintf("the generator used %.0f%% of all cores; at most %.0f%% leave room for the target", 100*g.CPUShare, 100*maxCPUShare))
	}
	for _, t := range r.Thresholds {
		wrong := fmt.Sprintf("%s is %s, wanted %s", t.What, t.Value, t.Bound)
		switch {
		case t.Result == "missed" && t.Invariant:
			broken = append(broken, wrong)
		case t.Result == "missed":
			missed = append(missed, wrong)
		case t.Result == "unknown":
			open = append(open, fmt.Sprintf("%s is not known: %s", t.What, t.Why))
		}
	}
	if !g.Timed && len(missed) > 0 && g.LagP99 > maxLagMissed && g.LagP99 <= maxLagCounts {
		invalid = append(invalid, fmt.Sprintf("requests were sent late: p99 %v; beyond %v what is missed may be the machine's doing, which is busy with something else",
			scenario.UnitDuration.Format(g.LagP99), scenario.UnitDuration.Format(maxLagMissed)))
	}
	if f.Interrupted > 0 {
		open = append(open, fmt.Sprintf("the run was interrupted after %s", scenario.UnitDuration.Format(r.Interrupted)))
	}
	if n := facts.totals.Forgotten; n > 0 {
		open = append(open, fmt.Sprintf("the ledger forgot %d entries, so it proves nothing about them", n))
	}
	if f.Undone > 0 {
		open = append(open, fmt.Sprintf("%d pieces of accepted work were not done when the run ended", f.Undone))
	}
	switch {
	case len(broken) > 0:
		r.Verdict = Missed
	case len(invalid) > 0:
		r.Verdict = Invalid
	case len(missed) > 0:
		r.Verdict = Missed
	case len(open) > 0:
		r.Verdict = Inconclusive
	default:
		r.Verdict = Pass
	}
	r.Why = append(r.Why, slices.Concat(broken, invalid, missed, open)...)
}
