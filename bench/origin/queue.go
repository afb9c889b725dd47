package origin

import (
	"container/heap"
	"math/rand/v2"
	"sync"
	"time"

	"sluice/bench/dist"
)

// queue is a first-in first-out queue and the workers that serve it.
//
// Workers are not goroutines that sleep: a sleep is always late by the
// scheduler's grain, and a thousand late sleeps are a rate that nobody asked
// for. Instead each piece of work gets its start and its end by calculation,
// and advance settles what lies behind now. However seldom it is called, every
// time that it reports is exact.
type queue struct {
	mu      sync.Mutex
	rand    *rand.Rand
	work    dist.Distribution
	ready   ring
	running ends
	free    times // since when each idle worker has been idle
	stuck   []item
	poison  int // how many of the next items get stuck
	surplus int // workers that leave when their work ends
	workers int
	paused  bool
	done    int64
	settle  func(id int64, end time.Time)
}

// item is one piece of work: its entry in the ledger and when it arrived.
type item struct {
	id int64
	at time.Time
}

func newQueue(workers int, work dist.Distribution, seed uint64, now time.Time, settle func(int64, time.Time)) *queue {
	q := &queue{rand: rand.New(rand.NewPCG(seed, 1)), work: work, settle: settle}
	q.scaleLocked(now, workers)
	return q
}

// push adds work that arrived at now.
func (q *queue) push(now time.Time, id int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advanceLocked(now)
	if q.poison > 0 {
		q.poison--
		q.stuck = append(q.stuck, item{id, now})
		return
	}
	q.ready.push(item{id, now})
	q.advanceLocked(now)
}

// advance settles all work that ends by now, in the order in which it ends.
func (q *queue) advance(now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advanceLocked(now)
}

func (q *queue) advanceLocked(now time.Time) {
	for {
		for !q.paused && len(q.free) > 0 && q.ready.n > 0 {
			it := q.ready.pop()
			start := heap.Pop(&q.free).(time.Time)
			if it.at.After(start) {
				start = it.at
			}
			heap.Push(&q.running, end{it.id, start.Add(q.work.Sample(q.rand))})
		}
		if len(q.running) == 0 || q.running[0].at.After(now) {
			return
		}
		e := heap.Pop(&q.running).(end)
		q.done++
		q.settle(e.id, e.at)
		if q.surplus > 0 {
			q.surplus--
		} else {
			heap.Push(&q.free, e.at)
		}
	}
}

// pause stops workers from starting anything. What runs already, ends.
func (q *queue) pause(now time.Time, paused bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advanceLocked(now)
	if q.paused && !paused {
		// Idle workers did not idle while paused: nothing starts in the past.
		for i := range q.free {
			q.free[i] = now
		}
	}
	q.paused = paused
	q.advanceLocked(now)
}

func (q *queue) scale(now time.Time, workers int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advanceLocked(now)
	q.scaleLocked(now, workers)
	q.advanceLocked(now)
}

func (q *queue) scaleLocked(now time.Time, workers int) {
	for ; q.workers < workers; q.workers++ {
		if q.surplus > 0 {
			q.surplus--
		} else {
			heap.Push(&q.free, now)
		}
	}
	for ; q.workers > workers; q.workers-- {
		if len(q.free) > 0 {
			heap.Pop(&q.free)
		} else {
			q.surplus++
		}
	}
}

// setWork changes how long work takes that starts from now on.
func (q *queue) setWork(now time.Time, work dist.Distribution) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advanceLocked(now)
	q.work = work
}

// poisonNext makes the next n items get stuck: they stay at the head, unserved,
// while the workers pass them by.
func (q *queue) poisonNext(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.poison = n
}

// cure puts what is stuck back to be served next.
func (q *queue) cure(now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.poison = 0
	for i := len(q.stuck) - 1; i >= 0; i-- {
		it := q.stuck[i]
		q.ready.pushFront(it)
	}
	q.stuck = nil
	// A cured item cannot have started before its cure.
	for i := range q.free {
		if q.free[i].Before(now) {
			q.free[i] = now
		}
	}
	q.advanceLocked(now)
}

// state reads the queue at now.
func (q *queue) state(now time.Time) Signal {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advanceLocked(now)
	s := Signal{
		Depth:     q.ready.n + len(q.stuck),
		InFlight:  len(q.running),
		Completed: q.done,
		Workers:   q.workers,
		Paused:    q.paused,
		SampledAt: now,
	}
	if q.ready.n > 0 {
		s.OldestAge = now.Sub(q.ready.front().at)
	}
	if len(q.stuck) > 0 {
		s.OldestAge = max(s.OldestAge, now.Sub(q.stuck[0].at))
	}
	return s
}

// end is when running work will be done.
type end struct {
	id int64
	at time.Time
}

type ends []end

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].at.Before(e[j].at) }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(end)) }
func (e *ends) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

type times []time.Time

func (t times) Len() int           { return len(t) }
func (t times) Less(i, j int) bool { return t[i].Before(t[j]) }
func (t times) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *times) Push(x any)        { *t = append(*t, x.(time.Time)) }
func (t *times) Pop() any {
	old := *t
	x := old[len(old)-1]
	*t = old[:len(old)-1]
	return x
}

// ring is a growing first-in first-out buffer.
type ring struct {
	buf     []item
	head, n int
}

func (r *ring) front() item { return r.buf[r.head] }

func (r *ring) grow() {
	if r.n < len(r.buf) {
		return
	}
	buf := make([]item, max(64, 2*len(r.buf)))
	for i := range r.n {
		buf[i] = r.buf[(r.head+i)%len(r.buf)]
	}
	r.buf, r.head = buf, 0
}

func (r *ring) push(it item) {
	r.grow()
	r.buf[(r.head+r.n)%len(r.buf)] = it
	r.n++
}

func (r *ring) pushFront(it item) {
	r.grow()
	r.head = (r.head + len(r.buf) - 1) % len(r.buf)
	r.buf[r.head] = it
	r.n++
}

func (r *ring) pop() item {
	it := r.buf[r.head]
	r.head = (r.head + 1) % len(r.buf)
	r.n--
	return it
}
