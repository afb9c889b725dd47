package shedding

import (
	"sync"
	"sync/atomic"
)

// memory is a bounded map from ids to spans of time, in seconds of Unix
// time. Entries lapse by themselves. It never drops an entry that has not
// lapsed: where there is no room it declines, since a promise forgotten is a
// promise broken, and a use forgotten is a ticket used twice. It is safe for
// concurrent use.
type memory struct {
	shards [memoryShards]memoryShard
	seed   uint64
	lapse  atomic.Uint32 // when the last entry does
}

const (
	memoryShards = 16
	memoryWays   = 8 // entries that an id may be in
)

type memoryShard struct {
	mu      sync.Mutex
	entries []span // in sets of memoryWays
}

// span is one entry; the zero value is free.
type span struct {
	id    uint64 // what it is found by
	value uint64
	from  uint32
	until uint32
}

func newMemory(entries int, seed uint64) *memory {
	sets := max(1, (entries+memoryShards*memoryWays-1)/(memoryShards*memoryWays))
	m := &memory{seed: seed}
	for i := range m.shards {
		m.shards[i].entries = make([]span, sets*memoryWays)
	}
	return m
}

func (m *memory) set(id uint64) (*memoryShard, []span) {
	h := mix(id ^ m.seed)
	s := &m.shards[h%memoryShards]
	sets := uint64(len(s.entries) / memoryWays)
	i := (h >> 4) % sets * memoryWays
	return s, s.entries[i : i+memoryWays]
}

// put enters e and reports whether it did. Without replace, an entry of that
// id that is there already stays.
func (m *memory) put(e span, now uint32, replace bool) bool {
	s, set := m.set(e.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	at := -1
	for i := range set {
		if set[i].until <= now {
			if at < 0 {
				at = i
			}
		} else if set[i].id == e.id {
			if !replace {
				return false
			}
			at = i
			break
		}
	}
	if at < 0 {
		return false
	}
	set[at] = e
	for {
		last := m.lapse.Load()
		if e.until <= last || m.lapse.CompareAndSwap(last, e.until) {
			return true
		}
	}
}

// empty reports whether every entry has lapsed.
func (m *memory) empty(now uint32) bool { return m.lapse.Load() <= now }

// get returns the entry of that id, if it has not lapsed.
func (m *memory) get(id uint64, now uint32) (span, bool) {
	s, set := m.set(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range set {
		if set[i].id == id && set[i].until > now {
			return set[i], true
		}
	}
	return span{}, false
}

// remove frees the entry of that id.
func (m *memory) remove(id uint64) {
	s, set := m.set(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range set {
		if set[i].id == id {
			set[i] = span{}
		}
	}
}

// mix spreads the bits of x: the finaliser of SplitMix64 (Steele, Lea and
// Flood, "Fast splittable pseudorandom number generators", 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
