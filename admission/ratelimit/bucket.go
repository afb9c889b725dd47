package ratelimit

import (
	"math"
	"time"

	"golang.org/x/time/rate"
)

// bucket is one tenant's tokens at one limit. It is guarded by the stripe that
// it names. Its size is part of what a tenant costs: 96 bytes is a size class
// of the allocator, one byte more would cost 16.
//
// Times are nanoseconds since the gate's base.
type bucket struct {
	lim rate.Limiter

	// latest is the latest time this bucket was used at. The limiter takes
	// whatever time it is given as its last one, so time going backwards and
	// on again would be credited twice; it is only ever given max(now, latest).
	latest int64

	// dueLow and dueHigh are the time, in microseconds, at which the last
	// refused request was told to come back.
	dueLow  uint32
	dueHigh uint16

	stripe  uint8
	touched bool // used since the table last considered dropping it
}

// newBucket makes a full bucket of q.
func newBucket(stripe uint8, base time.Time, at int64, q Quota) *bucket {
	b := &bucket{stripe: stripe, latest: at}
	b.set(base.Add(time.Duration(at)), q, float64(q.Burst))
	return b
}

// advance moves b to now, or leaves it where it is if that is later, and
// returns its time.
func (b *bucket) advance(now int64) int64 {
	b.latest = max(b.latest, now)
	return b.latest
}

// adopt brings b to quota q, which has been in force since the given time. It
// comes before advance.
func (b *bucket) adopt(base time.Time, now, since int64, q Quota) {
	if b.lim.Burst() == q.Burst && b.lim.Limit() == q.Rate {
		return
	}
	t := base.Add(time.Duration(b.changed(now, since)))
	b.set(t, q, b.share(t, q))
}

// changed returns up to when b refilled at its old rate: what came after the
// policy changed was earned at the new one.
func (b *bucket) changed(now, since int64) int64 { return max(b.latest, min(since, now)) }

// share returns the level of b carried over to quota q: the same share of the
// burst.
func (b *bucket) share(t time.Time, q Quota) float64 {
	tokens := b.lim.TokensAt(t)
	switch burst := b.lim.Burst(); {
	case burst == q.Burst:
		return tokens
	case burst <= 0: // it held all it could
		return float64(q.Burst)
	default:
		return tokens / float64(burst) * float64(q.Burst)
	}
}

// level returns the level that b would have after adopt and advance.
func (b *bucket) level(base time.Time, now, since int64, q Quota) float64 {
	at := max(b.latest, now)
	if b.lim.Burst() == q.Burst && b.lim.Limit() == q.Rate {
		return b.lim.TokensAt(base.Add(time.Duration(at)))
	}
	from := b.changed(now, since)
	tokens := b.share(base.Add(time.Duration(from)), q)
	tokens += float64(q.Rate) * time.Duration(at-from).Seconds()
	return min(tokens, float64(q.Burst))
}

// set gives b a quota and a level. A limiter has no way to set its level, so
// this takes or credits the difference: its whole part in tokens, the rest as
// time.
func (b *bucket) set(t time.Time, q Quota, tokens float64) {
	b.lim.SetLimitAt(t, q.Rate)
	b.lim.SetBurstAt(t, q.Burst)
	have := b.lim.TokensAt(t)
	n := math.Ceil(have - tokens)
	b.lim.ReserveN(t, int(n)) // AllowN would not go below zero for the moment
	b.early(t, tokens-(have-n))
}

// credit puts tokens back.
func (b *bucket) credit(t time.Time, tokens float64) {
	n := math.Floor(tokens)
	// A negative count adds tokens exactly, whatever has been taken meanwhile.
	// Reservation.CancelAt does not: it withholds as many as it believes to
	// have been taken since. The limiter caps the level when it next reads it.
	b.lim.AllowN(t, -int(n))
	b.early(t, tokens-n)
}

// early credits less than one token by making the limiter believe that it was
// last used a little earlier.
func (b *bucket) early(t time.Time, tokens float64) {
	limit := b.lim.Limit()
	if tokens <= 0 || limit <= 0 {
		return
	}
	b.lim.SetLimitAt(t.Add(-time.Duration(tokens/float64(limit)*float64(time.Second))), limit)
}

// full reports whether b holds all it can at the given time, so that a new
// bucket could take its place.
func (b *bucket) full(base time.Time, now int64) bool {
	at := max(now, b.latest)
	return b.lim.TokensAt(base.Add(time.Duration(at))) >= float64(b.lim.Burst())
}

// due returns the time at which the last refused request was told to come back.
func (b *bucket) due() int64 {
	return (int64(b.dueHigh)<<32 | int64(b.dueLow)) * int64(time.Microsecond)
}

func (b *bucket) setDue(at int64) {
	us := (at + int64(time.Microsecond) - 1) / int64(time.Microsecond)
	b.dueLow, b.dueHigh = uint32(us), uint16(us>>32)
}
