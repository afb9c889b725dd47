package shedding

import (
	"math"
	"sync/atomic"
)

// demand estimates how much each tenant asks for, in requests that fade with
// the time constant memory. It is a count-min sketch with conservative update
// (Cormode and Muthukrishnan, "An improved data stream summary: the count-min
// sketch and its applications", 2005; Estan and Varghese, "New directions in
// traffic measurement and accounting", 2002) whose cells fade lazily: an
// estimate is never too low, and too high by about what all tenants together
// ask for, divided by the number of columns. Adding is lock-free, allocates
// nothing and takes the same time however many tenants there are.
type demand struct {
	cells []atomic.Uint64 // demandRows rows: float32 bits of the count above, tick below
	mask  uint64
	tick  float64 // seconds
}

const (
	demandRows  = 4
	demandTicks = 16 // per time constant
	fadeLen     = 16 * demandTicks
)

// fading is how much of a count is left after so many ticks.
var fading = func() (f [fadeLen]float32) {
	for i := range f {
		f[i] = float32(math.Exp(-float64(i) / demandTicks))
	}
	return
}()

func newDemand(columns int, memory float64) *demand {
	n := 64
	for n < columns*2 {
		n *= 2
	}
	return &demand{cells: make([]atomic.Uint64, demandRows*n), mask: uint64(n - 1), tick: memory / demandTicks}
}

// add counts one request of the tenant with hash h and returns the tenant's
// demand including it, at least 1.
func (d *demand) add(h uint64, now float64) float32 {
	tick := uint32(now / d.tick)
	var at [demandRows]*atomic.Uint64
	least := float32(math.MaxFloat32)
	g := h>>32 | 1 // two hashes make all rows' (Kirsch and Mitzenmacher, 2006)
	for i := range at {
		at[i] = &d.cells[uint64(i)*(d.mask+1)+(h+uint64(i)*g)&d.mask]
		least = min(least, faded(at[i].Load(), tick))
	}
	least++
	for _, c := range at {
		raise(c, least, tick)
	}
	return least
}

// take undoes one add. Where others share a cell it may count them too low by
// one until that fades.
func (d *demand) take(h uint64, now float64) {
	tick := uint32(now / d.tick)
	g := h>>32 | 1
	for i := range uint64(demandRows) {
		c := &d.cells[i*(d.mask+1)+(h+i*g)&d.mask]
		for {
			old := c.Load()
			v := max(0, faded(old, tick)-1)
			if c.CompareAndSwap(old, pack(v, tick)) {
				break
			}
		}
	}
}

// raise brings a cell up to at least v.
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
