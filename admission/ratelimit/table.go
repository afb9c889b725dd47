package ratelimit

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	stripeBits = 6
	stripes    = 1 << stripeBits

	// tries bounds the search for a bucket to drop.
	tries = 4
)

// stripe guards the buckets whose tenants hash to it, in every table. The
// padding keeps neighbours off each other's cache lines.
type stripe struct {
	sync.Mutex
	_ [120]byte
}

// table holds the buckets of one limit. It survives reloads. Part i is guarded
// by stripe i.
//
// Buckets are kept by the seeded 64-bit hash of the tenant's name instead of
// the name. So what a tenant takes does not depend on how long its name is, and
// a look-up touches one cache line less. Two of a million tenants have the same
// hash, and then share a bucket, in one of 37 million processes; since the seed
// is secret nobody can bring that about. Overrides go by name.
//
// The order within a part is that of a clock: a bucket that is looked up is
// only marked, and the search for a victim passes over marked ones once. That
// costs a hit no list operation, and names seen once go before tenants that
// come back.
type table struct {
	parts    [stripes]*simplelru.LRU[uint64, *bucket]
	live     atomic.Int64
	overflow *bucket

	overflowed, dropped atomic.Uint64
}

func newTable(base time.Time, at int64, q Quota) *table {
	if q.Unlimited() {
		q = Quota{} // not asked for a token until a reload gives it another
	}
	t := &table{overflow: newBucket(0, base, at, q)}
	for i := range t.parts {
		// The table keeps count itself: the list would drop any bucket.
		part, err := simplelru.NewLRU[uint64, *bucket](math.MaxInt, nil)
		if err != nil {
			panic(err) // the size is positive
		}
		t.parts[i] = part
	}
	return t
}

// get returns the bucket of a tenant without one of its own in the overrides;
// the overflow bucket where there is neither one nor room for one. It requires
// the tenant's stripe.
func (t *table) get(base time.Time, now int64, tenant uint64, q Quota, most int64) *bucket {
	i := stripeOf(tenant)
	if b, ok := t.parts[i].Peek(tenant); ok {
		b.touched = true
		return b
	}
	if !t.room(most) {
		// One drop makes room, two also shrink a table whose bound was lowered.
		dropped := t.drop(base, now, i) && (t.room(most) || t.drop(base, now, i) && t.room(most))
		if !dropped {
			t.overflowed.Add(1)
			return t.overflow
		}
	}
	b := newBucket(i, base, now, q)
	t.parts[i].Add(tenant, b)
	return b
}

// room takes room for one bucket, if there is some.
func (t *table) room(most int64) bool {
	for {
		n := t.live.Load()
		if n >= most {
			return false
		}
		if t.live.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// drop drops a full bucket of part i, if it finds one among the next few. It
// requires stripe i.
func (t *table) drop(base time.Time, now int64, i uint8) bool {
	part := t.parts[i]
	victim, found := uint64(0), false
	for range min(tries, part.Len()) {
		tenant, b, _ := part.GetOldest()
		full := b.full(base, now)
		if full && !found {
			victim, found = tenant, true
		}
		if full && !b.touched {
			victim = tenant
			break
		}
		b.touched = false
		part.Get(tenant) // goes round again
	}
	if found {
		part.Remove(victim)
		t.live.Add(-1)
		t.dropped.Add(1)
	}
	return found
}

// put stores a tenant's bucket whether or not there is room. It requires the
// tenant's stripe.
func (t *table) put(tenant uint64, b *bucket) {
	part := t.parts[stripeOf(tenant)]
	if !part.Contains(tenant) {
		t.live.Add(1)
	}
	part.Add(tenant, b)
}

// stripeOf returns the stripe of a tenant from its hash. It uses the high bits,
// the spread over tenants the low ones.
func stripeOf(tenant uint64) uint8 { return uint8(tenant >> (64 - stripeBits)) }
