package simulation

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"sluice/admission"
	"sluice/shedding"
)

// Setup is what a run varies.
type Setup struct {
	Scenario Scenario
	Limit    float64 // seconds; 0: 120
	Lag      float64 // period of the signal and delay of its arrival, seconds
	Seed     uint64
	// Scale makes traffic and workers smaller by a factor, to save time; 0: 1.
	Scale float64

	Depth  bool // the signal tells depth and completions; otherwise age alone
	OnLoss shedding.Loss

	Replicas int             // gateways that know nothing of each other; 0: 1
	Bypass   float64         // share of the work that never passes a gateway
	Lost     [2]float64      // from when to when the signal is gone
	Stuck    [2]float64      // from when to when one piece of work at the head is stuck
	Restart  float64         // when all gateways forget everything
	Tenants  int             // equally busy ones; 0: 200
	Flood    map[int]float64 // class to times its demand, from one more tenant

	Return  float64 // share of the refused that come back when told
	Hammer  float64 // share of clients that come back every second instead
	Tickets bool    // promises are known by ticket; otherwise by key
	Forget  bool    // nothing is known again
	// Watch is called once a second with the state of each gateway.
	Watch func(now, age float64, s shedding.State)
}

// Result is what came of a run.
type Result struct {
	Offered, Admitted       [classes]float64 // newcomers; all that got in
	Good, Late              [classes]float64
	Ideal                   float64
	GoodInTime              float64 // before the scenario's end, as Ideal counts
	MaxAge, OverLimit       float64 // seconds
	Flips                   int
	Peak                    float64 // most offered in one second
	Returns, Back           float64 // who came back when told; of them, admitted
	Redeemed, Kept          float64 // who came back with a promise; of them, admitted
	Attempts                float64
	Waiting, Hammering      Fate
	RetryAfters             []float64
	PromisedOf, RefusedOnce float64
}

// Fate is how one kind of client fared.
type Fate struct {
	Clients, Served [classes]float64
	Attempts, Delay float64
}

// call is one request of a client, over all its attempts.
type call struct {
	class, tenant int
	key           uint64
	ticket        string
	first         float64
	attempts      int
	told          bool // it was told when to come back, and does
	promised      bool
	hammers       bool
}

// Get implements admission.Header.
func (c *call) Get(name string) (string, int) {
	switch {
	case strings.EqualFold(name, shedding.TicketHeader) && c.ticket != "":
		return c.ticket, 1
	case strings.EqualFold(name, "Idempotency-Key") && c.key != 0:
		return strconv.FormatUint(c.key, 36), 1
	}
	return "", 0
}

// epoch is the wall time of second 0.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func clock(t float64) time.Time { return epoch.Add(time.Duration(t * float64(time.Second))) }

// Bands are those of all runs: the least important class gives way first.
func Bands() []shedding.Band {
	return []shedding.Band{
		{From: .90, Full: 1.0, MinAdmit: .05},
		{From: .60, Full: .90, MinAdmit: .05},
		{From: .25, Full: .60, MinAdmit: .05, Action: shedding.Defer},
	}
}

var mix = [classes]float64{0.2, 0.4, 0.4}

type reading struct {
	due float64
	s   shedding.Sample
}

// run is one run under way.
type run struct {
	Setup
	rnd, out *rand.Rand
	gates    []*shedding.Gate
	tickets  *shedding.Tickets
	route    admission.Route
	plant    plant
	later    map[int][]*call
	names    []string
	keys     uint64
	res      Result
	state    [classes]bool // shed
	share    [classes]float64
	wire     []reading
	next     float64
	stuckAt  float64
	req      admission.Request
}

