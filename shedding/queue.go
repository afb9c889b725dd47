package shedding

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"sluice/admission"
)

const (
	// refresh is how often, in seconds, the law is run while requests come.
	refresh = 0.02
	// pace is the time constant, in seconds, of the rates that the law goes by.
	pace = 10
	// longPace is that of the demand of higher classes, to which promises
	// yield.
	longPace = 60
	// spending is the time constant, in seconds, over which saved promises
	// are made.
	spending = 10
)

// queue is one queue behind the origin. Decisions read what the law last
// published, without a lock; the law runs under one.
type queue struct {
	opts     QueueOptions
	gate     *Gate
	limit    float64 // seconds, as are the next two
	maxRetry float64
	maxWait  float64 // maxRetry before jitter

	log     *admissions
	demand  *demand
	classes []class
	drawKey uint64
	draws   atomic.Uint64 // but those of newcomers
	due     atomicFloat   // when the law is to be run again

	mu      sync.Mutex
	signals []*signal
	ran     float64 // when the law was
	strain  float64
	wait    Value
	rateCap float64
	closed  bool
	worst   int    // signal that the strain comes from; -1 none
	bands   []Band // as floored last left them
	fresh   []float64
	back    []float64
	offered []float64
	turned  uint64 // times a class began or ceased to be refused
}

// class is what a queue knows of one class.
type class struct {
	form *admission.Form // of refusals

	// Published by the law.
	share  atomicFloat // of newcomers admitted
	back   atomicFloat // of returners admitted
	level  atomicFloat // demand up to which a tenant is admitted
	pledge atomicFloat // demand up to which a tenant is promised something
	again  atomicFloat // seconds before jitter after which to come back
	reason atomic.Uint32

	// Counted by decisions.
	count  counts
	spread spread

	// The law's own.
	seen        counted
	offered     float64 // newcomers and returners per second
	offeredLong float64
	admitted    float64 // per second
	since       float64 // when the class was last fully open
	pledged     uint64  // promises made by the last run
	saved       float64 // promises that may be made
	refusing    bool
}

// counts are running totals of requests.
type counts struct {
	admitted atomic.Uint64 // newcomers
	declined atomic.Uint64 // newcomers that were not
	back     atomic.Uint64 // requests that came back when told
	kept     atomic.Uint64 // of them, admitted
	early    atomic.Uint64 // came back before their time
	refused  atomic.Uint64
	shadow   atomic.Uint64 // would have been refused, and passed
	returned atomic.Uint64 // admissions given back
	promised atomic.Uint64
}

func (n *counts) newcomers() uint64 { return n.admitted.Load() + n.declined.Load() }

type counted struct{ offered, admitted uint64 }

// atomicFloat is a float64 that is read and written whole.
type atomicFloat struct{ bits atomic.Uint64 }

func (f *atomicFloat) Load() float64   { return math.Float64frombits(f.bits.Load()) }
func (f *atomicFloat) Store(v float64) { f.bits.Store(math.Float64bits(v)) }

func newQueue(g *Gate, o QueueOptions, tenants int, now float64) *queue {
	limit := o.MaxUsefulAge.Seconds()
	q := &queue{
		opts:     o,
		drawKey:  admission.Hash(g.drawKey, o.Name),
		gate:     g,
		limit:    limit,
		maxRetry: o.MaxRetryAfter.Seconds(),
		maxWait:  o.MaxRetryAfter.Seconds() / (1 + jitter),
		log:      newAdmissions(now, limit),
		demand:   newDemand(tenants, demandMemory(limit)),
		classes:  make([]class, len(o.Bands)),
		bands:    make([]Band, len(o.Bands)),
		fresh:    make([]float64, len(o.Bands)),
		back:     make([]float64, len(o.Bands)),
		offered:  make([]float64, len(o.Bands)),
		ran:      now,
	}
	for _, s := range o.Signals {
		q.signals = append(q.signals, newSignal(s, q.log, now))
	}
	for i := range q.classes {
		q.classes[i].since = now
		if status := o.Bands[i].Status; status != 0 {
			q.classes[i].form = &admission.Form{Status: status}
		}
	}
	q.run(now)
	return q
}

