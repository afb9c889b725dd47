package idempotency

import (
	"container/heap"
	"encoding/binary"
	"hash/maphash"
	"sync"
	"time"
)

const memoryShards = 32

var memorySeed = maphash.MakeSeed()

func (m *Memory) shard(name string) *memoryShard {
	return &m.shards[maphash.String(memorySeed, name)%memoryShards]
}

// memoryShard is the part of the records whose names hash to it. All its
// methods need mu.
type memoryShard struct {
	mu      sync.Mutex
	entries map[string]*entry
	expiry  expiryHeap
	// Completed records, oldest first, as a ring around answered: those whose
	// bodies can go.
	answered entry
}

type entry struct {
	name    string
	value   []byte
	expires time.Time
	at      int // in expiry

	prev, next *entry // in answered; nil for others
}

// entryOverhead is roughly what an entry costs besides name and value: map
// slot, heap slot and the entry itself, in bytes.
const entryOverhead = 176

func entrySize(name string, value []byte) int64 {
	return int64(len(name) + len(value) + entryOverhead)
}

// stateOf returns the state of the record in value, Absent if it holds none.
func stateOf(value []byte) State {
	if len(value) < headSize {
		return Absent
	}
	return State(value[atState])
}

func retentionOf(value []byte) time.Duration {
	return time.Duration(binary.BigEndian.Uint64(value[atKept:])) * time.Millisecond
}

// put stores value and returns by how much the shard has grown.
func (s *memoryShard) put(name string, value []byte, expires time.Time) (grown int64) {
	e := s.entries[name]
	if e == nil {
		e = &entry{name: name, value: value, expires: expires}
		s.entries[name] = e
		heap.Push(&s.expiry, e)
		grown = entrySize(name, value)
	} else {
		grown = int64(len(value) - len(e.value))
		e.value, e.expires = value, expires
		heap.Fix(&s.expiry, e.at)
	}
	s.unlink(e)
	if stateOf(value) == Completed {
		s.link(e)
	}
	return grown
}

// remove drops e and returns how much that frees.
func (s *memoryShard) remove(e *entry) (freed int64) {
	delete(s.entries, e.name)
	heap.Remove(&s.expiry, e.at)
	s.unlink(e)
	return entrySize(e.name, e.value)
}

// expire drops up to most records whose retention is over.
func (s *memoryShard) expire(now time.Time, most int) (freed int64) {
	for ; most > 0 && len(s.expiry) > 0 && !now.Before(s.expiry[0].expires); most-- {
		freed += s.remove(s.expiry[0])
	}
	return freed
}

// shrinkOldest takes the body of the record answered longest ago. The journal
// need not know: what it holds is right too, and shrinks again when loaded.
func (s *memoryShard) shrinkOldest(c *Codec) (freed int64) {
	for e := s.answered.next; e != nil && e != &s.answered; e = s.answered.next {
		s.unlink(e)
		r, err := c.decode(e.name, e.value)
		if err != nil || len(r.Answer.Body) == 0 {
			continue // nothing to take
		}
		value := c.encode(e.name, bodiless(r))
		freed = int64(len(e.value) - len(value))
		e.value = value
		return freed
	}
	return 0
}

func (s *memoryShard) link(e *entry) {
	ring := &s.answered
	if ring.next == nil {
		ring.next, ring.prev = ring, ring
	}
	e.prev, e.next = ring.prev, ring
	e.prev.next, e.next.prev = e, e
}

func (s *memoryShard) unlink(e *entry) {
	if e.next == nil {
		return
	}
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = nil, nil
}

// expiryHeap has the entry that expires first in front.
type expiryHeap []*entry

func (h expiryHeap) Len() int           { return len(h) }
func (h expiryHeap) Less(i, j int) bool { return h[i].expires.Before(h[j].expires) }
func (h expiryHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}
func (h *expiryHeap) Push(x any) {
	e := x.(*entry)
	e.at = len(*h)
	*h = append(*h, e)
}
func (h *expiryHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return e
}
