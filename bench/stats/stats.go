// Package stats compares paired measurements: the median of the differences or
// ratios within pairs, with an interval that says how sure it is. Pairs are
// measured one right after the other, so that what drifts on a machine drifts
// out of the figures.
package stats

import (
	"math/rand/v2"
	"slices"
)

// Estimate is a figure and the interval that holds it in 95 of 100 repetitions.
type Estimate struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Median of xs; 0 of none. xs is left as it is.
func Median(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	return sortedMedian(slices.Clone(xs))
}

// sortedMedian sorts s, of at least one, and returns its median.
func sortedMedian(s []float64) float64 {
	slices.Sort(s)
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// resamples of a bootstrap.
const resamples = 2000

// Bootstrap estimates the median of xs, with the 95% percentile interval of the
// medians of resamples drawn from seed.
func Bootstrap(xs []float64, seed uint64) Estimate {
	e := Estimate{Value: Median(xs)}
	if len(xs) == 0 {
		return e
	}
	r := rand.New(rand.NewPCG(seed, 50))
	medians := make([]float64, resamples)
	draw := make([]float64, len(xs))
	for i := range medians {
		for j := range draw {
			draw[j] = xs[r.IntN(len(xs))]
		}
		medians[i] = sortedMedian(draw)
	}
	slices.Sort(medians)
	e.Low, e.High = medians[resamples*25/1000], medians[resamples*975/1000-1]
	return e
}

// Differences b−a of pairs.
func Differences(a, b []float64) []float64 {
	return pairs(a, b, func(x, y float64) float64 { return y - x })
}

// Ratios b÷a of pairs; pairs with a of 0 are left out.
func Ratios(a, b []float64) []float64 {
	var out []float64
	for i := range min(len(a), len(b)) {
		if a[i] != 0 {
			out = append(out, b[i]/a[i])
		}
	}
	return out
}

func pairs(a, b []float64, f func(x, y float64) float64) []float64 {
	out := make([]float64, min(len(a), len(b)))
	for i := range out {
		out[i] = f(a[i], b[i])
	}
	return out
}
