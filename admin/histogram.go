package admin

import (
	"math"
	"math/bits"
	"time"
)

// maxBounds is the most upper bounds a histogram has; one more bucket takes
// what lies above them all.
const maxBounds = 16

// bounds are the upper bounds of a histogram's buckets, inclusive, ascending.
type bounds struct {
	upper []time.Duration
	// first is, by the bit length of a value, the first bucket that such a
	// value can fall into: a lookup then needs one or two comparisons.
	first [65]uint8
}

// newBounds takes the bounds in seconds.
func newBounds(seconds ...float64) *bounds {
	upper := make([]time.Duration, len(seconds))
	for i, s := range seconds {
		upper[i] = time.Duration(math.Round(s * float64(time.Second)))
	}
	if len(upper) > maxBounds {
		panic("admin: more histogram bounds than a histogram has buckets for")
	}
	b := &bounds{upper: upper}
	for n := 1; n <= 63; n++ {
		smallest := time.Duration(1) << (n - 1)
		i := 0
		for i < len(upper) && upper[i] < smallest {
			i++
		}
		b.first[n] = uint8(i)
	}
	b.first[64] = uint8(len(upper))
	return b
}

// index is the bucket of d. Negative durations count as zero.
func (b *bounds) index(d time.Duration) int {
	d = max(d, 0)
	i := int(b.first[bits.Len64(uint64(d))])
	for i < len(b.upper) && d > b.upper[i] {
		i++
	}
	return i
}

// Requests take from half a millisecond up; what the gateway itself adds
// should be far below that; promises are whole seconds.
var (
	requestBounds  = newBounds(.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60)
	overheadBounds = newBounds(1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, .001, .002, .005, .01, .05, .2, 1)
	retryBounds    = newBounds(1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)
)

// histogram counts durations. The zero value is empty; the bounds are those of
// the metric it belongs to. Its owner guards it.
type histogram struct {
	buckets [maxBounds + 1]uint64
	sum     time.Duration
}

func (h *histogram) add(b *bounds, d time.Duration) {
	h.buckets[b.index(d)]++
	h.sum += max(d, 0)
}

func (h *histogram) merge(o *histogram) {
	for i, n := range o.buckets {
		h.buckets[i] += n
	}
	h.sum += o.sum
}

// minus is what h counted since before.
func (h *histogram) minus(before *histogram) histogram {
	d := *h
	for i, n := range before.buckets {
		d.buckets[i] -= n
	}
	d.sum -= before.sum
	return d
}

func (h *histogram) count() (n uint64) {
	for _, b := range h.buckets {
		n += b
	}
	return n
}

// quantile estimates the q-quantile by interpolating linearly inside its
// bucket, as Prometheus does. Values above the last bound count as that bound.
// It returns false where nothing was counted.
func (h *histogram) quantile(b *bounds, q float64) (time.Duration, bool) {
	total := h.count()
	if total == 0 {
		return 0, false
	}
	rank := q * float64(total)
	var below float64
	for i, n := range h.buckets[:len(b.upper)] {
		if n > 0 && below+float64(n) >= rank {
			lower := time.Duration(0)
			if i > 0 {
				lower = b.upper[i-1]
			}
			return lower + time.Duration((rank-below)/float64(n)*float64(b.upper[i]-lower)), true
		}
		below += float64(n)
	}
	return b.upper[len(b.upper)-1], true
}

// cumulative is the form Prometheus wants: how many lie at or below each upper
// bound, in seconds.
func (h *histogram) cumulative(b *bounds) map[float64]uint64 {
	m := make(map[float64]uint64, len(b.upper))
	var n uint64
	for i, upper := range b.upper {
		n += h.buckets[i]
		m[upper.Seconds()] = n
	}
	return m
}
