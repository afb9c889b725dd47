package ratelimit

import (
	"math"
	"time"
)

const (
	// placeMax bounds what a refused request waits for those refused before it.
	placeMax = 30 * time.Second

	// The spread over tenants: a share of the wait within these bounds.
	spreadMin = time.Second
	spreadMax = 5 * time.Second
	spreadOf  = 4 // the wait is divided by this
)

// never is what until returns for tokens that do not come back.
const never = time.Duration(math.MaxInt64)

// until is how long a bucket of quota q takes to gain so many tokens, rounded
// up, and by so much more that the limiter, whose arithmetic is in floating
// point and rounds on its own, agrees that they are there.
func (q Quota) until(tokens float64) time.Duration {
	if tokens <= 0 {
		return 0
	}
	slack := (float64(q.Burst) + 1) * 0x1p-50
	ns := math.Ceil((tokens+slack)/float64(q.Rate)*float64(time.Second)) + 1
	if !(ns < math.MaxInt64/4) { // also where the rate is zero
		return never
	}
	return time.Duration(ns)
}

// place takes a place among those that b has refused, for a request that could
// have its tokens after wait, and returns by how much longer that makes it wait.
func (b *bucket) place(at int64, wait time.Duration, cost float64, q Quota) time.Duration {
	turn := time.Duration(b.due()-at) + q.until(cost) // the refill of those before, and its own
	place := max(turn-wait, 0)
	// Retry-After is in whole seconds, so those refused in one instant return
	// in bunches, one a second, and find no more than the burst.
	bunched := float64(place) * max(1, float64(q.Rate)/float64(q.Burst))
	if bunched > float64(placeMax) {
		place, bunched = 0, 0
	}
	b.setDue(at + int64(wait+place))
	return time.Duration(bunched)
}

// spread lengthens a wait by a tenant's share, told from its hash.
func spread(wait time.Duration, hash uint64) time.Duration {
	u := float64(uint32(hash)) * 0x1p-32
	return time.Duration(u * float64(min(max(wait/spreadOf, spreadMin), spreadMax)))
}
