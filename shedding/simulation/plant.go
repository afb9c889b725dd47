package simulation

import (
	"math"
	"math/rand/v2"
)

const (
	step    = 0.25 // seconds
	classes = 3
)

// plant is the queue and its workers.
type plant struct {
	queue []batch
	depth int
	done  float64
	limit float64

	good, late [classes]float64
}

// batch is the work that came in during one step.
type batch struct {
	at float64
	n  [classes]int
}

func (b *batch) empty() bool { return b.n == [classes]int{} }

func (p *plant) put(at float64, n [classes]int) {
	b := batch{at, n}
	if b.empty() {
		return
	}
	p.queue = append(p.queue, b)
	for _, v := range n {
		p.depth += v
	}
}

// work completes up to n pieces of work, oldest first.
func (p *plant) work(now float64, n int) {
	for n > 0 && len(p.queue) > 0 {
		b := &p.queue[0]
		for c := range b.n {
			take := min(b.n[c], n)
			b.n[c] -= take
			n -= take
			p.depth -= take
			p.done += float64(take)
			if now-b.at <= p.limit {
				p.good[c] += float64(take)
			} else {
				p.late[c] += float64(take)
			}
		}
		if !b.empty() {
			return
		}
		p.queue = p.queue[1:]
	}
}

// age is how long the oldest work has waited.
func (p *plant) age(now float64) float64 {
	if len(p.queue) == 0 {
		return 0
	}
	return now - p.queue[0].at
}

// ideal is how much of the arrivals could have been done in time by someone
// who admits exactly the work that will start before its limit.
func ideal(arrivals, capacity []int, limit float64) float64 {
	left := append([]int(nil), capacity...)
	total, at := 0, 0
	for k, n := range arrivals {
		at = max(at, k)
		for n > 0 && at < len(left) && float64(at-k)*step <= limit {
			take := min(left[at], n)
			left[at] -= take
			n -= take
			total += take
			if left[at] == 0 {
				at++
			}
		}
	}
	return float64(total)
}

func poisson(r *rand.Rand, mean float64) int {
	if mean <= 0 {
		return 0
	}
	if mean > 30 {
		return max(0, int(math.Round(mean+math.Sqrt(mean)*r.NormFloat64())))
	}
	limit, k, p := math.Exp(-mean), 0, 1.0
	for {
		p *= r.Float64()
		if p <= limit {
			return k
		}
		k++
	}
}