// demandMemory is how long a tenant's demand is remembered: on the time scale
// on which the queue fills.
func demandMemory(limit float64) float64 { return min(max(limit/4, 10), 900) }

// tick runs the law if it is due, and returns the time on the time line.
func (q *queue) tick(now time.Time) float64 {
	t := q.gate.line.at(now)
	if t >= q.due.Load() && q.mu.TryLock() {
		q.runLocked(t)
	}
	return t
}

// runLocked runs the law with q.mu held, and lets go of it, also where the law
// panics: a request must not take the queue with it.
func (q *queue) runLocked(t float64) {
	defer q.mu.Unlock()
	q.run(t)
}

// run is the law: from the signals and the log to what each class gets. It is
// called with q.mu held.
func (q *queue) run(t float64) {
	d := max(0, t-q.ran)
	q.ran = max(q.ran, t)
	q.log.roll(t)
	q.judge(t)
	for i := range q.classes {
		q.classes[i].measure(d, demandMemory(q.limit))
		q.offered[i] = q.classes[i].offered
	}
	bands := q.floored()
	shares(bands, q.strain, q.fresh, q.back)
	if q.closed {
		for i, b := range bands {
			q.fresh[i] = min(q.fresh[i], b.floor())
			q.back[i] = q.fresh[i]
		}
	}
	if q.rateCap > 0 {
		capShares(bands, q.rateCap, q.offered, q.fresh)
	}
	for i := range q.classes {
		q.publish(i, t, d)
	}
	q.due.Store(t + refresh)
}

// floored is the queue's bands, with what they guarantee lowered where a class
// asks for more than the queue completes: a guaranteed share of a flood would
// be a flood as well.
func (q *queue) floored() []Band {
	if q.worst < 0 {
		return q.opts.Bands
	}
	rate := q.signals[q.worst].est.rate
	for i, b := range q.opts.Bands {
		if rate > 0 && q.offered[i] > rate {
			b.cut = rate / q.offered[i]
		}
		q.bands[i] = b
	}
	return q.bands
}

// judge asks every signal; the worst counts.
func (q *queue) judge(t float64) {
	q.strain, q.wait, q.rateCap, q.closed, q.worst = 0, Value{}, 0, false, -1
	for i, s := range q.signals {
		v := s.say(t)
		q.closed = q.closed || v.closed
		if v.rate > 0 && (q.rateCap == 0 || v.rate < q.rateCap) {
			q.rateCap = v.rate
		}
		strain := -1.0
		if v.wait.known {
			strain = v.wait.v / q.limit
			if !q.wait.known || v.wait.v > q.wait.v {
				q.wait = v.wait
			}
		} else if v.depth.v > countable {
			// A backlog of which nothing else is known yet: the least
			// important class waits until the rate was measured.
			strain = q.opts.Bands[len(q.opts.Bands)-1].middle()
		}
		if v.depth.known && q.opts.MaxDepth > 0 {
			strain = max(strain, v.depth.v/q.opts.MaxDepth)
		}
		if strain >= 0 && (q.worst < 0 || strain > q.strain) {
			q.strain, q.worst = strain, i
		}
	}
}

// measure follows the class's rates over the d seconds since the last run.
func (c *class) measure(d, memory float64) {
	if d <= 0 {
		return
	}
	seen := counted{
		offered:  c.count.newcomers() + c.count.back.Load(),
		admitted: c.count.admitted.Load() + c.count.kept.Load() + c.count.shadow.Load(),
	}
	offered := float64(seen.offered-c.seen.offered) / d
	admitted := float64(seen.admitted-c.seen.admitted) / d
	c.seen = seen
	w := 1 - math.Exp(-d/pace)
	c.offered += w * (offered - c.offered)
	c.admitted += w * (admitted - c.admitted)
	c.offeredLong += (1 - math.Exp(-d/longPace)) * (offered - c.offeredLong)
	c.spread.roll(d, memory)
}

// publish tells decisions what class i gets.
func (q *queue) publish(i int, t, d float64) {
	c := &q.classes[i]
	p := q.fresh[i]
	if p > 0.95 {
		c.since = t
	}
	if refusing := p < 1; refusing != c.refusing {
		c.refusing = refusing
		q.turned++
	}
	reason := q.opts.Bands[i].Action.reason()
	if q.closed {
		reason = admission.SignalLost
	}
	c.share.Store(p)
	c.back.Store(q.back[i])
	level := c.spread.level(p)
	c.level.Store(level)
	c.pledge.Store(q.pledges(i, t, d, p, level))
	c.again.Store(q.comeBack(i, t))
	c.reason.Store(uint32(reason))
}

