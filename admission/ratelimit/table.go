package ratelimit

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"

	"sluice/internal/hugepage"
)

const (
	partBits = 6
	parts    = 1 << partBits

	// tries bounds the search for a bucket to drop, and steps the places that
	// it looks at.
	tries = 4
	steps = 64
)

// table holds the buckets of one limit. It survives reloads.
//
// Buckets are kept by the seeded 64-bit hash of the tenant's name instead of
// the name. So what a tenant takes does not depend on how long its name is, and
// a look-up touches one cache line less. Two of a million tenants have the same
// hash, and then share a bucket, in one of 37 million processes; since the seed
// is secret nobody can bring that about.
//
// A bucket that is looked up is only marked, and the search for a victim passes
// over marked ones once: a clock, in place of a list in order of use. That
// costs a hit nothing but its own cache line, and names seen once go before
// tenants that come back.
type table struct {
	parts [parts]part

	live atomic.Int64 // buckets that can be dropped
	kept atomic.Int64 // the others

	shared   sync.Mutex // guards overflow
	overflow bucket

	overflowed, dropped atomic.Uint64
}

// part is the buckets of some tenants: an array with open addressing, in which
// each bucket stands in the place that its hash says or, where others are, in
// one of the next. At most three of four places are taken.
//
// Its size is that of two cache lines, so that neighbours keep off each other's.
type part struct {
	sync.Mutex
	places []bucket // a power of two of them, or none
	taken  int
	hand   int // where the next search for a victim begins

	// where is the address of places and, in the bits that are zero in it since
	// a bucket is a cache line, the binary logarithm of how many there are: for
	// first, which holds no lock.
	where atomic.Uint64

	memory *hugepage.Memory // that places is in

	_ [2*cacheLine - 64]byte
}

// leastPlaces is how many a part that has a bucket has at least.
const leastPlaces = 8

func newTable(at int64, q Quota) *table {
	if q.Unlimited() {
		q = Quota{} // not asked for a token until a reload gives it another
	}
	return &table{overflow: newBucket(0, at, q)}
}

// part returns where a tenant's bucket is. It uses the high bits of the hash,
// places and the spread over tenants the low ones.
func (t *table) part(tenant uint64) *part { return &t.parts[tenant>>(64-partBits)] }

// first is the address of the place in which a tenant's bucket is looked for first;
// 0 where there is none. It requires no lock, and may be out of date.
func (p *part) first(tenant uint64) uintptr {
	where := p.where.Load()
	if where == 0 {
		return 0
	}
	places := uint64(1) << (where % cacheLine)
	return uintptr(where&^(cacheLine-1) + tenant&(places-1)*cacheLine)
}

// find returns the bucket of a tenant; nil if it has none.
func (p *part) find(tenant uint64) *bucket {
	if len(p.places) == 0 {
		return nil
	}
	for i := tenant; ; i++ {
		b := &p.places[i&uint64(len(p.places)-1)]
		if b.tenant == tenant {
			return b
		}
		if b.tenant == 0 {
			return nil
		}
	}
}

// add adds the bucket of a tenant that has none, and returns where it stands
// until the part changes.
func (p *part) add(b bucket) *bucket {
	if 4*(p.taken+1) > 3*len(p.places) {
		p.grow()
	}
	p.taken++
	return p.put(b)
}

func (p *part) put(b bucket) *bucket {
	for i := b.tenant; ; i++ {
		place := &p.places[i&uint64(len(p.places)-1)]
		if place.tenant == 0 {
			*place = b
			return place
		}
	}
}

func (p *part) grow() {
	old, memory := p.places, p.memory
	p.places, p.memory = hugepage.Make[bucket](max(2*len(old), leastPlaces))
	first := uint64(uintptr(unsafe.Pointer(&p.places[0])))
	p.where.Store(first&^(cacheLine-1) | uint64(bits.TrailingZeros(uint(len(p.places)))))
	p.hand = 0
	for i := range old {
		if old[i].tenant != 0 {
			p.put(old[i])
		}
	}
	memory.Free()
}

// remove frees place i, and moves those up that stand behind it because it was
// taken.
func (p *part) remove(i int) {
	p.taken--
	mask := len(p.places) - 1
	for j := i; ; {
		j = (j + 1) & mask
		b := &p.places[j]
		if b.tenant == 0 {
			break
		}
		away := (j - int(b.tenant)) & mask // from the place that its hash says
		if away >= (j-i)&mask {
			p.places[i] = *b
			i = j
		}
	}
	p.places[i] = bucket{}
}

// drop drops a full bucket, if it finds one among the next few.
func (p *part) drop(now int64) bool {
	mask := len(p.places) - 1
	victim := -1
	for seen, step := 0, 0; seen < tries && step < min(steps, len(p.places)); step++ {
		i := p.hand
		p.hand = (i + 1) & mask
		b := &p.places[i]
		if b.tenant == 0 || b.kept {
			continue
		}
		seen++
		full := b.full(now)
		if full && (victim < 0 || !b.touched) {
			victim = i
		}
		if full && !b.touched {
			break
		}
		b.touched = false
	}
	if victim < 0 {
		return false
	}
	p.remove(victim)
	return true
}

// get returns the bucket of a tenant without an override, a new one of quota q
// if need be; nil where there is neither one nor room for one. It requires the
// lock of p, the tenant's part.
func (t *table) get(p *part, now int64, tenant uint64, q Quota, most int64) *bucket {
	if b := p.find(tenant); b != nil {
		b.touched = true
		return b
	}
	if !t.room(most) {
		// One drop makes room, two also shrink a table whose bound was lowered.
		if !(t.drop(p, now) && (t.room(most) || t.drop(p, now) && t.room(most))) {
			t.overflowed.Add(1)
			return nil
		}
	}
	return p.add(newBucket(tenant, now, q))
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

func (t *table) drop(p *part, now int64) bool {
	if !p.drop(now) {
		return false
	}
	t.live.Add(-1)
	t.dropped.Add(1)
	return true
}

// keep makes a tenant's bucket one that is never dropped, or one like the others
// again, whether or not there is room. It reports whether the tenant has a
// bucket, and whether it was kept before.
func (t *table) keep(tenant uint64, keep bool) (found, before bool) {
	p := t.part(tenant)
	p.Lock()
	defer p.Unlock()
	b := p.find(tenant)
	if b == nil {
		return false, false
	}
	before = b.kept
	if before != keep {
		b.kept = keep
		n := int64(1)
		if !keep {
			n = -1
		}
		t.kept.Add(n)
		t.live.Add(-n)
	}
	return true, before
}

// addKept adds the bucket of a tenant with an override, if it has none yet.
func (t *table) addKept(b bucket) {
	p := t.part(b.tenant)
	p.Lock()
	defer p.Unlock()
	if p.find(b.tenant) == nil {
		b.kept = true
		p.add(b)
		t.kept.Add(1)
	}
}
