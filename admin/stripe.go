package admin

import (
	"sync"

	"sluice/admission"
)

// Sizes of the tables indexed by the closed sets of package admission.
const (
	reasonCount  = int(admission.Internal) + 1
	verdictCount = int(admission.Replay) + 1
	outcomeCount = int(admission.Answered) + 1
)

// maxLimits is how many limit policies are told apart; more share one label.
const maxLimits = 16

// A stripe is one of several complete sets of counters. Requests spread over
// stripes so that they seldom meet; a scrape adds the stripes up. Everything
// in a stripe is guarded by its lock, which is held for some dozens of
// nanoseconds at a time: nobody waits for anything else while holding it.
type stripe struct {
	mu       sync.Mutex
	cells    []*cell // by cell id; nil until used
	overhead [stageCount]histogram
	origin   [codeCount]histogram
	retry    [reasonCount]histogram
	limits   [maxLimits + 1]limitCounts
	tenants  []tenantCounts // by slot
	sketch   sketch
	_        [64]byte // keeps neighbours off this stripe's cache lines
}

// A cell holds the counts of one route and class.
type cell struct {
	verdicts [verdictCount]uint64
	refused  [reasonCount]uint64 // of verdicts[Refuse], by reason
	shadow   [reasonCount]uint64
	failures [reasonCount]uint64
	duration [verdictCount][outcomeCount]histogram
	seconds  *seconds // of a candidate; nil: none was asked
	lastHit  int64    // end of the latest request, nanoseconds since 1970
}

type limitCounts struct{ allowed, refused, shadow uint64 }

type tenantCounts [verdictCount]uint64

// Stages of the gateway's own work.
const (
	stageDecide = iota
	stageSend
	stageAnswer
	stageCount
)

var stageNames = [stageCount]string{"decide", "send", "answer"}

// Status classes of the origin's answers; 0: none came.
const codeCount = 6

var codeNames = [codeCount]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx"}

// cellLocked returns the cell of that id, making it on first use.
func (st *stripe) cellLocked(id int) *cell {
	if id < len(st.cells) {
		if c := st.cells[id]; c != nil {
			return c
		}
	} else {
		st.cells = append(st.cells, make([]*cell, id+1-len(st.cells))...)
	}
	st.cells[id] = new(cell)
	return st.cells[id]
}

func (c *cell) merge(o *cell) {
	for i, n := range o.verdicts {
		c.verdicts[i] += n
	}
	for i := range reasonCount {
		c.refused[i] += o.refused[i]
		c.shadow[i] += o.shadow[i]
		c.failures[i] += o.failures[i]
	}
	for v := range c.duration {
		for o2 := range c.duration[v] {
			c.duration[v][o2].merge(&o.duration[v][o2])
		}
	}
	if o.seconds != nil {
		if c.seconds == nil {
			c.seconds = new(seconds)
		}
		c.seconds.merge(o.seconds)
	}
	c.lastHit = max(c.lastHit, o.lastHit)
}
