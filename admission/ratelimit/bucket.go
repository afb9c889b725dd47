package ratelimit

import (
	"time"

	"golang.org/x/time/rate"
)

// bucket is one tenant's tokens at one limit. It is guarded by the part of the
// table that it is in.
//
// It moves as a rate.Limiter would, with its arithmetic and to the bit, which a
// test holds; but it takes one cache line without a pointer in place of 96 bytes
// behind one, so that a table is a plain array: a tenant that has not asked for
// long costs one wait for memory instead of four, and the garbage collector does
// not look.
//
// Times are nanoseconds since the gate's base. The zero value is a free place in
// a table.
type bucket struct {
	tenant uint64 // hash that it is found by; 0: free
	tokens float64
	latest int64 // when it held so many; never goes back, or time would be credited twice
	rate   rate.Limit
	burst  int64

	// dueLow and dueHigh are the time, in microseconds, at which the last
	// refused request was told to come back.
	dueLow  uint32
	dueHigh uint16

	touched bool // used since the table last considered dropping it
	kept    bool // of a tenant with an override: never dropped

	_ [cacheLine - 48]byte
}

const cacheLine = 64

// newBucket makes a full bucket of q.
func newBucket(tenant uint64, at int64, q Quota) bucket {
	return bucket{tenant: tenant, tokens: float64(q.Burst), latest: at, rate: q.Rate, burst: int64(q.Burst)}
}

// has reports whether b is one of q.
func (b *bucket) has(q Quota) bool { return b.rate == q.Rate && b.burst == int64(q.Burst) }

// at returns the time that b is asked at: now, or its own where that is later.
func (b *bucket) at(now int64) int64 { return max(b.latest, now) }

// tokensAt returns what b holds at a time that is not before its latest.
func (b *bucket) tokensAt(at int64) float64 {
	tokens := b.tokens
	if b.rate > 0 {
		tokens += time.Duration(at-b.latest).Seconds() * float64(b.rate)
	}
	return min(tokens, float64(b.burst))
}

// take takes cost of the tokens that b holds at a time, if they are there. What
// takes less than a nanosecond to come counts as there: times are no finer.
func (b *bucket) take(at int64, tokens, cost float64) bool {
	left := tokens - cost
	if left < 0 && !(b.rate > 0 && -left/float64(b.rate)*float64(time.Second) < 1) {
		return false
	}
	b.tokens, b.latest = left, at
	return true
}

// credit puts tokens back.
func (b *bucket) credit(now int64, tokens float64) {
	at := b.at(now)
	b.tokens, b.latest = min(b.tokensAt(at)+tokens, float64(b.burst)), at
}

// giveBack credits tokens that were taken from b when it was of quota q: what
// they were worth then.
func (b *bucket) giveBack(now int64, tokens float64, q Quota) {
	if b.burst != int64(q.Burst) {
		tokens *= float64(b.burst) / float64(q.Burst)
	}
	b.credit(now, tokens)
}

// adopt brings b to quota q, which has been in force since the given time.
func (b *bucket) adopt(now, since int64, q Quota) {
	if b.has(q) {
		return
	}
	at := b.changed(now, since)
	b.tokens = b.share(at, q)
	b.latest, b.rate, b.burst = at, q.Rate, int64(q.Burst)
}

// changed returns up to when b refilled at its old rate: what came after the
// policy changed was earned at the new one.
func (b *bucket) changed(now, since int64) int64 { return max(b.latest, min(since, now)) }

// share returns the level of b carried over to quota q: the same share of the
// burst.
func (b *bucket) share(at int64, q Quota) float64 {
	tokens := b.tokensAt(at)
	switch {
	case b.burst == int64(q.Burst):
		return tokens
	case b.burst <= 0: // it held all it could
		return float64(q.Burst)
	default:
		return tokens / float64(b.burst) * float64(q.Burst)
	}
}

// level returns the level that b would have at now once it is of quota q.
func (b *bucket) level(now, since int64, q Quota) float64 {
	would := *b
	would.adopt(now, since, q)
	return would.tokensAt(would.at(now))
}

// full reports whether b holds all it can at the given time, so that a new
// bucket could take its place.
func (b *bucket) full(now int64) bool {
	return b.tokensAt(b.at(now)) >= float64(b.burst)
}

// due returns the time at which the last refused request was told to come back.
func (b *bucket) due() int64 {
	return (int64(b.dueHigh)<<32 | int64(b.dueLow)) * int64(time.Microsecond)
}

func (b *bucket) setDue(at int64) {
	us := (at + int64(time.Microsecond) - 1) / int64(time.Microsecond)
	b.dueLow, b.dueHigh = uint32(us), uint16(us>>32)
}
