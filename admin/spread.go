package admin

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// A spread deals out indexes such that callers running at the same time seldom
// hold the same one. An index sticks to a core for as long as it is busy there.
type spread struct {
	n    int
	pool sync.Pool // of *int32
	next atomic.Uint32
}

func newSpread() *spread {
	n := 1
	for n < runtime.GOMAXPROCS(0) && n < 64 {
		n *= 2
	}
	indexes := make([]int32, n)
	for i := range indexes {
		indexes[i] = int32(i)
	}
	s := &spread{n: n}
	s.pool.New = func() any { return &indexes[int(s.next.Add(1))%n] }
	return s
}

func (s *spread) get() *int32  { return s.pool.Get().(*int32) }
func (s *spread) put(i *int32) { s.pool.Put(i) }

// spreadCounter is a counter for many writers.
type spreadCounter struct {
	spread *spread
	parts  []counter
}

type counter struct {
	n atomic.Uint64
	_ [56]byte // alone on its cache line
}

func newSpreadCounter(s *spread) *spreadCounter {
	return &spreadCounter{s, make([]counter, s.n)}
}

func (c *spreadCounter) inc() {
	i := c.spread.get()
	c.parts[*i].n.Add(1)
	c.spread.put(i)
}

func (c *spreadCounter) load() (n uint64) {
	for i := range c.parts {
		n += c.parts[i].n.Load()
	}
	return n
}
