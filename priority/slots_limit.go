package priority

import (
	"math"
	"time"
)

// limiter learns how many requests the origin can take at a time, from
// latency: while more requests make each slower, they queue inside the origin,
// where they do no good.
//
// At the end of a window of requests, the mean latency is compared with the
// lowest that recent windows have seen, the way Brakmo, O'Malley and Peterson
// compare round-trip times in "TCP Vegas: new techniques for congestion
// detection and avoidance" (1994), and the limit follows the gradient:
//
//	limit <- limit * clamp(tolerance * lowest / mean, 1/2, 1) + sqrt(limit)
//
// smoothed. The square root is the queue that is allowed, and the way up. The
// limit rises only while it is made use of, so that a quiet time teaches
// nothing. What counts as lowest is forgotten after a while, so that an origin
// that has become slower for good is not held to its past.
type limiter struct {
	max   float64
	value float64

	sum   float64
	n     int
	peak  int // most slots used in this window
	began time.Time

	lowest, upcoming float64 // of this span and the one before; of this span
	span             time.Time
}

const (
	windowRequests = 30
	windowTime     = 250 * time.Millisecond
	lowestSpan     = time.Minute
	tolerance      = 1.5
	smoothing      = 0.2
)

func newLimiter(most int) *limiter {
	return &limiter{max: float64(most), value: min(20, float64(most)), lowest: math.Inf(1), upcoming: math.Inf(1)}
}

func (l *limiter) limit() int { return max(1, int(min(l.value, l.max))) }

// observe takes in that a request which ended at now took so many seconds.
func (l *limiter) observe(now time.Time, took float64) {
	if l.n == 0 && l.began.IsZero() {
		l.began, l.span = now, now
	}
	l.sum += took
	l.n++
	if l.n < windowRequests || now.Sub(l.began) < windowTime {
		return
	}
	mean, peak := l.sum/float64(l.n), l.peak
	l.sum, l.n, l.peak, l.began = 0, 0, 0, now
	if now.Sub(l.span) > lowestSpan {
		l.lowest, l.upcoming, l.span = l.upcoming, math.Inf(1), now
	}
	l.lowest, l.upcoming = min(l.lowest, mean), min(l.upcoming, mean)

	gradient := min(max(tolerance*l.lowest/max(mean, 1e-9), 0.5), 1)
	target := l.value*gradient + math.Sqrt(l.value)
	if target > l.value && float64(peak) < l.value/2 {
		return
	}
	l.value = min(max(l.value+smoothing*(target-l.value), 1), l.max)
}
