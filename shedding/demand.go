package shedding

import (
	"math"
	"sync/atomic"
	"unsafe"

	"sluice/admission"
	"sluice/internal/prefetch"
)

// demand estimates how much each tenant asks for in each class, in requests that
// fade with the time constant memory. It counts as Space-Saving does (Metwally,
// Agrawal and El Abbadi, "Efficient computation of frequent and top-k elements in
// data streams", 2005), in many small sets: whoever finds no place in its set
// takes over that of the least, and its count. An estimate is too high rarely, where
// more than eight of a set matter at a time; and never too low, but for what was
// given back, and for the sixteenth of the time constant that counts fade in steps
// of. A set is one cache line, so that counting costs one access to memory. Counts
// fade lazily.
//
// Adding is lock-free, allocates nothing and takes the same time however many
// tenants there are.
type demand struct {
	lines []demandLine
	rate  float64 // ticks per second
}

// demandLine is a set of places. In each are, from the highest bit on, the tag of
// who has it, the tick of its last count, modulo what fits, and the count then, in
// 64ths. The zero value has counted nothing.
type demandLine [demandPlaces]atomic.Uint64

const (
	demandPlaces = 8

	tagBits    = 14 // of 16384 pairs in a line, one is taken for one tenant
	tickBits   = 20 // who stays away until they come round again may be taken for young
	countBits  = 30
	one        = 64
	mostDemand = 1<<countBits - 1

	demandTicks = 16 // per time constant
	fadeLen     = 16 * demandTicks
	tickMask    = 1<<tickBits - 1
)

// fading is how much of a count is left after so many ticks, in 2^-32ths.
var fading = func() (f [fadeLen]uint64) {
	for i := range f {
		f[i] = uint64(math.Round(math.Exp(-float64(i)/demandTicks) * (1 << 32)))
	}
	return
}()

// newDemand makes room for as many tenants that matter at a time, in all classes
// together.
func newDemand(tenants int, memory float64) *demand {
	n := 16
	for n*demandPlaces < 2*tenants { // half full, few lines have more than they hold
		n *= 2
	}
	return &demand{lines: make([]demandLine, n), rate: demandTicks / memory}
}

// demandKey is what the demand of a tenant in a class is known by, of the
// tenant's hash. The classes of a tenant are in different lines.
func demandKey(tenant uint64, class admission.Class) uint64 {
	return tenant + uint64(class)*0x9e3779b97f4a7c15
}

// anticipate asks for the line of a key, which add will look at.
func (d *demand) anticipate(key uint64) {
	prefetch.Line(uintptr(unsafe.Pointer(d.line(key))))
}

// line is where the tenant with a key is counted.
func (d *demand) line(key uint64) *demandLine {
	return &d.lines[key&uint64(len(d.lines)-1)]
}

// add counts one request of the tenant with a key, and returns the tenant's demand
// including it, at least 1.
func (d *demand) add(key uint64, now float64) float32 {
	line, tag, tick := d.line(key), key>>(64-tagBits), d.tick(now)
	for {
		place, was, count, _ := line.find(tag, tick)
		count = min(count+one, mostDemand)
		if place.CompareAndSwap(was, pack(tag, later(was, tick), count)) {
			return float32(count) / one
		}
	}
}

// take undoes one add.
func (d *demand) take(key uint64, now float64) {
	line, tag, tick := d.line(key), key>>(64-tagBits), d.tick(now)
	for {
		place, was, count, own := line.find(tag, tick)
		if !own || place.CompareAndSwap(was, pack(tag, later(was, tick), count-min(count, one))) {
			return
		}
	}
}

func (d *demand) tick(now float64) uint64 { return uint64(now*d.rate) & tickMask }

// find returns the place of a tag, or where it has none the one with the lowest
// count; and what is in it, and to how much the count has faded. Each tag looks at a
// place of its own first, and so gets that where it is free: most are found at once.
func (l *demandLine) find(tag, tick uint64) (place *atomic.Uint64, was, count uint64, own bool) {
	count = math.MaxUint64
	for i := range uint64(demandPlaces) {
		p := &l[(tag+i)%demandPlaces]
		w := p.Load()
		if w>>(64-tagBits) == tag {
			return p, w, faded(w, tick), true
		}
		if c := faded(w, tick); c < count {
			place, was, count = p, w, c
		}
	}
	return place, was, count, false
}

func pack(tag, tick, count uint64) uint64 {
	return tag<<(64-tagBits) | tick<<countBits | count
}

// age is how many ticks ago a place was counted at. Who was asked a little earlier
// may come later: to it, that is no time ago.
func age(was, tick uint64) uint64 {
	age := (tick - was>>countBits) & tickMask
	if age > tickMask-fadeLen {
		return 0
	}
	return age
}

// later is the tick at which a place is counted at tick: never before the last one,
// or what faded until then would fade again.
func later(was, tick uint64) uint64 {
	if was&mostDemand != 0 && age(was, tick) == 0 {
		return was >> countBits & tickMask
	}
	return tick
}

// faded is the count of a place at a tick, rounded up.
func faded(was, tick uint64) uint64 {
	count, age := was&mostDemand, age(was, tick)
	switch {
	case age == 0:
		return count
	case age < fadeLen:
		return (count*fading[age] + 1<<32 - 1) >> 32
	}
	return 0
}

// spread is a histogram of requests by the demand of their tenant, over which
// the water level is found. Adding is lock-free; the rest is for one goroutine
// at a time.
type spread struct {
	seen   [spreadBins]atomic.Uint64 // requests, ever
	rolled [spreadBins]uint64        // of them, those that are in bins
	bins   [spreadBins]float64
	total  float64
}

// spreadBins are quarter octaves from 1 up to 2^21 requests.
const (
	spreadBins = 84
	binBits    = 7
)

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

// adopt takes over what another has counted.
func (s *spread) adopt(old *spread) {
	for i := range s.seen {
		s.seen[i].Store(old.seen[i].Load())
	}
	s.rolled, s.bins, s.total = old.rolled, old.bins, old.total
}

// add counts a request, and returns a number that it gave no other.
func (s *spread) add(v float32) uint64 {
	i := bin(v)
	return s.seen[i].Add(1)<<binBits | uint64(i)
}

// roll lets d seconds pass over the histogram.
func (s *spread) roll(d, memory float64) {
	keep := math.Exp(-d / memory)
	s.total = 0
	for i := range s.bins {
		s.bins[i] *= keep
		if seen := s.seen[i].Load(); seen != s.rolled[i] {
			s.bins[i] += float64(seen - s.rolled[i])
			s.rolled[i] = seen
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
