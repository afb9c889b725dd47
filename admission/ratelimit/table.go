package ratelimit

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	stripeBits = 6
	stripes    = 1 << stripeBits

	// tries bounds the search for a bucket to drop.
	tries = 8
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
// The order within a part is that of a clock: a bucket that is looked up is
// only marked, and the search for a victim passes over marked ones once. That
// costs a hit no list operation, and names seen once go before tenants that
// come back.
type table struct {
	parts    [stripes]*simplelru.LRU[string, *bucket]
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
		part, err := simplelru.NewLRU[string, *bucket](math.MaxInt, nil)
		if err != nil {
			panic(err) // the size is positive
		}
		t.parts[i] = part
	}
	return t
}

// get returns the bucket of a tenant without one of its own in the overrides;
// the overflow bucket where there is neither one nor room for one. It requires
// stripe i.
func (t *table) get(base time.Time, now int64, tenant string, i uint8, q Quota, most int64) *bucket {
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
	t.parts[i].Add(strings.Clone(tenant), b)
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
	victim, found := "", false
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

// put stores a tenant's bucket whether or not there is room. It requires stripe
// i.
func (t *table) put(tenant string, i uint8, b *bucket) {
	if !t.parts[i].Contains(tenant) {
		t.live.Add(1)
	}
	t.parts[i].Add(tenant, b)
}
