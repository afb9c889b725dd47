package compare

import (
	"math/rand/v2"
	"strings"
	"testing"

	"sluice/bench/result"
)

// runs are n runs whose response p99 is around ms, with noise that both sides
// of a pair share and noise that they do not.
func runs(n int, ms float64, shared []float64, own *rand.Rand) (all []*result.Result) {
	for i := range n {
		v := (ms + shared[i] + 0.1*own.NormFloat64()) / 1000
		r := &result.Result{Verdict: result.Pass}
		r.Fingerprint.Machine = "m"
		r.Total.Response.P99 = &v
		r.Total.Goodput = 100
		all = append(all, r)
	}
	return all
}

func TestOnlyClearDifferencesCount(t *testing.T) {
	const seed = 5
	r := rand.New(rand.NewPCG(seed, 0))
	shared := make([]float64, 9)
	for i := range shared {
		shared[i] = 3 * r.Float64()
	}
	outcome := func(n int, a, b float64) Outcome {
		rep, err := Compare("a", "b", runs(n, a, shared, r), runs(n, b, shared, r), 0.05, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rep.Rows {
			if row.Metric == "response_p99" {
				return row.Outcome
			}
		}
		return Absent
	}
	for _, c := range []struct {
		pairs int
		a, b  float64
		want  Outcome
	}{
		{9, 10, 10, Same},
		{9, 10, 12, Worse},
		{9, 12, 10, Same}, // better is no worse
		{9, 10, 10.55, Unclear},
		{3, 10, 20, Unclear}, // too few pairs to say anything
	} {
		if got := outcome(c.pairs, c.a, c.b); got != c.want {
			t.Errorf("seed %d: %d pairs of %v and %v ms: %s, wanted %s", seed, c.pairs, c.a, c.b, got, c.want)
		}
	}
}

func TestLessGoodputIsWorse(t *testing.T) {
	a, b := make([]*result.Result, 5), make([]*result.Result, 5)
	for i := range a {
		a[i], b[i] = &result.Result{}, &result.Result{}
		a[i].Total.Goodput, b[i].Total.Goodput = 100, 80
	}
	rep, err := Compare("a", "b", a, b, 0.05, false)
	if err != nil {
		t.Fatal(err)
	}
	if rep.Verdict() != result.Missed || !strings.Contains(rep.Markdown(), "| goodput | 100.0/s | 80.0/s | −20.0/s (−20.0/s to −20.0/s) | 0.800 (0.800–0.800) | worse |") {
		t.Errorf("verdict %s\n%s", rep.Verdict(), rep.Markdown())
	}
}

func TestWhatCannotBeComparedIsRefused(t *testing.T) {
	one := func(machine string, v result.Verdict) []*result.Result {
		r := &result.Result{Verdict: v}
		r.Fingerprint.Machine = machine
		return []*result.Result{r}
	}
	if _, err := Compare("a", "b", one("m", result.Pass), one("n", result.Pass), 0.05, false); err == nil {
		t.Error("two machines were compared")
	}
	if _, err := Compare("a", "b", one("m", result.Pass), one("n", result.Pass), 0.05, true); err != nil {
		t.Errorf("forced, and still refused: %v", err)
	}
	_, err := Compare("a", "b", one("m", result.Pass), one("m", result.Invalid), 0.05, false)
	if !Invalid(err) {
		t.Errorf("an invalid run was compared: %v", err)
	}
}
