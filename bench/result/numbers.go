package result

import (
	"math"
	"sort"
	"strconv"
	"time"

	"sluice/bench/load"
	"sluice/bench/origin"
)

// ledgerFacts is what the origin's ledger says about the effects that the load
// asked for.
type ledgerFacts struct {
	recorded []uint16 // by effect
	done     []int64  // by effect: first end of work since the load began, in ns; -1 not done
	keyed    map[string]keyFacts
	strange  int64 // entries of effects that nobody asked for
	totals   origin.Totals
}

type keyFacts struct {
	times int
	class int16
}

func (c *Collector) read(l *origin.Ledger, begin time.Time) *ledgerFacts {
	f := &ledgerFacts{
		recorded: make([]uint16, len(c.effects)),
		done:     make([]int64, len(c.effects)),
		keyed:    map[string]keyFacts{},
		totals:   l.Totals(),
	}
	for i := range f.done {
		f.done[i] = -1
	}
	l.Each(func(e *origin.Entry) bool {
		n, err := strconv.ParseUint(e.Effect, 10, 64)
		if err != nil || n >= uint64(len(c.effects)) || !c.effects[n].known {
			f.strange++
			return true
		}
		if f.recorded[n] < math.MaxUint16 {
			f.recorded[n]++
		}
		if !e.Done.IsZero() {
			if at := e.Done.Sub(begin).Nanoseconds(); f.done[n] < 0 || at < f.done[n] {
				f.done[n] = at
			}
		}
		if e.Key != "" {
			k := f.keyed[e.Tenant+"\x00"+e.Key]
			k.times++
			k.class = c.effects[n].class
			f.keyed[e.Tenant+"\x00"+e.Key] = k
		}
		return true
	})
	return f
}

// tally is what became of effects: by class, and by stage and class.
type tally struct {
	classes []effectCounts
	stages  [][]effectCounts
	excess  int64 // recorded more often than any client can account for
	doubted int64 // requests whose end their client did not learn
}

type effectCounts struct {
	asked, accepted, inTime, duplicates, lost int64
	finished                                  int64 // in time, by when they finished
}

// tally joins what clients learned with what the ledger says, and fills in the
// seconds' goodput.
func (c *Collector) tally(f *ledgerFacts) *tally {
	t := &tally{classes: make([]effectCounts, len(c.s.Classes)), stages: make([][]effectCounts, len(c.s.Stages))}
	for i := range t.stages {
		t.stages[i] = make([]effectCounts, len(c.s.Classes))
	}
	warm := func(stage int) bool { return c.s.Stages[stage].Kind == "warmup" }
	for n := range c.effects {
		e := &c.effects[n]
		if !e.known {
			continue
		}
		stage := c.stageAt(e.first)
		both := []*effectCounts{&t.stages[stage][e.class]}
		if !warm(stage) {
			both = append(both, &t.classes[e.class])
		}
		recorded := int(f.recorded[n])
		told := e.admitted > 0 || e.replayed > 0
		deadline := time.Duration(c.s.Classes[e.class].Deadline)
		inTime := f.done[n] >= 0 && (deadline == 0 || f.done[n]-int64(e.first) <= int64(deadline))
		for _, ec := range both {
			ec.asked++
			if told {
				ec.accepted++
				if inTime {
					ec.inTime++
				}
			}
			if e.admitted > 0 && recorded == 0 {
				ec.lost++
			}
		}
		t.doubted += int64(e.doubtful)
		t.excess += int64(max(0, recorded-int(e.admitted)-int(e.doubtful)))
		if inTime {
			at := time.Duration(f.done[n])
			in := c.stageAt(at)
			t.stages[in][e.class].finished++
			if !warm(in) {
				t.classes[e.class].finished++
			}
			if s := int(at / time.Second); s < len(c.seconds) {
				c.seconds[s].InTime++
				c.seconds[s].Classes[e.class].InTime++
			}
		}
	}
	for _, k := range f.keyed {
		if k.times > 1 {
			t.classes[k.class].duplicates += int64(k.times - 1)
		}
	}
	return t
}

// numbers from what a class saw and what became of its effects.
func numbers(name string, seconds float64, ci *load.ClassInterval, ec effectCounts) Numbers {
	n := Numbers{
		Name: name, Seconds: seconds, Offered: ci.Offered, First: ci.First,
		Endings: endings(ci), Reasons: ci.Reasons,
		Asked: ec.asked, Accepted: ec.accepted, InTime: ec.inTime,
		Duplicates: ec.duplicates, Lost: ec.lost, Obeyed: ci.Obeyed, Kept: ci.Kept,
		Response: latencyOf(ci.Response[load.Admitted], ci.Response[load.TimedOut]),
		Service:  latencyOf(ci.Service[load.Admitted], ci.Service[load.TimedOut]),
		Refusal:  latencyOf(ci.Response[load.Refused]),
		Replay:   latencyOf(ci.Response[load.Replayed]),
	}
	if n.Offered > 0 {
		of := func(es ...load.Ending) float64 {
			var sum int64
			for _, e := range es {
				sum += ci.Endings[e]
			}
			return float64(sum) / float64(n.Offered)
		}
		n.AdmittedShare = of(load.Admitted, load.Replayed)
		n.RefusedShare = of(load.Refused)
		n.FailedShare = of(load.Failed, load.TimedOut, load.Broken)
	}
	if seconds > 0 {
		n.Goodput = float64(ec.finished) / seconds
	}
	return n
}

