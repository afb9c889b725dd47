package load

import (
	"math"
	"math/rand/v2"
	"time"
)

// arrival is one request that the plan intends.
type arrival struct {
	at    time.Duration // since the start
	stage int
}

// plan yields arrivals in order. Arrivals of a rate that changes are those of a
// constant rate of 1, with time stretched so that the expected number up to
// each instant is the integral of the rate.
type plan struct {
	stages   []Stage
	arrivals Arrivals
	rand     *rand.Rand
	stage    int
	begin    time.Duration // of the current stage
	mass     float64       // expected arrivals of this stage before the next arrival
}

func newPlan(stages []Stage, a Arrivals, seed uint64) *plan {
	p := &plan{stages: stages, arrivals: a, rand: rand.New(rand.NewPCG(seed, 10))}
	p.mass = p.step()
	return p
}

func (p *plan) step() float64 {
	if p.arrivals == Uniform {
		return 1
	}
	return p.rand.ExpFloat64()
}

// next returns the next arrival; false when the last stage is over.
func (p *plan) next() (arrival, bool) {
	for p.stage < len(p.stages) {
		s := p.stages[p.stage]
		if s.Duration == 0 {
			a := arrival{p.begin + time.Duration(p.mass/s.To*float64(time.Second)), p.stage}
			p.mass += p.step()
			return a, true
		}
		d := s.Duration.Seconds()
		if total := d * (s.From + s.To) / 2; p.mass >= total {
			// What is left of this step is spent in the next stage.
			p.mass -= total
			p.begin += s.Duration
			p.stage++
			continue
		}
		a := arrival{p.begin + time.Duration(invert(s.From, s.To, d, p.mass)*float64(time.Second)), p.stage}
		p.mass += p.step()
		return a, true
	}
	return arrival{}, false
}

// invert is the time at which a rate that goes from a to b in d seconds has
// produced m expected arrivals: the root of a·t + (b−a)·t²/2d = m.
func invert(a, b, d, m float64) float64 {
	k := (b - a) / d
	if math.Abs(k) < 1e-9 {
		return m / a
	}
	// The form that does not cancel where k is small.
	return 2 * m / (a + math.Sqrt(max(0, a*a+2*k*m)))
}

// block is how many arrivals are planned at once.
const block = 512

// produce plans ahead of the dispatcher, which so never computes an arrival at
// the moment it is due.
func (p *plan) produce(out chan<- []arrival, stop <-chan struct{}) {
	defer close(out)
	for {
		b := make([]arrival, 0, block)
		for len(b) < block {
			a, ok := p.next()
			if !ok {
				break
			}
			b = append(b, a)
		}
		if len(b) == 0 {
			return
		}
		select {
		case out <- b:
		case <-stop:
			return
		}
	}
}
