package load

import (
	"math"
	"slices"
	"testing"
	"time"
)

func arrivals(stages []Stage, a Arrivals, seed uint64) (all []arrival) {
	p := newPlan(stages, a, seed)
	for x, ok := p.next(); ok; x, ok = p.next() {
		all = append(all, x)
	}
	return all
}

// Every second of a plan holds as many arrivals as the rate's integral says,
// within what chance explains.
func TestArrivalsFollowTheRate(t *testing.T) {
	const seed = 3
	stages := []Stage{
		{Name: "hold", From: 2000, To: 2000, Duration: 3 * time.Second},
		{Name: "ramp", From: 2000, To: 6000, Duration: 4 * time.Second},
		{Name: "pause", From: 0, To: 0, Duration: time.Second},
		{Name: "down", From: 3000, To: 0, Duration: 2 * time.Second},
	}
	want := []float64{2000, 2000, 2000, 2500, 3500, 4500, 5500, 0, 2250, 750}
	for _, kind := range []Arrivals{Poisson, Uniform} {
		got := make([]float64, len(want))
		for _, a := range arrivals(stages, kind, seed) {
			got[int(a.at/time.Second)]++
		}
		for s := range want {
			slack := 4*math.Sqrt(want[s]) + 1
			if kind == Uniform {
				slack = 1
			}
			if math.Abs(got[s]-want[s]) > slack {
				t.Errorf("seed %d, arrivals %d, second %d: %v requests, the rate says %v ± %.0f", seed, kind, s, got[s], want[s], slack)
			}
		}
	}
}

func TestArrivalsAreInOrderAndNameTheirStage(t *testing.T) {
	stages := []Stage{{From: 500, To: 900, Duration: time.Second}, {From: 900, To: 900, Duration: time.Second}}
	all := arrivals(stages, Poisson, 5)
	if !slices.IsSortedFunc(all, func(a, b arrival) int { return int(a.at - b.at) }) {
		t.Error("arrivals are not in order")
	}
	for _, a := range all {
		if a.stage != int(a.at/time.Second) {
			t.Fatalf("an arrival at %v is said to belong to stage %d", a.at, a.stage)
		}
	}
}

func TestSameSeedSamePlan(t *testing.T) {
	stages := []Stage{{From: 500, To: 900, Duration: time.Second}}
	if !slices.Equal(arrivals(stages, Poisson, 7), arrivals(stages, Poisson, 7)) {
		t.Error("one seed gave two plans")
	}
	if slices.Equal(arrivals(stages, Poisson, 7), arrivals(stages, Poisson, 8)) {
		t.Error("two seeds gave one plan")
	}
}

// The gaps of Poisson arrivals are exponential: their standard deviation equals
// their mean.
func TestPoissonGapsAreExponential(t *testing.T) {
	all := arrivals([]Stage{{From: 20000, To: 20000, Duration: 5 * time.Second}}, Poisson, 9)
	var sum, squares float64
	for i := 1; i < len(all); i++ {
		gap := float64(all[i].at - all[i-1].at)
		sum += gap
		squares += gap * gap
	}
	n := float64(len(all) - 1)
	mean := sum / n
	if ratio := math.Sqrt(squares/n-mean*mean) / mean; math.Abs(ratio-1) > 0.02 {
		t.Errorf("seed 9: deviation over mean of the gaps is %.3f, not 1", ratio)
	}
}
