package result

import (
	"fmt"
	"maps"
	"slices"
	"sort"
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

// count holds the three parties' counts against each other.
func (r *Result) count(all *load.ClassInterval, facts *ledgerFacts, f Facts) {
	e := all.Endings
	doubt := e[load.TimedOut] + e[load.Broken]
	// -1 stands for "does not count this".
	gateway := func(n int64) int64 { return -1 }
	c := &target.Counters{}
	if f.Counters != nil {
		c = f.Counters
		gateway = func(n int64) int64 { return n }
	}
	add := func(what string, client, gw, org, doubt int64) {
		n := Count{What: what, Client: client, Gateway: gw, Origin: org, Doubt: doubt, OK: true}
		for _, other := range []int64{gw, org} {
			n.OK = n.OK && (other < 0 || other >= client && other <= client+doubt)
		}
		r.Counts = append(r.Counts, n)
	}
	// Answers that the origin itself gave, and reasons that a gateway gave.
	answered := e[load.Admitted]
	given := map[string]int64{}
	for reason, n := range all.Reasons {
		switch code, own := strings.CutPrefix(reason, "origin_"); {
		case own && code[0] >= '0' && code[0] <= '9':
			answered += n
		case !slices.Contains([]string{"timeout", "closed", "connection", "unsent"}, reason):
			given[reason] = n
		}
	}
	names := map[string]bool{}
	var failures int64
	for k, n := range c.Failures {
		names[k] = true
		failures += n
	}
	for _, m := range []map[string]int64{c.Reasons, given} {
		for k := range m {
			names[k] = true
		}
	}
	add("received", all.Offered-e[load.Unsent]-doubt, gateway(c.Received), -1, doubt)
	// What failed may have been recorded nevertheless.
	add("recorded", e[load.Admitted], -1, facts.totals.Recorded, e[load.Failed]+doubt)
	add("answered by the origin", answered, gateway(c.Verdicts["admit"]-failures), -1, doubt)
	if n := c.Verdicts["replay"]; n+e[load.Replayed] > 0 {
		add("replayed", e[load.Replayed], gateway(n), -1, doubt)
	}
	for _, k := range slices.Sorted(maps.Keys(names)) {
		add(k, given[k], gateway(c.Reasons[k]+c.Failures[k]), -1, doubt)
	}
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

// String is the count in words.
func (n Count) String() string {
	s := fmt.Sprintf("%s: clients %d", n.What, n.Client)
	if n.Gateway >= 0 {
		s += fmt.Sprintf(", gateway %d", n.Gateway)
	}
	if n.Origin >= 0 {
		s += fmt.Sprintf(", origin %d", n.Origin)
	}
	return s + fmt.Sprintf(" (up to %d more are in doubt)", n.Doubt)
}

// judge holds one threshold against the figures.
func (r *Result) judge(s *scenario.Scenario, t scenario.Threshold) Threshold {
	unit := t.Metric.Unit()
	bound, atLeast := t.AtMost, false
	if t.AtLeast != "" {
		bound, atLeast = t.AtLeast, true
	}
	out := Threshold{What: describeThreshold(t), Bound: "at most " + bound}
	if atLeast {
		out.Bound = "at least " + bound
	}
	limit, err := unit.Bound(bound)
	if err != nil { // the scenario's check has seen to it
		out.Result, out.Why = "unknown", err.Error()
		return out
	}
	v, why := r.measure(s, t)
	if !r.Generator.Timed && slices.Contains([]scenario.Metric{"response_p50", "response_p99", "refusal_p99"}, t.Metric) {
		out.Result, out.Why, out.Value = "not_judged", "times are not judged in this run", "–"
		if v != nil {
			out.Value = unit.Format(*v)
		}
		return out
	}
	if v == nil && t.Metric == "recovery" {
		out.Result, out.Value, out.Why = "missed", "never", why
		return out
	}
	if v == nil {
		out.Result, out.Why, out.Value = "unknown", why, "–"
		return out
	}
	out.Value = unit.Format(*v)
	switch {
	case atLeast && *v >= limit, !atLeast && *v <= limit:
		out.Result = "met"
	default:
		out.Result = "missed"
	}
	return out
}

func describeThreshold(t scenario.Threshold) string {
	w := string(t.Metric)
	if t.Class != "" {
		w += ", class " + string(t.Class)
	}
	if t.Stage != "" {
		w += ", stage " + string(t.Stage)
	}
	return w
}

// measure finds the figure that a threshold is about; nil, and why, where there
// is none.
func (r *Result) measure(s *scenario.Scenario, t scenario.Threshold) (*float64, string) {
	n := &r.Total
	var stage *Stage
	if t.Stage != "" {
		stage = &r.Stages[s.StageIndex(t.Stage)]
		n = &stage.Numbers
	}
	if t.Class != "" {
		i := s.ClassIndex(t.Class)
		n = &r.Classes[i]
		if stage != nil {
			n = &stage.Classes[i]
		}
	}
	val := func(v float64) (*float64, string) { return &v, "" }
	share := func(part, whole int64, none string) (*float64, string) {
		if whole == 0 {
			return nil, none
		}
		return val(float64(part) / float64(whole))
	}
	const few = "fewer than ten samples lie beyond it"
	switch t.Metric {
	case "admitted_share", "refused_share", "failed_share":
		if n.Offered == 0 {
			return nil, "nothing was offered"
		}
		return val(map[scenario.Metric]float64{"admitted_share": n.AdmittedShare, "refused_share": n.RefusedShare, "failed_share": n.FailedShare}[t.Metric])
	case "done_in_time_share":
		return share(n.InTime, n.Accepted, "nothing was accepted")
	case "goodput":
		return val(n.Goodput)
	case "response_p50":
		return n.Response.P50, few
	case "response_p99":
		return n.Response.P99, few
	case "refusal_p99":
		return n.Refusal.P99, few
	case "duplicates":
		return val(float64(n.Duplicates))
	case "lost":
		return val(float64(n.Lost))
	case "promises_kept_share":
		return share(n.Kept, n.Obeyed, "nobody came back")
	case "recovery":
		return stage.Recovery, "the stage ended before everything was admitted"
	case "queue_age_max":
		if stage != nil {
			return val(stage.QueueAgeMax)
		}
		age := 0.0
		for _, st := range r.Stages {
			age = max(age, st.QueueAgeMax)
		}
		return val(age)
	case "inversions":
		seconds := map[int]bool{}
		for _, i := range r.Inversions {
			if t.Stage == "" || i.Stage == string(t.Stage) {
				seconds[i.Second] = true
			}
		}
		return val(float64(len(seconds)))
	case "light_admitted_share":
		return r.light(string(t.Class))
	}
	return nil, "no such metric"
}

// light is the share let in of all tenants but the heaviest.
func (r *Result) light(class string) (*float64, string) {
	byName := map[string]*Tenant{}
	for _, t := range r.Tenants {
		if class != "" && t.Class != class {
			continue
		}
		if byName[t.Name] == nil {
			byName[t.Name] = &Tenant{Name: t.Name}
		}
		byName[t.Name].Offered += t.Offered
		byName[t.Name].LetIn += t.LetIn
	}
	all := slices.Collect(maps.Values(byName))
	if len(all) < 2 {
		return nil, "there is only one tenant"
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Offered > all[j].Offered })
	var offered, letIn int64
	for _, t := range all[1:] {
		offered += t.Offered
		letIn += t.LetIn
	}
	v := float64(letIn) / float64(offered)
	return &v, ""
}

// Limits of a valid run.
const (
	maxUnsent   = 0.001
	maxCPUShare = 0.9
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
	if g.Timed && g.CPUShare > maxCPUShare {
		invalid = append(invalid, fmt.Sprintf("the generator used %.0f%% of all cores; at most %.0f%% leave room for the target", 100*g.CPUShare, 100*maxCPUShare))
	}
	for _, t := range r.Thresholds {
		switch t.Result {
		case "missed":
			missed = append(missed, fmt.Sprintf("%s is %s, wanted %s", t.What, t.Value, t.Bound))
		case "unknown":
			open = append(open, fmt.Sprintf("%s is not known: %s", t.What, t.Why))
		}
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
