// Package compare says whether B is worse than A, from pairs of runs taken one
// right after the other. It speaks of a difference only when its whole interval
// lies beyond what is tolerated; when the interval straddles that, more pairs
// are needed, and it says so.
package compare

import (
	"fmt"
	"strings"

	"sluice/bench/result"
	"sluice/bench/scenario"
	"sluice/bench/stats"
)

// Outcome of one metric.
type Outcome string

// The outcomes.
const (
	Same    Outcome = "no worse" // at most the tolerance, surely
	Worse   Outcome = "worse"    // more than the tolerance, surely
	Unclear Outcome = "unclear"  // more pairs are needed
	Absent  Outcome = "absent"   // not measured on both sides
)

// metric is a figure of a run that can be compared.
type metric struct {
	name        string
	unit        scenario.Unit
	moreIsWorse bool
	get         func(*result.Result) *float64
}

var metrics = []metric{
	{"response_p50", scenario.UnitDuration, true, func(r *result.Result) *float64 { return r.Total.Response.P50 }},
	{"response_p99", scenario.UnitDuration, true, func(r *result.Result) *float64 { return r.Total.Response.P99 }},
	{"refusal_p99", scenario.UnitDuration, true, func(r *result.Result) *float64 { return r.Total.Refusal.P99 }},
	{"cpu_per_request", scenario.UnitDuration, true, func(r *result.Result) *float64 { return positive(r.Target.CPUPerRequest) }},
	{"goodput", scenario.UnitRate, false, func(r *result.Result) *float64 { return positive(r.Total.Goodput) }},
	{"admitted_share", scenario.UnitShare, false, func(r *result.Result) *float64 { return positive(r.Total.AdmittedShare) }},
}

func positive(v float64) *float64 {
	if v > 0 {
		return &v
	}
	return nil
}

// Row is one metric compared.
type Row struct {
	Metric  string         `json:"metric"`
	A       string         `json:"a"`     // median
	B       string         `json:"b"`     // median
	Ratio   stats.Estimate `json:"ratio"` // B ÷ A, pair by pair
	Diff    stats.Estimate `json:"diff"`  // B − A, pair by pair, in seconds, a second, or parts of one
	Outcome Outcome        `json:"outcome"`

	diff string
}

// Report of a comparison.
type Report struct {
	Format    int     `json:"format"`
	A         string  `json:"a"`
	B         string  `json:"b"`
	Pairs     int     `json:"pairs"`
	Tolerance float64 `json:"tolerance"`
	Rows      []Row   `json:"rows"`
}

// fewest pairs that an interval can be drawn from.
const fewest = 5

// Compare holds b against a, pair by pair. A metric may get worse by tolerance,
// as a part of A's. Runs from different machines or of different loads are
// refused unless forced: their difference says nothing.
func Compare(nameA, nameB string, a, b []*result.Result, tolerance float64, force bool) (*Report, error) {
	if len(a) != len(b) || len(a) == 0 {
		return nil, fmt.Errorf("compare: %d runs of A and %d of B are no pairs", len(a), len(b))
	}
	for _, r := range append(append([]*result.Result{}, a...), b...) {
		if r.Verdict == result.Invalid && !force {
			return nil, invalidError{fmt.Errorf("compare: a run of %s is invalid: %s", r.Name, strings.Join(r.Why, "; "))}
		}
		if f := a[0].Fingerprint; !force && (r.Fingerprint.Machine != f.Machine || r.Fingerprint.Go != f.Go) {
			return nil, fmt.Errorf("compare: the runs are from different machines (%s; %s): their times cannot be compared", f.Machine, r.Fingerprint.Machine)
		}
	}
	rep := &Report{Format: 1, A: nameA, B: nameB, Pairs: len(a), Tolerance: tolerance}
	for _, m := range metrics {
		rep.Rows = append(rep.Rows, m.compare(a, b, tolerance))
	}
	return rep, nil
}

// invalidError is about a run that says nothing.
type invalidError struct{ error }

// Invalid reports whether err is about a run that says nothing.
func Invalid(err error) bool {
	_, ok := err.(invalidError)
	return ok
}

func (m *metric) compare(a, b []*result.Result, tolerance float64) Row {
	row := Row{Metric: m.name, A: "–", B: "–", Outcome: Absent}
	var xs, ys []float64
	for i := range a {
		x, y := m.get(a[i]), m.get(b[i])
		if x != nil && y != nil {
			xs, ys = append(xs, *x), append(ys, *y)
		}
	}
	if len(xs) == 0 {
		return row
	}
	row.A, row.B = m.unit.Format(stats.Median(xs)), m.unit.Format(stats.Median(ys))
	row.Ratio = stats.Bootstrap(stats.Ratios(xs, ys), 1)
	row.Diff = stats.Bootstrap(stats.Differences(xs, ys), 1)
	row.diff = m.format(row.Diff)
	low, high := row.Ratio.Low-1, row.Ratio.High-1
	if !m.moreIsWorse {
		low, high = 1-row.Ratio.High, 1-row.Ratio.Low
	}
	switch {
	case len(xs) < fewest:
		row.Outcome = Unclear
	case high <= tolerance:
		row.Outcome = Same
	case low > tolerance:
		row.Outcome = Worse
	default:
		row.Outcome = Unclear
	}
	return row
}

func (m *metric) format(e stats.Estimate) string {
	sign := func(v float64) string {
		if v < 0 {
			return "−" + m.unit.Format(-v)
		}
		return "+" + m.unit.Format(v)
	}
	return fmt.Sprintf("%s (%s to %s)", sign(e.Value), sign(e.Low), sign(e.High))
}

// Verdict on all metrics: worse outweighs unclear.
func (r *Report) Verdict() result.Verdict {
	v := result.Pass
	for _, row := range r.Rows {
		switch {
		case row.Outcome == Worse:
			return result.Missed
		case row.Outcome == Unclear:
			v = result.Inconclusive
		}
	}
	return v
}

// Markdown is the comparison as a table.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "A is %s, B is %s. Medians of %d pairs, measured in turn; differences and ratios within pairs, with 95%% intervals. Tolerated: %.0f%%.\n\n", r.A, r.B, r.Pairs, 100*r.Tolerance)
	fmt.Fprintf(&b, "| metric | A | B | B − A | B ÷ A | |\n|---|--:|--:|--:|--:|---|\n")
	for _, row := range r.Rows {
		if row.Outcome == Absent {
			fmt.Fprintf(&b, "| %s | – | – | – | – | not measured on both sides |\n", row.Metric)
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %.3f (%.3f–%.3f) | %s |\n", row.Metric, row.A, row.B, row.diff, row.Ratio.Value, row.Ratio.Low, row.Ratio.High, row.Outcome)
	}
	if r.Pairs < fewest {
		fmt.Fprintf(&b, "\nFewer than %d pairs say nothing for certain.\n", fewest)
	}
	return b.String()
}
