package stats

import (
	"math/rand/v2"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 3, 2}, 2.5}} {
		if got := Median(c.in); got != c.want {
			t.Errorf("median of %v is %v, wanted %v", c.in, got, c.want)
		}
	}
}

// The interval holds the truth about as often as it promises. With few pairs
// the bootstrap is a little too sure, which the bound allows for.
func TestIntervalsHoldTheTruth(t *testing.T) {
	const seed, runs, pairs, truth = 3, 400, 9, 1.0
	r := rand.New(rand.NewPCG(seed, 0))
	held := 0
	for i := range runs {
		var a, b []float64
		for range pairs {
			drift := 10 * r.Float64() // shared by both sides of a pair
			a = append(a, drift+r.NormFloat64())
			b = append(b, drift+r.NormFloat64()+truth)
		}
		e := Bootstrap(Differences(a, b), uint64(i))
		if e.Low > e.Value || e.Value > e.High {
			t.Fatalf("seed %d: %+v is out of order", seed, e)
		}
		if e.Low <= truth && truth <= e.High {
			held++
		}
	}
	if share := float64(held) / runs; share < 0.90 {
		t.Errorf("seed %d: the interval held the truth in %.1f%% of runs, wanted about 95%%", seed, 100*share)
	}
}

func TestRatiosLeaveOutNothingByNothing(t *testing.T) {
	got := Ratios([]float64{2, 0, 4}, []float64{3, 5, 2})
	if len(got) != 2 || got[0] != 1.5 || got[1] != 0.5 {
		t.Errorf("ratios %v", got)
	}
}