// pledges is the demand up to which a tenant of class i is promised something,
// if it is admitted up to level.
//
// As long as "as long again" can be said, returns fall due after the overload
// is expected to be over, and so thinly that twice the rate may be promised.
// From then on they fall due during it, and only what the classes above leave
// room for may be. What is not promised is saved, as much as comes in during
// the limit, for the burst after the calm. And no tenant is promised more than
// twice what tenants ask for on average, so that a flood collects nothing.
func (q *queue) pledges(i int, t, d, p, level float64) float64 {
	c := &q.classes[i]
	promised := c.count.promised.Load()
	spent := float64(promised - c.pledged)
	c.pledged = promised
	if p >= 1 || q.worst < 0 || q.signals[q.worst].est.rate <= 0 {
		return math.MaxFloat32
	}
	e := q.signals[q.worst].est
	room := 2 * e.rate
	if t-c.since > q.maxWait {
		room = e.rate - e.foreign
		for j := range i {
			room -= q.classes[j].offeredLong
		}
	}
	c.saved = min(max(c.saved+room*d-spent, 0), max(room, 0)*q.limit)
	share := c.saved / spending / max(c.offered, 1e-9)
	return min(c.spread.level(p+share), level+2*c.spread.mean())
}

// comeBack is when a request of class i refused at t should return, before
// jitter: when the backlog will have drained to the middle of the class's
// band, but not before the class has been refused for as long again.
func (q *queue) comeBack(i int, t float64) float64 {
	elapsed := t - q.classes[i].since
	drain := 0.0
	if q.worst >= 0 {
		e := q.signals[q.worst].est
		mid := q.opts.Bands[i].middle()
		if e.rate > 0 && e.have {
			target := mid * q.limit * e.rate
			if q.opts.MaxDepth > 0 {
				target = min(target, mid*q.opts.MaxDepth)
			}
			net := e.rate - e.foreign
			for j := range q.classes {
				net -= q.classes[j].admitted
			}
			drain = (e.backlog(t)-target)/max(net, 0.05*e.rate) + e.standstill(t)
			if e.stall > 0 {
				drain += q.signals[q.worst].lag() // which is how long the end of it takes to show
			}
		} else if e.blind.known {
			drain = e.blind.v - mid*q.limit
		}
	}
	return min(max(drain, elapsed, 1), q.maxWait)
}

// adopt takes over what a queue of the same name has learned under another
// policy.
func (q *queue) adopt(old *queue, t float64) {
	old.mu.Lock()
	defer old.mu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	old.run(t)
	q.log.adopt(old.log, t)
	if q.limit == old.limit && len(q.demand.lines) == len(old.demand.lines) {
		q.demand = old.demand
	}
	for _, s := range q.signals {
		for _, o := range old.signals {
			if s.opts.Name == o.opts.Name {
				s.adopt(o)
			}
		}
	}
	for i := range min(len(q.classes), len(old.classes)) {
		q.classes[i].adopt(&old.classes[i])
	}
	q.turned = old.turned
	q.draws.Store(old.draws.Load())
	q.run(t)
}

func (c *class) adopt(old *class) {
	c.count.adopt(&old.count)
	c.seen, c.offered, c.offeredLong, c.admitted = old.seen, old.offered, old.offeredLong, old.admitted
	c.since, c.refusing, c.pledged, c.saved = old.since, old.refusing, old.pledged, old.saved
	c.spread.adopt(&old.spread)
}

func (n *counts) adopt(old *counts) {
	for _, p := range [][2]*atomic.Uint64{
		{&n.admitted, &old.admitted}, {&n.declined, &old.declined}, {&n.back, &old.back}, {&n.kept, &old.kept},
		{&n.early, &old.early}, {&n.refused, &old.refused}, {&n.shadow, &old.shadow}, {&n.promised, &old.promised}, {&n.returned, &old.returned},
	} {
		p[0].Store(p[1].Load())
	}
}
