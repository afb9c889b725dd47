package report

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"sluice/bench/result"
	"sluice/bench/scenario"
)

// verdicts in words.
var verdicts = map[result.Verdict]string{
	result.Pass:         "Passed: all counts agree and every threshold is met",
	result.Missed:       "Failed",
	result.Invalid:      "Invalid: this run says nothing about the target",
	result.Inconclusive: "Inconclusive",
}

// seconds writes a time as people read it.
func seconds(v float64) string { return scenario.UnitDuration.Format(v) }

func maybe(v *float64) string {
	if v == nil {
		return "–"
	}
	return seconds(*v)
}

func percent(v float64) string { return fmt.Sprintf("%.1f%%", 100*v) }

// number groups digits by three.
func number(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Summary is the run in Markdown.
func Summary(r *result.Result) string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("# %s: %s", r.Name, r.Verdict)
	p("\n%s.\n", verdicts[r.Verdict])
	for _, w := range r.Why {
		p("- %s", w)
	}
	p("\n**Rehearses.** %s\n\n**Healthy.** %s\n", strings.TrimSpace(r.Rehearses), strings.TrimSpace(r.Healthy))
	p("| class | offered | admitted | refused | failed | accepted effects | done in time | p50 | p99 | refused in (p99) |")
	p("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
	for _, n := range append(append([]result.Numbers{}, r.Classes...), r.Total) {
		inTime := "–"
		if n.Accepted > 0 {
			inTime = percent(float64(n.InTime) / float64(n.Accepted))
		}
		p("| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |", n.Name, number(n.Offered), percent(n.AdmittedShare), percent(n.RefusedShare), percent(n.FailedShare),
			number(n.Accepted), inTime, maybe(n.Response.P50), maybe(n.Response.P99), maybe(n.Refusal.P99))
	}
	p("\n| stage | rate | offered | admitted | refused | goodput | oldest work |")
	p("|---|--:|--:|--:|--:|--:|--:|")
	for _, s := range r.Stages {
		rate := fmt.Sprintf("%.0f/s", s.From)
		if s.To != s.From {
			rate += fmt.Sprintf(" to %.0f/s", s.To)
		}
		p("| %s | %s | %s | %s | %s | %.1f/s | %s |", s.Name, rate, number(s.Offered), percent(s.AdmittedShare), percent(s.RefusedShare), s.Goodput, seconds(s.QueueAgeMax))
	}
	if len(r.Thresholds) > 0 {
		p("\n| threshold | measured | wanted | |")
		p("|---|--:|---|---|")
		for _, t := range r.Thresholds {
			p("| %s | %s | %s | %s |", t.What, t.Value, t.Bound, strings.TrimSpace(t.Result+" "+t.Why))
		}
	}
	p("\n| counted | clients | gateway | origin | |")
	p("|---|--:|--:|--:|---|")
	for _, c := range r.Counts {
		ok := "agree"
		switch {
		case !c.OK:
			ok = "**differ**"
		case c.Doubt > 0:
			ok = "agree within the " + number(c.Doubt) + " in doubt"
		}
		p("| %s | %s | %s | %s | %s |", c.What, countOf(c.Client), countOf(c.Gateway), countOf(c.Origin), ok)
	}
	if reasons := r.Total.Reasons; len(reasons) > 0 {
		names := make([]string, 0, len(reasons))
		for k := range reasons {
			names = append(names, k)
		}
		sort.Slice(names, func(i, j int) bool { return reasons[names[i]] > reasons[names[j]] })
		var parts []string
		for _, k := range names {
			parts = append(parts, fmt.Sprintf("%s %s", k, number(reasons[k])))
		}
		p("\nReasons: %s.", strings.Join(parts, ", "))
	}
	p("\n%s", provenance(r))
	return b.String()
}

func countOf(n int64) string {
	if n < 0 {
		return ""
	}
	return number(n)
}

// provenance says how far the figures can be trusted, and where they come from.
func provenance(r *result.Result) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	add("Response times count from the time at which a request was meant to be sent. Percentiles are given where at least ten samples lie beyond them")
	g := r.Generator
	sent := fmt.Sprintf("Requests were sent %s late at p99 (at most %s allowed), %s could not be sent", seconds(g.LagP99), seconds(g.LagLimit), number(g.Unsent))
	if !g.Timed {
		sent = fmt.Sprintf("Times were not judged in this run (p99 of lateness %s), %s requests could not be sent", seconds(g.LagP99), number(g.Unsent))
	}
	if g.Beside > 0 {
		sent += fmt.Sprintf("; up to %d other runs went on beside it", g.Beside)
	}
	if g.Ceiling > 0 {
		sent += fmt.Sprintf("; on this machine the generator manages %s requests a second", number(int64(g.Ceiling)))
	}
	add("%s", sent)
	if r.Target.CPUSeconds > 0 {
		add("The gateway used %.2f s of CPU, %.0f µs a request, and at most %d MiB", r.Target.CPUSeconds, r.Target.CPUPerRequest*1e6, r.Target.PeakMemory>>20)
	}
	f := r.Fingerprint
	what := fmt.Sprintf("Measured %s with seed %d, scenario %s", r.Started.UTC().Format(time.RFC3339), f.Seed, f.Scenario)
	if f.Config != "" {
		what += ", gateway config " + f.Config
	}
	if f.Commit != "" {
		what += ", commit " + f.Commit
	}
	add("%s, on %s, %s", what, f.Machine, f.Go)
	return strings.Join(parts, ". ") + "."
}
