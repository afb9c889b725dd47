package idempotency

import (
	"math"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// cache keeps answered records in memory in front of the store, the least
// recently used going first. Such records change only when an operator removes
// one, so they may be replayed from here for as long as the store keeps them.
//
// It is split into shards by record id, so that requests on several processors
// seldom meet. A nil cache keeps nothing.
type cache struct {
	shards [cacheShards]cacheShard
	keep   time.Duration
	budget int // bytes per shard
}

const cacheShards = 16

type cacheShard struct {
	mu    sync.Mutex
	lru   *simplelru.LRU[id, cached]
	bytes int
}

type cached struct {
	record *Record
	until  time.Time
	bytes  int
}

func newCache(bytes int, keep time.Duration) *cache {
	if bytes < 0 {
		return nil
	}
	c := &cache{keep: keep, budget: bytes / cacheShards}
	for i := range c.shards {
		s := &c.shards[i]
		// The number of records is bounded by the budget alone.
		s.lru, _ = simplelru.NewLRU(math.MaxInt, func(_ id, e cached) { s.bytes -= e.bytes })
	}
	return c
}

func (c *cache) shard(i id) *cacheShard { return &c.shards[i[0]%cacheShards] }

// add keeps r, of whose retention left is left; 0 means unknown. Then the
// gateways' clocks have to do, which can only stretch a replay a little.
func (c *cache) add(i id, r *Record, left time.Duration, now time.Time) {
	if c == nil || !r.State.answered() {
		return
	}
	if left <= 0 {
		left = r.Retention - now.Sub(r.Settled)
	}
	e := cached{record: r, until: now.Add(min(left, c.keep)), bytes: cachedOverhead + r.Answer.size()}
	if left <= 0 || e.bytes > c.budget {
		return
	}
	s := c.shard(i)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lru.Remove(i) // so that its bytes are given back
	s.lru.Add(i, e)
	for s.bytes += e.bytes; s.bytes > c.budget; {
		s.lru.RemoveOldest()
	}
}

// cachedOverhead is roughly what a record costs besides its answer, in bytes.
const cachedOverhead = 400

// get returns the record kept under i, or nil.
func (c *cache) get(i id, now time.Time) *Record {
	if c == nil {
		return nil
	}
	s := c.shard(i)
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.lru.Get(i)
	if !ok {
		return nil
	}
	if !now.Before(e.until) {
		s.lru.Remove(i)
		return nil
	}
	return e.record
}

func (c *cache) remove(i id) {
	if c == nil {
		return
	}
	s := c.shard(i)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lru.Remove(i)
}

// totals returns how many records are kept and what they hold.
func (c *cache) totals() (records, bytes int) {
	if c == nil {
		return 0, 0
	}
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		records += s.lru.Len()
		bytes += s.bytes
		s.mu.Unlock()
	}
	return records, bytes
}
