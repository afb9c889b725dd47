package dist

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// What is sampled has the mean and the quantiles that the formulas promise.
func TestSamplesFollowTheFormulas(t *testing.T) {
	const n, seed = 200_000, 11
	for _, d := range []Distribution{
		Const(3 * time.Millisecond),
		Between(time.Millisecond, 9*time.Millisecond),
		Exp(5 * time.Millisecond),
		LogNorm(2*time.Millisecond, 20*time.Millisecond),
	} {
		r := rand.New(rand.NewPCG(seed, 0))
		all := make([]time.Duration, n)
		var sum time.Duration
		for i := range all {
			all[i] = d.Sample(r)
			sum += all[i]
		}
		slices.Sort(all)
		near := func(what string, got, want time.Duration) {
			if rel := math.Abs(float64(got-want)) / float64(want); rel > 0.03 {
				t.Errorf("seed %d: %v: %s is %v, the formula says %v", seed, d, what, got, want)
			}
		}
		near("mean", sum/n, d.Mean())
		for _, p := range []float64{0.1, 0.5, 0.9, 0.99} {
			near("quantile", all[int(p*n)], d.Quantile(p))
		}
	}
}

func TestImpossibleDistributionsAreNamed(t *testing.T) {
	for _, d := range []Distribution{
		{Fixed, -1, 0}, Between(2, 1), LogNorm(0, 5), LogNorm(9, 5), {Kind: 9},
	} {
		if d.Check() == nil {
			t.Errorf("%#v passes for possible", d)
		}
	}
}
