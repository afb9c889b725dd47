package ratelimit

import (
	"math"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"
)

// A bucket is a rate.Limiter: given the same quota and asked the same at the
// same times, it admits the same and holds the same, to the last bit.
func TestBucketIsALimiter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := quota(rate.Limit(rapid.OneOf(
			rapid.Just(0.0),
			rapid.Float64Range(1e-6, 1),
			rapid.Float64Range(1, 1e4),
			rapid.Float64Range(1e4, MaxRate),
		).Draw(t, "rate")), rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(1, MaxBurst)).Draw(t, "burst"))
		now := int64(0)
		b, lim := newBucket(1, now, q), rate.NewLimiter(q.Rate, q.Burst)
		clock := func() time.Time { return epoch.Add(time.Duration(b.at(now))) }
		lim.SetLimitAt(clock(), q.Rate) // a new limiter's clock stands at the zero time
		var held []int
		for range rapid.IntRange(1, 100).Draw(t, "operations") {
			now += rapid.OneOf(
				rapid.Int64Range(-int64(time.Second), int64(time.Second)),
				rapid.Int64Range(0, 100),
				rapid.Int64Range(0, int64(24*time.Hour)),
			).Draw(t, "later")
			switch rapid.IntRange(0, 9).Draw(t, "operation") {
			case 0:
				if len(held) > 0 {
					n := held[len(held)-1]
					held = held[:len(held)-1]
					lim.AllowN(clock(), -n)
					b.credit(now, float64(n))
				}
			default:
				// Often as much as there is, or one more.
				at := clock()
				n := min(max(0, int(math.Ceil(lim.TokensAt(at)))+rapid.IntRange(-2, 1).Draw(t, "than is there")), q.Burst)
				if rapid.Bool().Draw(t, "any") {
					n = rapid.IntRange(0, q.Burst).Draw(t, "cost")
				}
				want := lim.AllowN(at, n)
				if got := b.take(b.at(now), b.tokensAt(b.at(now)), float64(n)); got != want {
					t.Fatalf("%d of %v: %v, and a limiter says %v", n, b.tokensAt(b.at(now)), got, want)
				}
				if want {
					held = append(held, n)
				}
			}
			if got, want := b.tokensAt(b.at(now)), lim.TokensAt(clock()); got != want {
				t.Fatalf("holds %v, and a limiter %v", got, want)
			}
		}
	})
}
