// Package compare says whether B is worse than A, from pairs of runs taken one
// right after the other. It speaks of a difference only when its whole interval
// lies beyond what is tolerated; when the interval straddles that, more pairs
// are needed, and it says so.
package compare

import (
	"errors"
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
	{"goodput", scenario.UnitRate, false, func(r *result.Result) *float64 { return &r.Total.Goodput }},
	{"admitted_share", scenario.UnitShare, false, func(r *result.Result) *float64 { return &r.Total.AdmittedShare }},
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
	// Broken says what does not hold of a run that has to hold of every run, such
	// as counts that agree: figures of such a run are worth nothing.
	Broken []string `json:"broken"`
}

// fewest pairs that an interval can be drawn from.
const fewest = 5

// Compare holds b against a, pair by pair. A metric may get worse by tolerance,
// as a part of A's. Runs from different machines or of different
// loads, and runs that are invalid or were interrupted, are refused unless forced:
// their difference says nothing.
func Compare(nameA, nameB string, a, b []*result.Result, tolerance float64, force bool) (*Report, error) {
	if len(a) != len(b) || len(a) == 0 {
		return nil, fmt.Errorf("compare: %d runs of A and %d of B are no pairs", len(a), len(b))
	}
	rep := &Report{Format: 1, A: nameA, B: nameB, Pairs: len(a), Tolerance: tolerance, Rows: []Row{}, Broken: []string{}}
	for _, side := range []struct {
		name string
		runs []*result.Result
	}{{"A", a}, {"B", b}} {
		for i, r := range side.runs {
			if !force {
				if err := usable(a[0], r); err != nil {
					return nil, fmt.Errorf("compare: run %d of %s: %w", i+1, side.name, err)
				}
			}
			for _, c := range r.Checks {
				if !c.OK {
					rep.Broken = append(rep.Broken, fmt.Sprintf("run %d of %s: %s: %s", i+1, side.name, c.Name, c.Detail))
				}
			}
		}
	}
	for _, m := range metrics {
		rep.Rows = append(rep.Rows, m.compare(a, b, tolerance))
	}
	return rep, nil
}

// errInvalid is about a run that says nothing.
var errInvalid = errors.New("it says nothing about its target")

// Invalid reports whether err is about a run that says nothing.
func Invalid(err error) bool { return errors.Is(err, errInvalid) }

// usable says why a run cannot be held against first.
func usable(first, r *result.Result) error {
	f, g := first.Fingerprint, r.Fingerprint
	switch {
	case r.Verdict == result.Invalid:
		return fmt.Errorf("%w: %s", errInvalid, strings.Join(r.Why, "; "))
	case r.Interrupted > 0:
		return fmt.Errorf("%w: it was interrupted after %.0f s", errInvalid, r.Interrupted)
	case f.Machine != g.Machine:
		return fmt.Errorf("it is from another machine (%s; the first run from %s), so that times cannot be compared; --force does it all the same", g.Machine, f.Machine)
	case f.Go != g.Go:
		return fmt.Errorf("the harness was built by another Go (%s; for the first run %s), so that times cannot be compared; --force does it all the same", g.Go, f.Go)
	}
	return nil
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
	if len(xs) == 0 || stats.Median(xs) == 0 && stats.Median(ys) == 0 {
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

// Verdict on all metrics: worse outweighs unclear. Where nothing could be
// measured on both sides, nothing is known.
func (r *Report) Verdict() result.Verdict {
	if len(r.Broken) > 0 {
		return result.Missed
	}
	v := result.Inconclusive
	for _, row := range r.Rows {
		switch row.Outcome {
		case Worse:
			return result.Missed
		case Same:
			v = result.Pass
		}
	}
	for _, row := range r.Rows {
		if row.Outcome == Unclear {
			return result.Inconclusive
		}
	}
	return v
}

// words for the verdict.
func (r *Report) words() string {
	switch r.Verdict() {
	case result.Pass:
		return "B is no worse than A"
	case result.Missed:
		if len(r.Broken) > 0 {
			return "A run broke what holds in every sound run"
		}
		return "B is worse than A"
	}
	return "These runs do not tell"
}

// Markdown is the comparison as a table.
func (r *Report) Markdown() string {
	var b strings.Builder
	pairs := fmt.Sprintf("%d pairs", r.Pairs)
	if r.Pairs == 1 {
		pairs = "one pair"
	}
	fmt.Fprintf(&b, "**%s.**\n\n", r.words())
	for _, w := range r.Broken {
		fmt.Fprintf(&b, "- %s\n", w)
	}
	if len(r.Broken) > 0 {
		fmt.Fprintln(&b)
	}
	fmt.Fprintf(&b, "A is %s, B is %s. Medians of %s, measured in turn; differences and ratios within pairs, with 95%% intervals. Tolerated: %.0f%%.\n\n", r.A, r.B, pairs, 100*r.Tolerance)
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
