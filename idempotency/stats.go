package idempotency

import (
	"sync/atomic"
	"time"
)

// Op names what a store is asked to do.
type Op uint8

const (
	OpClaim Op = iota
	OpRead
	OpLapse
	OpSettle
	OpRelease
	opCount
)

var opNames = [opCount]string{"claim", "read", "lapse", "settle", "release"}

func (o Op) String() string { return opNames[o] }

// LatencyBounds are the upper bounds of the classes in OpStats.Within; the
// last class has none.
var LatencyBounds = [...]time.Duration{
	250 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
	250 * time.Millisecond, 500 * time.Millisecond, time.Second,
}

// Stats is what a gate has counted since it was made, and what it holds now.
type Stats struct {
	Requests [statusCount]uint64 // findings and endings by Status
	Refused  uint64              // refused because the store is down

	CacheHits    uint64 // findings from memory alone
	CacheRecords int    // records kept in memory, and the bytes they hold
	CacheBytes   int

	InFlight  int           // records this gateway is asking about or executing
	Waiting   int           // repetitions waiting for a running request
	Waited    uint64        // repetitions that have waited, and for how long in all
	WaitTime  time.Duration //
	WaitersUp uint64        // repetitions not allowed to wait, because too many do

	Lapsed     uint64 // records put in doubt because their owner was silent past its lease
	TakenOver  uint64 // records taken over for the same reason
	InDoubt    uint64 // records put in doubt by their owner
	Tombstones uint64 // records settled without their body
	Recovered  uint64 // claims whose reply was lost, and that were recognised
	Lost       uint64 // answers that could not be stored, or not in time

	Retrying    int    // changes being tried again in the background
	RetriesOver uint64 // changes given up

	StoredBytes uint64 // bodies written to the store, before compression

	Store [opCount]OpStats // by Op
}

// OpStats is about one operation of the store.
type OpStats struct {
	Calls, Errors uint64
	Time          time.Duration // spent in all calls
	Within        [len(LatencyBounds) + 1]uint64
}

// counters are the moving parts of Stats.
type counters struct {
	requests                                                      [statusCount]atomic.Uint64
	refused, cacheHits                                            atomic.Uint64
	waited, waitersUp                                             atomic.Uint64
	waitTime                                                      atomic.Int64
	lapsed, takenOver, inDoubt, tombstones, recovered, lost, over atomic.Uint64
	storedBytes                                                   atomic.Uint64
	ops                                                           [opCount]opCounters
}

type opCounters struct {
	errors atomic.Uint64
	time   atomic.Int64
	within [len(LatencyBounds) + 1]atomic.Uint64
}

func (c *counters) count(s Status) { c.requests[s].Add(1) }

// called counts one call of the store that began at start.
func (c *counters) called(o Op, start time.Time, failed bool) {
	took := time.Since(start)
	i := 0
	for i < len(LatencyBounds) && took > LatencyBounds[i] {
		i++
	}
	op := &c.ops[o]
	op.within[i].Add(1)
	op.time.Add(int64(took))
	if failed {
		op.errors.Add(1)
	}
}

// Stats returns a snapshot. Its numbers are read one after the other.
func (g *Gate) Stats() Stats {
	c := &g.stats
	s := Stats{
		Refused:     c.refused.Load(),
		CacheHits:   c.cacheHits.Load(),
		InFlight:    g.flights.running(),
		Waiting:     int(g.waiters.Load()),
		Waited:      c.waited.Load(),
		WaitTime:    time.Duration(c.waitTime.Load()),
		WaitersUp:   c.waitersUp.Load(),
		Lapsed:      c.lapsed.Load(),
		TakenOver:   c.takenOver.Load(),
		InDoubt:     c.inDoubt.Load(),
		Tombstones:  c.tombstones.Load(),
		Recovered:   c.recovered.Load(),
		Lost:        c.lost.Load(),
		Retrying:    g.retries.running(),
		RetriesOver: c.over.Load(),
		StoredBytes: c.storedBytes.Load(),
	}
	s.CacheRecords, s.CacheBytes = g.cache.totals()
	for i := range s.Requests {
		s.Requests[i] = c.requests[i].Load()
	}
	for i := range s.Store {
		from, to := &c.ops[i], &s.Store[i]
		to.Errors = from.errors.Load()
		to.Time = time.Duration(from.time.Load())
		for j := range to.Within {
			to.Within[j] = from.within[j].Load()
			to.Calls += to.Within[j]
		}
	}
	return s
}
