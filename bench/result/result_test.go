package result

import (
	"math"
	"strings"
	"testing"
	"time"

	"sluice/bench/load"
	"sluice/bench/scenario"
	"sluice/bench/target"
)

func parse(t *testing.T, more string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse("test.yaml", []byte(`
version: 1
name: test
rehearses: x
healthy: y
classes:
  - {name: critical, share: 50%, path: /a, deadline: 1s}
  - {name: bulk, share: 50%, path: /b}
stages:
  - {name: warm, kind: warmup, rate: 10/s, for: 1s}
  - {name: hold, rate: 100/s, for: 2s}
  - {name: after, kind: recover, rate: 100/s, for: 4s}
`+more))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// interval is second n, in which each class offers 100 requests and that many
// are shed.
func interval(n int, shed ...int64) *load.Interval {
	i := &load.Interval{Start: time.Duration(n) * time.Second, Classes: make([]load.ClassInterval, len(shed))}
	for c, k := range shed {
		ci := &i.Classes[c]
		ci.Offered = 100
		ci.Endings[load.Admitted], ci.Endings[load.Refused] = 100-k, k
		ci.Reasons = map[string]int64{"shed": k}
	}
	return i
}

func TestInversionsNeedMoreThanChance(t *testing.T) {
	c := NewCollector(parse(t, ""))
	c.Interval(interval(0, 10, 90)) // as it should be
	c.Interval(interval(1, 55, 50)) // chance
	c.Interval(interval(2, 90, 10)) // inverted
	if len(c.inverted) != 1 || c.inverted[0].Second != 2 || c.inverted[0].Stage != "hold" || c.inverted[0].Higher != "critical" {
		t.Errorf("inversions: %+v", c.inverted)
	}
	limits := interval(3, 90, 10)
	limits.Classes[0].Reasons = map[string]int64{"tenant_limit": 90}
	c.Interval(limits) // a tenant's own limit is no matter of classes
	if len(c.inverted) != 1 {
		t.Errorf("a tenant's limit counts as an inversion: %+v", c.inverted[1])
	}
}

func TestRecoveryIsCountedToTheLastRefusal(t *testing.T) {
	c := NewCollector(parse(t, ""))
	for n, shed := range []int64{0, 50, 50, 30, 0, 20, 0} {
		c.Interval(interval(n, shed, shed))
	}
	if v := c.recovery(3, 7); v == nil || *v != 3 {
		t.Errorf("recovered after %v seconds, wanted 3", v)
	}
	if v := c.recovery(1, 4); v != nil {
		t.Errorf("recovered after %v seconds, where it did not", *v)
	}
}

// Percentiles of merged histograms are those of all samples together, and are
// left out where fewer than ten lie beyond.
func TestPercentilesNeedSamples(t *testing.T) {
	a, b := load.NewHistogram(), load.NewHistogram()
	for v := int64(1); v <= 500; v++ {
		_ = a.RecordValue(v * 1000)
		_ = b.RecordValue((v + 500) * 1000)
	}
	l := latencyOf(a, nil, b)
	if l.Count != 1000 || l.P99 == nil || math.Abs(*l.P99-0.990) > 0.002 || l.P999 != nil {
		t.Errorf("of 1ms to 1s: count %d, p99 %v, p99.9 %v", l.Count, l.P99, l.P999)
	}
	if l := latencyOf(a); l.P99 != nil || l.P90 == nil {
		t.Errorf("of 500 samples: p99 %v and p90 %v, wanted the latter alone", l.P99, l.P90)
	}
	if last := l.Spectrum[len(l.Spectrum)-1]; last[0] != 0.99 {
		t.Errorf("the spectrum of 1000 samples ends at %v, wanted 0.99", last[0])
	}
}

func TestHeatRowsHoldEverySampleOnce(t *testing.T) {
	h := load.NewHistogram()
	for _, us := range []int64{1, 99, 100, 101, 1000, 1_000_000, 500_000_000} {
		_ = h.RecordValue(us)
	}
	row := make([]int64, heatRows)
	addHeat(row, h)
	var sum int64
	for _, n := range row {
		sum += n
	}
	if sum != 7 || row[0] != 2 || row[1] != 2 || row[heatRows-1] != 1 {
		t.Errorf("rows %v", row)
	}
	if b := HeatBounds(); len(b) != heatRows || math.Abs(b[9]-0.001) > 1e-9 {
		t.Errorf("row 9 begins at %v, wanted 1ms", b[9])
	}
}

// The three parties' counts differ by what is in doubt, and by nothing else.
func TestCountsMayDifferByDoubtAlone(t *testing.T) {
	ends := func(timedOut int64) *load.ClassInterval {
		ci := &load.ClassInterval{Offered: 100 + timedOut, Reasons: map[string]int64{"shed": 10, "origin_503": 5, "origin_failed": 2}}
		ci.Endings[load.Admitted], ci.Endings[load.Refused], ci.Endings[load.Failed], ci.Endings[load.TimedOut] = 83, 10, 7, timedOut
		return ci
	}
	counters := func(received, admit, shed int64) *target.Counters {
		return &target.Counters{
			Received: received, Verdicts: map[string]int64{"admit": admit, "refuse": shed},
			Reasons: map[string]int64{"shed": shed}, Failures: map[string]int64{"origin_failed": 2},
		}
	}
	for _, c := range []struct {
		name     string
		timedOut int64
		gateway  *target.Counters
		recorded int64
		differ   string
	}{
		{"all agree", 0, counters(100, 90, 10), 85, ""},
		{"the origin recorded what was refused", 0, counters(100, 90, 10), 95, "recorded"},
		{"the origin recorded less than was accepted", 0, counters(100, 90, 10), 82, "recorded"},
		{"the gateway counted another refusal", 0, counters(101, 90, 11), 83, "received shed"},
		{"three timed out and may have got there", 3, counters(102, 92, 10), 85, ""},
		{"three timed out, four more got there", 3, counters(104, 94, 10), 85, "received answered by the origin"},
	} {
		var r Result
		facts := &ledgerFacts{}
		facts.totals.Recorded = c.recorded
		r.count(ends(c.timedOut), facts, Facts{Counters: c.gateway})
		var differ []string
		for _, n := range r.Counts {
			if !n.OK {
				differ = append(differ, n.What)
			}
		}
		if got := strings.Join(differ, " "); got != c.differ {
			t.Errorf("%s: %q differ, wanted %q\n%v", c.name, got, c.differ, r.Counts)
		}
	}
}

// Where times are not judged, a load that came seconds late is still another
// load, and one that came later than a moment may be why a threshold is missed;
// never why something is lost or done twice.
func TestCountsOfALateLoad(t *testing.T) {
	for _, c := range []struct {
		lag       float64
		threshold Threshold
		want      Verdict
	}{
		{0.05, Threshold{Result: "missed"}, Missed},
		{0.9, Threshold{Result: "missed"}, Invalid},
		{0.9, Threshold{Result: "met"}, Pass},
		{0.9, Threshold{Result: "missed", Invariant: true}, Missed},
		{3, Threshold{Result: "missed"}, Invalid},
		{3, Threshold{Result: "met"}, Invalid},
		{3, Threshold{Result: "missed", Invariant: true}, Missed},
	} {
		r := &Result{Generator: Generator{LagLimit: 0.001, LagP99: c.lag}, Thresholds: []Threshold{c.threshold}}
		r.decide(&ledgerFacts{}, Facts{})
		if r.Verdict != c.want || (r.Verdict == Pass) != (len(r.Why) == 0) {
			t.Errorf("%v s late, %+v: %s, wanted %s: %v", c.lag, c.threshold, r.Verdict, c.want, r.Why)
		}
	}
}

// A threshold is known to be of an invariant by its metric.
func TestInvariantsAreNoFigures(t *testing.T) {
	s := parse(t, `
thresholds:
  - {metric: lost, at_most: none}
  - {metric: duplicates, at_most: none}
  - {metric: admitted_share, at_least: 1%}
`)
	r := &Result{Total: Numbers{Lost: 1, Duplicates: 1}}
	for i, th := range s.Thresholds {
		if got := r.judge(s, th); got.Invariant != (i < 2) || got.Invariant && got.Result != "missed" {
			t.Errorf("%+v", got)
		}
	}
}

// What is proved wrong outweighs an invalid run, which outweighs figures.
func TestVerdictsAreRanked(t *testing.T) {
	build := func(brokenCheck, late bool, threshold string) Verdict {
		r := &Result{Generator: Generator{Timed: true, LagLimit: 0.001}, Checks: []Check{{OK: !brokenCheck}}}
		if late {
			r.Generator.LagP99 = 0.002
		}
		r.Thresholds = []Threshold{{Result: threshold}}
		r.decide(&ledgerFacts{}, Facts{})
		return r.Verdict
	}
	for _, c := range []struct {
		broken, late bool
		threshold    string
		want         Verdict
	}{
		{false, false, "met", Pass},
		{false, false, "not_judged", Pass},
		{false, false, "unknown", Inconclusive},
		{false, false, "missed", Missed},
		{false, true, "missed", Invalid},
		{false, true, "met", Invalid},
		{true, true, "met", Missed},
	} {
		if got := build(c.broken, c.late, c.threshold); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
