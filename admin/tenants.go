package admin

import (
	"hash/maphash"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Tenants without a label of their own.
const (
	slotOther        = 0 // label "other"
	slotUnidentified = 1 // label "unidentified": the request named no tenant
	firstTenantSlot  = 2
)

const (
	labelOther        = "other"
	labelUnidentified = "unidentified"
)

// How often the busiest tenants are reconsidered, at most, and how long one
// that is no longer among them keeps its label at least.
const (
	rankEvery = 10 * time.Second
	keepLabel = 5 * time.Minute
)

// tenants decides which tenants have a label of their own. A label is a slot:
// counts are kept by slot, exactly, from when the tenant got it. Fixed tenants
// have theirs for good. Of the others the first k met get one on sight; from
// then on one is given to whoever is among the k busiest, taking the place of
// a tenant that has not been for a while. There are 3k such slots, so a flood
// of made-up names neither grows anything nor drives the busy out.
type tenants struct {
	mu      sync.Mutex // held to change who has which slot
	table   atomic.Pointer[tenantTable]
	holder  []holder // by slot
	fixed   int      // slots of fixed tenants, after the special ones
	k       int
	onSight atomic.Int32 // slots still to be given away on sight
	ranked  time.Time
	busiest []Busy
}

type holder struct {
	name string // "": free
	hash uint64
	busy time.Time // when it was last among the busiest
}

// Busy is one of the busiest tenants.
type Busy struct {
	Tenant string `json:"tenant"`
	// Share of recent decisions that are certainly this tenant's, 0 to 1.
	Share float64 `json:"share"`
}

// tenantTable maps hashes to slots: open addressing, at most half full,
// replaced as a whole. A zero slot is an empty place.
type tenantTable struct {
	hashes []uint64
	slots  []uint16
}

func (t *tenants) init(seed maphash.Seed, fixed []string, k int) {
	if k == 0 {
		k = 20
	}
	k = max(k, 0)
	fixed = slices.Compact(slices.Sorted(slices.Values(fixed)))
	fixed = slices.DeleteFunc(fixed, func(name string) bool { return name == "" || name == labelOther || name == labelUnidentified })
	t.k, t.fixed = k, len(fixed)
	t.holder = make([]holder, firstTenantSlot+len(fixed)+3*k)
	t.holder[slotOther].name = labelOther
	t.holder[slotUnidentified] = holder{name: labelUnidentified, hash: maphash.String(seed, "")}
	for i, name := range fixed {
		t.holder[firstTenantSlot+i] = holder{name: tenantLabel(name), hash: maphash.String(seed, name)}
	}
	t.onSight.Store(int32(k))
	t.publishLocked()
}

func (t *tenants) slots() int { return len(t.holder) }

// slot returns the slot in which the tenant of that hash is counted. A 64-bit
// seeded hash stands for the name: two tenants sharing one is a miscount once
// in ages, not a security matter. The caller holds a stripe's lock.
func (t *tenants) slot(hash uint64) int {
	table := t.table.Load()
	mask := uint64(len(table.hashes) - 1)
	for i := hash & mask; table.slots[i] != 0; i = (i + 1) & mask {
		if table.hashes[i] == hash {
			return int(table.slots[i])
		}
	}
	return slotOther
}

func (t *tenants) publishLocked() {
	size := 4
	for size < 2*len(t.holder) {
		size *= 2
	}
	table := &tenantTable{hashes: make([]uint64, size), slots: make([]uint16, size)}
	mask := uint64(size - 1)
	for slot, h := range t.holder {
		if slot == slotOther || h.name == "" {
			continue
		}
		i := h.hash & mask
		for table.slots[i] != 0 {
			i = (i + 1) & mask
		}
		table.hashes[i], table.slots[i] = h.hash, uint16(slot)
	}
	t.table.Store(table)
}

func (t *tenants) roomOnSight() bool { return t.onSight.Load() > 0 }

// addOnSight gives a slot that has never been used to a tenant just met.
func (t *tenants) addOnSight(hash uint64, name string) {
	if t.slot(hash) != slotOther || reservedTenant(name) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.roomOnSight() || t.slot(hash) != slotOther {
		return
	}
	for slot := firstTenantSlot + t.fixed; slot < len(t.holder); slot++ {
		if t.holder[slot].name == "" {
			t.holder[slot] = holder{name: tenantLabel(shortName(name)), hash: hash}
			t.onSight.Add(-1)
			t.publishLocked()
			return
		}
	}
}

// rank reconsiders who is busiest, if it is time to.
func (t *tenants) rank(now time.Time, stripes []*stripe) []Busy {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ranked.IsZero() && now.Sub(t.ranked) < rankEvery {
		return t.busiest
	}
	t.ranked = now
	if t.k == 0 {
		return nil
	}

	ranked, total := mergeSketches(stripes)
	// Where more compete than there are slots, only who stands out gets one:
	// among equals, which ones were shown would be chance, and change.
	floor := uint64(1)
	if len(ranked) > t.k {
		floor = max(1, total/uint64(10*t.k))
	}
	top := ranked[:min(len(ranked), t.k)]
	t.busiest = nil
	var freed []int
	var newcomers []sketched
	for _, w := range top {
		if w.count < floor {
			break
		}
		t.busiest = append(t.busiest, Busy{tenantLabel(w.name), float64(w.count) / float64(total)})
		if slot := t.slot(w.hash); slot != slotOther {
			t.holder[slot].busy = now
		} else if !reservedTenant(w.name) {
			newcomers = append(newcomers, w)
		}
	}
	for range newcomers {
		if slot, ok := t.freeableLocked(now, freed); ok {
			freed = append(freed, slot)
		}
	}
	if len(freed) == 0 {
		return t.busiest
	}
	for _, slot := range freed {
		t.holder[slot] = holder{}
	}
	// Slots are read under a stripe's lock. Once every lock has been held
	// after the old table is gone, nobody can still count a former holder.
	t.publishLocked()
	for _, st := range stripes {
		st.mu.Lock()
		for _, slot := range freed {
			st.tenants[slot] = tenantCounts{}
		}
		st.mu.Unlock()
	}
	for i, slot := range freed {
		w := newcomers[i]
		t.holder[slot] = holder{name: tenantLabel(w.name), hash: w.hash, busy: now}
	}
	t.publishLocked()
	return t.busiest
}

// freeableLocked picks a slot to give away that is not yet among freed: one
// never used, or the one whose tenant has not been busy for longest.
func (t *tenants) freeableLocked(now time.Time, freed []int) (slot int, ok bool) {
	oldest := now.Add(-keepLabel)
	for i := firstTenantSlot + t.fixed; i < len(t.holder); i++ {
		h := &t.holder[i]
		switch {
		case slices.Contains(freed, i):
		case h.name == "":
			return i, true
		case h.busy.Before(oldest):
			slot, oldest, ok = i, h.busy, true
		}
	}
	return slot, ok
}

// labels returns the label of each slot; "" for free ones.
func (t *tenants) labels() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	labels := make([]string, len(t.holder))
	for i, h := range t.holder {
		labels[i] = h.name
	}
	return labels
}

// reservedTenant reports names that would be mistaken for our own labels.
func reservedTenant(name string) bool { return name == labelOther || name == labelUnidentified }

// tenantLabel makes a client's bytes safe to show, and different for different
// bytes.
func tenantLabel(name string) string {
	q := strconv.Quote(name)
	return q[1 : len(q)-1]
}