// Run lets s happen.
func Run(s Setup) Result {
	if s.Limit == 0 {
		s.Limit = 120
	}
	if s.Scale == 0 {
		s.Scale = 1
	}
	s.Replicas = max(1, s.Replicas)
	if s.Tenants == 0 {
		s.Tenants = 200
	}
	r := &run{
		Setup:   s,
		rnd:     rand.New(rand.NewPCG(s.Seed, 1)),
		out:     rand.New(rand.NewPCG(s.Seed, 2)),
		route:   admission.Route{ID: "work", Queue: "work"},
		plant:   plant{limit: s.Limit},
		later:   map[int][]*call{},
		share:   [classes]float64{1, 1, 1},
		stuckAt: -1,
	}
	for i := range s.Tenants + 1 {
		r.names = append(r.names, "tenant-"+strconv.Itoa(i))
	}
	var err error
	if r.tickets, err = shedding.NewTickets([]byte("a secret of the simulation")); err != nil {
		panic(err)
	}
	r.start(0)
	steps := int(s.Scenario.Length / step)
	arrivals, capacity := make([]int, steps), make([]int, steps)
	window := make([]int, int(1/step))
	for k := range steps {
		now := float64(k) * step
		if s.Restart > 0 && now == s.Restart {
			r.start(now)
		}
		calls := r.arrive(k, now, &arrivals[k])
		window[k%len(window)] = len(calls)
		sum := 0
		for _, n := range window {
			sum += n
		}
		r.res.Peak = math.Max(r.res.Peak, float64(sum))
		r.plant.put(now, r.admit(k, now, calls))
		capacity[k] = poisson(r.rnd, s.Scenario.Capacity(now)*s.Scale*step)
		r.plant.work(now, capacity[k])
		if k%4 == 0 {
			r.watch(now)
		}
		r.signal(now)
	}
	for _, n := range r.plant.good {
		r.res.GoodInTime += n
	}
	r.res.Ideal = ideal(arrivals, capacity, s.Limit)
	// What is still waiting counts as what will become of it.
	for now := s.Scenario.Length; r.plant.depth > 0; now += step {
		r.plant.work(now, poisson(r.rnd, 400*s.Scale*step))
	}
	r.res.Good, r.res.Late = r.plant.good, r.plant.late
	return r.res
}

// start makes gateways that know nothing.
func (r *run) start(now float64) {
	r.gates = nil
	for i := range r.Replicas {
		period := max(1, r.Lag)
		g, err := shedding.New(shedding.Options{
			Classes: classes,
			Tickets: r.tickets,
			Seed:    r.Seed<<8 + uint64(i) + 1,
			Tenants: max(64, 4*r.Tenants),
			Queues: []shedding.QueueOptions{{
				Name:         "work",
				MaxUsefulAge: time.Duration(r.Limit * float64(time.Second)),
				Bands:        Bands(),
				Signals: []shedding.SignalOptions{{
					Name: "s", OnLoss: r.OnLoss,
					Every: time.Duration(period * float64(time.Second)),
					Delay: time.Duration(r.Lag * float64(time.Second)),
				}},
			}},
		}, clock(now), nil)
		if err != nil {
			panic(err)
		}
		r.gates = append(r.gates, g)
	}
}

// arrive makes the calls of step k: returning ones first.
func (r *run) arrive(k int, now float64, fresh *int) []*call {
	calls := r.later[k]
	delete(r.later, k)
	add := func(c, tenant int) {
		r.keys++
		*fresh++
		r.res.Offered[c]++
		hammers := r.Hammer > 0 && tenant < int(r.Hammer*float64(r.Tenants))
		call := &call{class: c, tenant: tenant, key: r.keys, first: now, hammers: hammers}
		r.fate(call).Clients[c]++
		calls = append(calls, call)
	}
	for c := range mix {
		rate := r.Scenario.Offered(now) * mix[c] * r.Scale * step
		for range poisson(r.rnd, rate) {
			add(c, r.rnd.IntN(r.Tenants))
		}
		for range poisson(r.rnd, rate*r.Flood[c]) {
			add(c, r.Tenants)
		}
	}
	r.rnd.Shuffle(len(calls), func(i, j int) { calls[i], calls[j] = calls[j], calls[i] })
	return calls
}

// admit leads the calls of step k past the gateways.
func (r *run) admit(k int, now float64, calls []*call) (got [classes]int) {
	for _, c := range calls {
		c.attempts++
		r.res.Attempts++
		if r.Bypass > 0 && r.out.Float64() < r.Bypass {
			got[c.class]++
			continue
		}
		if c.told {
			r.res.Returns++
			if c.promised {
				r.res.Redeemed++
			}
		}
		gate := r.gates[0]
		if len(r.gates) > 1 {
			gate = r.gates[r.out.IntN(len(r.gates))]
		}
		d, ok := r.decide(gate, now, c)
		if ok {
			got[c.class]++
			r.res.Admitted[c.class]++
			if c.told {
				r.res.Back++
			}
			if c.promised && !c.hammers {
				r.res.Kept++
			}
			r.served(c, now)
			continue
		}
		if c.attempts == 1 {
			r.res.RefusedOnce++
			if d.Promise.Made() {
				r.res.PromisedOf++
			}
		}
		c.promised = d.Promise.Made()
		r.comeBack(k, now, c, &d)
	}
	return got
}

