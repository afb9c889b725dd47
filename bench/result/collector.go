package result

import (
	"sync"
	"time"

	"sluice/bench/load"
	"sluice/bench/origin"
	"sluice/bench/scenario"
	"sluice/bench/target"
)

// Collector takes in what a run sees, while it runs, in memory that grows with
// the number of effects and seconds but not with that of requests. All methods
// may be called at once.
type Collector struct {
	s *scenario.Scenario

	mu       sync.Mutex
	effects  []effect // by number, from 1
	tenants  map[tenantKey]*Tenant
	stages   [][]load.ClassInterval // [stage][class]
	lag      *load.Histogram        // of all but warm-up
	seconds  []Second
	queue    []queueSecond
	held     map[int]*target.Held // by second
	inverted []Inversion
}

// effect is what clients learned of one effect.
type effect struct {
	class    int16
	known    bool
	admitted uint8 // attempts told that it is accepted, for the first time
	replayed uint8
	doubtful uint8 // attempts that did not learn
	first    time.Duration
}

type tenantKey struct {
	class int
	name  string
}

type queueSecond struct {
	age   time.Duration
	depth int
}

// tenantsMax is how many tenants are told apart; the rest share a line.
const tenantsMax = 10_000

// NewCollector for a run of s.
func NewCollector(s *scenario.Scenario) *Collector {
	c := &Collector{s: s, tenants: map[tenantKey]*Tenant{}, held: map[int]*target.Held{}, stages: make([][]load.ClassInterval, len(s.Stages))}
	for i := range c.stages {
		c.stages[i] = make([]load.ClassInterval, len(s.Classes))
	}
	return c
}

// End takes in one request's end.
func (c *Collector) End(r *load.Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for uint64(len(c.effects)) <= r.Effect {
		c.effects = append(c.effects, effect{})
	}
	e := &c.effects[r.Effect]
	if !e.known {
		e.known, e.class, e.first = true, int16(r.Class), r.First
	}
	letIn := false
	switch r.Ending {
	case load.Admitted:
		e.admitted++
		letIn = true
	case load.Replayed:
		e.replayed++
		letIn = true
	case load.Failed, load.TimedOut, load.Broken:
		e.doubtful++
	}
	k := tenantKey{r.Class, r.Tenant}
	t := c.tenants[k]
	if t == nil {
		if len(c.tenants) >= tenantsMax {
			k.name = "(others)"
		}
		if t = c.tenants[k]; t == nil {
			t = &Tenant{Name: k.name, Class: string(c.s.Classes[r.Class].Name)}
			c.tenants[k] = t
		}
	}
	t.Offered++
	if letIn {
		t.LetIn++
	}
}

// Interval takes in one second of load.
func (c *Collector) Interval(i *load.Interval) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stage := c.stageAt(i.Start)
	st := c.s.Stages[stage]
	sec := Second{T: int(i.Start / time.Second), Stage: string(st.Name), StageKind: string(st.Kind), Heat: make([]int64, heatRows)}
	for n := range i.Classes {
		ci := &i.Classes[n]
		c.stages[stage][n].Merge(ci)
		sec.Classes = append(sec.Classes, classSecond(string(c.s.Classes[n].Name), ci))
		addHeat(sec.Heat, ci.Response[load.Admitted])
		addHeat(sec.Heat, ci.Response[load.TimedOut])
	}
	sum := i.Sum()
	sec.Offered, sec.Endings, sec.Reasons = sum.Offered, endings(sum), sum.Reasons
	sec.LagP99 = load.Quantile(i.Lag, 0.99).Seconds()
	if st.Kind != scenario.WarmUp && i.Lag != nil {
		if c.lag == nil {
			c.lag = load.NewHistogram()
		}
		c.lag.Merge(i.Lag)
	}
	c.inverted = append(c.inverted, c.inversionsIn(i)...)
	c.seconds = append(c.seconds, sec)
}

func classSecond(name string, ci *load.ClassInterval) ClassSecond {
	cs := ClassSecond{
		Name: name, Offered: ci.Offered,
		Admitted: ci.Endings[load.Admitted] + ci.Endings[load.Replayed],
		Refused:  ci.Endings[load.Refused],
	}
	if cs.Offered > 0 {
		share := float64(cs.Admitted) / float64(cs.Offered)
		cs.AdmittedShare = &share
	}
	l := latencyOf(ci.Response[load.Admitted], ci.Response[load.TimedOut])
	cs.P50, cs.P99, cs.Max = l.P50, l.P99, l.Max
	return cs
}

func endings(ci *load.ClassInterval) map[string]int64 {
	m := map[string]int64{}
	for e := range load.Ending(load.Endings) {
		m[e.String()] = ci.Endings[e]
	}
	return m
}

// Queue takes in the state of the queue at t since the load began.
func (c *Collector) Queue(t time.Duration, s origin.Signal) {
	if t < 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := int(t / time.Second)
	for len(c.queue) <= n {
		c.queue = append(c.queue, queueSecond{})
	}
	q := &c.queue[n]
	q.age, q.depth = max(q.age, s.OldestAge), max(q.depth, s.Depth)
}

// Held takes in what the gateway holds at t since the load began.
func (c *Collector) Held(t time.Duration, h *target.Held) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[int(t/time.Second)] = h
}

// stageAt is the stage that t falls into; the last one for what comes later.
func (c *Collector) stageAt(t time.Duration) int {
	for i, st := range c.s.Stages {
		if t < time.Duration(st.For) {
			return i
		}
		t -= time.Duration(st.For)
	}
	return len(c.s.Stages) - 1
}