func (e *effectCounts) add(o effectCounts) {
	e.asked += o.asked
	e.accepted += o.accepted
	e.inTime += o.inTime
	e.duplicates += o.duplicates
	e.lost += o.lost
	e.finished += o.finished
}

// fill writes the figures of stages, classes and all into r.
func (c *Collector) fill(r *Result, t *tally) {
	begin := 0.0
	measured := 0.0
	byClass := make([]load.ClassInterval, len(c.s.Classes))
	for i, st := range c.s.Stages {
		seconds := time.Duration(st.For).Seconds()
		if r.Interrupted > 0 {
			seconds = min(seconds, max(r.Interrupted-begin, 0))
		}
		out := Stage{Kind: string(st.Kind), Start: begin, From: float64(st.Rate), To: float64(st.Rate)}
		if st.To != nil {
			out.To = float64(*st.To)
		}
		var all load.ClassInterval
		var ec effectCounts
		for n := range c.s.Classes {
			ci := &c.stages[i][n]
			out.Classes = append(out.Classes, numbers(string(c.s.Classes[n].Name), seconds, ci, t.stages[i][n]))
			all.Merge(ci)
			ec.add(t.stages[i][n])
			if st.Kind != "warmup" {
				byClass[n].Merge(ci)
			}
		}
		out.Numbers = numbers(string(st.Name), seconds, &all, ec)
		first, last := int(begin), int(math.Ceil(begin+seconds))
		for s := first; s < last && s < len(c.queue); s++ {
			out.QueueAgeMax = max(out.QueueAgeMax, c.queue[s].age.Seconds())
		}
		if st.Kind == "recover" {
			out.Recovery = c.recovery(first, last)
		}
		if st.Kind != "warmup" {
			measured += seconds
		}
		begin += seconds
		r.Stages = append(r.Stages, out)
	}
	r.Seconds = begin
	var all load.ClassInterval
	var ec effectCounts
	for n, cl := range c.s.Classes {
		r.Classes = append(r.Classes, numbers(string(cl.Name), measured, &byClass[n], t.classes[n]))
		all.Merge(&byClass[n])
		ec.add(t.classes[n])
	}
	r.Total = numbers("all", measured, &all, ec)
	for s := range c.seconds {
		if s < len(c.queue) {
			c.seconds[s].QueueAge, c.seconds[s].Depth = c.queue[s].age.Seconds(), c.queue[s].depth
		}
		c.seconds[s].Held = c.held[c.seconds[s].T]
	}
	r.Intervals = c.seconds
	for _, t := range c.tenants {
		r.Tenants = append(r.Tenants, *t)
	}
	sort.Slice(r.Tenants, func(i, j int) bool {
		a, b := r.Tenants[i], r.Tenants[j]
		if a.Offered != b.Offered {
			return a.Offered > b.Offered
		}
		return a.Name+a.Class < b.Name+b.Class
	})
}

// recovery is how long after second first everything offered is admitted again,
// up to second last; nil where that does not happen.
func (c *Collector) recovery(first, last int) *float64 {
	from := -1
	for s := first; s < last && s < len(c.seconds); s++ {
		sec := &c.seconds[s]
		in := sec.Endings["admitted"] + sec.Endings["replayed"] + sec.Endings["conflicted"]
		if float64(in) < 0.99*float64(sec.Offered) {
			from = -1
		} else if from < 0 {
			from = s
		}
	}
	if from < 0 {
		return nil
	}
	v := float64(from - first)
	return &v
}

// capacityReasons are refusals for lack of capacity; a tenant's own limit is
// none, and no matter of classes.
var capacityReasons = []string{"shed", "deferred", "origin_full", "signal_lost"}

// inversionsIn compares each class with each less important one in one second.
// Four standard deviations keep chance out of a run of thousands of seconds.
func (c *Collector) inversionsIn(i *load.Interval) (all []Inversion) {
	for hi := range i.Classes {
		for lo := hi + 1; lo < len(i.Classes); lo++ {
			h, l := &i.Classes[hi], &i.Classes[lo]
			if h.Offered < 20 || l.Offered < 20 {
				continue
			}
			p, q := capacityShare(h), capacityShare(l)
			nh, nl := float64(h.Offered), float64(l.Offered)
			pooled := (p*nh + q*nl) / (nh + nl)
			sigma := math.Sqrt(pooled * (1 - pooled) * (1/nh + 1/nl))
			if sigma > 0 && p-q > 4*sigma {
				all = append(all, Inversion{
					Second: int(i.Start / time.Second), Stage: string(c.s.Stages[c.stageAt(i.Start)].Name),
					Higher: string(c.s.Classes[hi].Name), Lower: string(c.s.Classes[lo].Name),
					HigherShare: p, LowerShare: q,
				})
			}
		}
	}
	return all
}

// CapacityRefusals is how many requests were refused for lack of capacity.
func CapacityRefusals(n *Numbers) (sum int64) {
	for _, r := range capacityReasons {
		sum += n.Reasons[r]
	}
	return sum
}

func capacityShare(c *load.ClassInterval) float64 {
	var n int64
	for _, r := range capacityReasons {
		n += c.Reasons[r]
	}
	return float64(n) / float64(c.Offered)
}
