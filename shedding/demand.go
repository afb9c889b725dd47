package shedding

import (
	"math"
	"sync/atomic"
)

// demand estimates how much each tenant asks for, in requests that fade with
// the time constant memory. It is a count-min sketch with conservative update
// (Cormode and Muthukrishnan, "An improved data stream summary: the count-min
// sketch and its applications", 2005; Estan and Varghese, "New directions in
// traffic measurement and accounting", 2002) whose cells fade lazily. A
// tenant's cells are three of the eight in one cache line, so that counting
// costs one access to memory. An estimate is never too low, and too high
// rarely: where the other tenants of the line cover all three cells.
//
// Adding is lock-free, allocates nothing and takes the same time however many
// tenants there are.
type demand struct {
	lines []demandLine
	rate  float64 // ticks per second
}

// demandLine is eight cells: in each, the bits of a float32 count above the
// tick at which it was so much.
type demandLine [8]atomic.Uint64

const (
	demandTicks = 16 // per time constant
	fadeLen     = 16 * demandTicks
)

// triples are the ways to choose three of eight.
var triples = func() (t [56][3]uint8) {
	n := 0
	for a := range uint8(8) {
		for b := range a {
			for c := range b {
				t[n] = [3]uint8{a, b, c}
				n++
			}
		}
	}
	return
}()

// fading is how much of a count is left after so many ticks.
var fading = func() (f [fadeLen]float32) {
	for i := range f {
		f[i] = float32(math.Exp(-float64(i) / demandTicks))
	}
	return
}()

func newDemand(tenants int, memory float64) *demand {
	n := 64
	for n < tenants {
		n *= 2
	}
	return &demand{lines: make([]demandLine, n), rate: demandTicks / memory}
}

// cells are those of the tenant with hash h.
func (d *demand) cells(h uint64) (a, b, c *atomic.Uint64) {
	line := &d.lines[h&uint64(len(d.lines)-1)]
	at := &triples[(h>>32)*uint64(len(triples))>>32]
	return &line[at[0]&7], &line[at[1]&7], &line[at[2]&7]
}

// add counts one request of the tenant with hash h and returns the tenant's
// demand including it, at least 1.
func (d *demand) add(h uint64, now float64) float32 {
	tick := uint32(now * d.rate)
	a, b, c := d.cells(h)
	wasA, wasB, wasC := a.Load(), b.Load(), c.Load()
	inA, inB, inC := faded(wasA, tick), faded(wasB, tick), faded(wasC, tick)
	least := min(inA, inB, inC) + 1
	if inA <= least {
		lift(a, wasA, least, tick)
	}
	if inB <= least {
		lift(b, wasB, least, tick)
	}
	if inC <= least {
		lift(c, wasC, least, tick)
	}
	return least
}

// lift brings a cell, which was as given, up to at least v.
func lift(c *atomic.Uint64, was uint64, v float32, tick uint32) {
	if !c.CompareAndSwap(was, pack(v, max(tick, uint32(was)))) {
		raise(c, v, tick)
	}
}

// take undoes one add. Where others share a cell it may count them too low by
// one until that fades.
func (d *demand) take(h uint64, now float64) {
	tick := uint32(now * d.rate)
	a, b, c := d.cells(h)
	for _, cell := range [...]*atomic.Uint64{a, b, c} {
		for {
			old := cell.Load()
			if cell.CompareAndSwap(old, pack(max(0, faded(old, tick)-1), tick)) {
				break
			}
		}
	}
}

// raise is lift for a cell that others change as well.
func raise(c *atomic.Uint64, v float32, tick uint32) {
	for {
		old := c.Load()
		have := faded(old, tick)
		if have > v {
			return
		}
		if c.CompareAndSwap(old, pack(v, max(tick, uint32(old)))) {
			return
		}
	}
}

func pack(v float32, tick uint32) uint64 { return uint64(math.Float32bits(v))<<32 | uint64(tick) }

func faded(cell uint64, tick uint32) float32 {
	v, then := math.Float32frombits(uint32(cell>>32)), uint32(cell)
	if then >= tick {
		return v
	}
	if age := tick - then; age < fadeLen {
		return v * fading[age]
	}
	return 0
}

// spread is a histogram of requests by the demand of their tenant, over which
// the water level is found. Adding is lock-free; the rest is for one goroutine
// at a time.
type spread struct {
	fresh [spreadBins]atomic.Uint32
	bins  [spreadBins]float64
	total float64
}

// spreadBins are quarter octaves from 1 up to 2^21 requests.
const spreadBins = 84

// bin is the place of a demand of v, at least 1. Within an octave the four bins
// are of equal width, which the bits of a float give for nothing.
func bin(v float32) int {
	return min(int(math.Float32bits(v)>>21)-127*4, spreadBins-1)
}

// demandIn is the demand in the middle of bin i.
var demandIn = func() (d [spreadBins]float64) {
	for i := range d {
		lo := math.Float32frombits(uint32(i+127*4) << 21)
		hi := math.Float32frombits(uint32(i+1+127*4) << 21)
		d[i] = float64(lo+hi) / 2
	}
	d[0] = 1 // mostly single requests
	return
}()

func (s *spread) add(v float32) { s.fresh[bin(v)].Add(1) }

// roll lets d seconds pass over the histogram.
func (s *spread) roll(d, memory float64) {
	keep := math.Exp(-d / memory)
	s.total = 0
	for i := range s.bins {
		s.bins[i] *= keep
		if s.fresh[i].Load() != 0 {
			s.bins[i] += float64(s.fresh[i].Swap(0))
		}
		s.total += s.bins[i]
	}
}

// level is the water level at which the share p of all requests is admitted,
// if each tenant is admitted up to the level: the F with
//
//	sum over requests of min(1, F/demand of the tenant) = p * requests
func (s *spread) level(p float64) float64 {
	if p >= 1 {
		return math.MaxFloat32
	}
	want := p * s.total
	tenants := 0.0 // in the bins not yet passed: requests / demand
	for i, n := range s.bins {
		tenants += n / demandIn[i]
	}
	if tenants <= 0 {
		return p
	}
	below := 0.0
	for i, n := range s.bins {
		if n == 0 {
			continue
		}
		if f := (want - below) / tenants; f <= demandIn[i] {
			return f
		}
		below += n
		tenants = max(tenants-n/demandIn[i], 1e-12)
	}
	return math.MaxFloat32
}

// mean is what a tenant asks for on average.
func (s *spread) mean() float64 {
	tenants := 0.0
	for i, n := range s.bins {
		tenants += n / demandIn[i]
	}
	if tenants <= 0 {
		return 1
	}
	return s.total / tenants
}