func (r *run) decide(g *shedding.Gate, at float64, c *call) (admission.Decision, bool) {
	r.req.Reset()
	r.req.Route, r.req.Class, r.req.Tenant = &r.route, admission.Class(c.class), r.names[c.tenant]
	if !r.Forget && (r.Return > 0 || r.Hammer > 0) {
		r.req.Header = c
	}
	var d admission.Decision
	_, f := g.Reserve(clock(at), &r.req, &d)
	if f.Is() {
		d.Refuse(f)
		if d.Promise.Made() && r.Tickets {
			c.ticket = string(d.Promise.Signer.AppendTicket(nil, &r.req, &d.Promise))
			c.key = 0
		}
	}
	return d, !f.Is()
}

// comeBack has a refused call come back, or not.
func (r *run) comeBack(k int, at float64, c *call, d *admission.Decision) {
	var wait float64
	switch {
	case c.hammers:
		wait = 1
		if at-c.first > 600 {
			return
		}
	case r.out.Float64() < r.Return:
		wait = math.Ceil(d.RetryAfter.Seconds())
		c.told = true
		r.res.RetryAfters = append(r.res.RetryAfters, wait)
	default:
		return
	}
	j := max(k+1, int(math.Ceil((at+wait)/step)))
	r.later[j] = append(r.later[j], c)
}

// fate is that of the kind of client that c is.
func (r *run) fate(c *call) *Fate {
	if c.hammers {
		return &r.res.Hammering
	}
	return &r.res.Waiting
}

func (r *run) served(c *call, at float64) {
	f := r.fate(c)
	f.Served[c.class]++
	f.Attempts += float64(c.attempts)
	f.Delay += at - c.first
}

// watch keeps the books on ages and flips, once a second.
func (r *run) watch(now float64) {
	age := r.plant.age(now)
	r.res.MaxAge = math.Max(r.res.MaxAge, age)
	if age > r.Limit {
		r.res.OverLimit++
	}
	var mean [classes]float64
	for _, g := range r.gates {
		s := g.State(clock(now + step))[0]
		for c := range mean {
			mean[c] += s.Classes[c].Share / float64(len(r.gates))
		}
		if r.Watch != nil {
			r.Watch(now, age, s)
		}
	}
	for c, p := range mean {
		// The same smoothing for all controllers that are compared.
		r.share[c] += (1 - math.Exp(-1.0/5)) * (p - r.share[c])
		if shed := r.share[c] <= 0.1; shed != r.state[c] && (shed || r.share[c] >= 0.9) {
			r.state[c] = shed
			r.res.Flips++
		}
	}
}

// signal reads the queue and delivers what was read earlier.
func (r *run) signal(now float64) {
	if now >= r.next {
		r.next += max(1, r.Lag)
		age := r.plant.age(now)
		if between(now, r.Stuck[0], r.Stuck[1]) {
			if r.stuckAt < 0 {
				r.stuckAt = now
			}
			age = math.Max(age, now-r.stuckAt)
		}
		s := shedding.Sample{At: clock(now), Age: shedding.Known(age)}
		if r.Depth {
			s.Depth, s.Done = shedding.Known(float64(r.plant.depth)), shedding.Known(r.plant.done)
		}
		if !between(now, r.Lost[0], r.Lost[1]) {
			r.wire = append(r.wire, reading{now + r.Lag, s})
		}
	}
	for len(r.wire) > 0 && r.wire[0].due <= now {
		for _, g := range r.gates {
			if _, err := g.Observe(clock(now), "work", "s", r.wire[0].s); err != nil {
				panic(fmt.Sprint("simulation: ", err))
			}
		}
		r.wire = r.wire[1:]
	}
}
