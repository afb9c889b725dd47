package admin

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A value lies in the first bucket whose bound is not below it.
func TestBucketOfValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SampledFrom([]*bounds{requestBounds, overheadBounds, retryBounds}).Draw(t, "bounds")
		edge := rapid.SampledFrom(b.upper).Draw(t, "near")
		d := rapid.OneOf(rapid.Int64(), rapid.Int64Range(int64(edge)-2, int64(edge)+2)).Draw(t, "value")
		want := slices.IndexFunc(b.upper, func(u time.Duration) bool { return time.Duration(max(d, 0)) <= u })
		if want < 0 {
			want = len(b.upper)
		}
		if got := b.index(time.Duration(d)); got != want {
			t.Fatalf("value %d is in bucket %d, want %d", d, got, want)
		}
	})
	if got := requestBounds.index(math.MaxInt64); got != len(requestBounds.upper) {
		t.Errorf("the largest value is in bucket %d", got)
	}
}

// An estimated quantile lies in the same bucket as the true one.
func TestQuantile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, int64(50*time.Second)), 1, 200).Draw(t, "values")
		q := rapid.Float64Range(0.01, 1).Draw(t, "q")
		var h histogram
		for _, v := range values {
			h.add(requestBounds, time.Duration(v))
		}
		slices.Sort(values)
		exact := time.Duration(values[int(math.Ceil(q*float64(len(values))))-1])
		got, ok := h.quantile(requestBounds, q)
		// Rounding q*n up or down by a hair may pick a neighbour.
		if i := requestBounds.index(exact); !ok || got > requestBounds.upper[i] || i > 0 && got < requestBounds.upper[i-1] {
			t.Fatalf("the %v-quantile of %v is estimated as %v, is %v", q, values, got, exact)
		}
	})
	var empty histogram
	if _, ok := empty.quantile(requestBounds, .5); ok {
		t.Error("an empty histogram has a median")
	}
}
