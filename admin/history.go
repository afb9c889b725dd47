package admin

import (
	"maps"
	"sync"
	"time"

	"sluice/admission"
)

const (
	historyPoints = 300 // seconds
	rateWindow    = 10  // seconds over which current rates are taken
)

// Point is what happened in the second that ended at T. What is missing in V
// was zero.
type Point struct {
	T int64              `json:"t"` // milliseconds since 1970
	V map[string]float64 `json:"v"`
}

// history is guarded by its lock; newest last in both lists.
type history struct {
	mu     sync.Mutex
	points []*Point
	last   *sampled
	recent []*decided // the last rateWindow+1 samples
}

type sampled struct {
	at time.Time
	*snapshot
	totals Totals
}

// decided is the part of a sample that rates are taken from.
type decided struct {
	at       time.Time
	verdicts [][verdictCount]uint64  // by cell id
	tenants  map[string]tenantCounts // by label
}

// sample takes the point of the second that ends now; nil the first time.
func (l *Live) sample(now time.Time) *Point {
	next := l.metrics.take(now)
	series := make(map[string]float64)
	for _, s := range l.sections {
		if s.Series != nil {
			maps.Copy(series, s.Series())
		}
	}
	h := &l.history
	h.mu.Lock()
	defer h.mu.Unlock()
	var p *Point
	if h.last != nil {
		p = &Point{T: now.UnixMilli(), V: next.differ(h.last)}
		maps.Copy(p.V, series)
		h.points = append(h.points[max(0, len(h.points)-historyPoints+1):], p)
	}
	h.last = next
	h.recent = append(h.recent[max(0, len(h.recent)-rateWindow):], l.metrics.decided(next))
	return p
}

// latest is the last sample; before the first one, it is taken now.
func (l *Live) latest() *sampled {
	l.history.mu.Lock()
	defer l.history.mu.Unlock()
	if l.history.last == nil {
		return l.metrics.take(time.Now())
	}
	return l.history.last
}

func (m *Metrics) decided(s *sampled) *decided {
	d := &decided{s.at, make([][verdictCount]uint64, len(s.cells)), make(map[string]tenantCounts)}
	for id, c := range s.used() {
		d.verdicts[id] = c.verdicts
	}
	labels, counts := m.tenantCounts(s.snapshot)
	for i, label := range labels {
		d.tenants[label] = counts[i]
	}
	return d
}

// differ says what happened since before, by series name: counts per second,
// quantiles in seconds.
func (s *sampled) differ(before *sampled) map[string]float64 {
	v := make(map[string]float64)
	per := max(s.at.Sub(before.at).Seconds(), 0.001)
	// Most counts did not move, and have no need of their name.
	add := func(prefix, name string, n uint64) {
		if n > 0 {
			v[prefix+name] += float64(n) / per
		}
	}
	add("", "received", s.begun-before.begun)
	v["in_flight"] = float64(s.totals.InFlight)
	var admitted histogram
	for id, now := range s.used() {
		was := before.cell(id)
		class := "class/" + s.names[id].class + "/"
		for i := range now.verdicts {
			n := now.verdicts[i] - was.verdicts[i]
			add("", admission.Verdict(i).String(), n)
			add(class, admission.Verdict(i).String(), n)
		}
		for i := range reasonCount {
			reason := admission.Reason(i).String()
			add("refuse/", reason, now.refused[i]-was.refused[i])
			add("shadow/", reason, now.shadow[i]-was.shadow[i])
			add("failure/", reason, now.failures[i]-was.failures[i])
		}
		differSeconds(now, was, add)
		for o := range outcomeCount {
			d := now.duration[admission.Admit][o].minus(&was.duration[admission.Admit][o])
			admitted.merge(&d)
		}
	}
	quantiles := func(name string, b *bounds, h *histogram) {
		if p50, ok := h.quantile(b, .5); ok {
			p99, _ := h.quantile(b, .99)
			v[name+"/p50"], v[name+"/p99"] = p50.Seconds(), p99.Seconds()
		}
	}
	quantiles("admitted", requestBounds, &admitted)
	decide := s.overhead[stageDecide].minus(&before.overhead[stageDecide])
	quantiles("decide", overheadBounds, &decide)
	return v
}

// History is the last five minutes by the second: for each series as many
// values as there are times. A series that was not seen in a second is zero
// there, or null where zero would be a lie, as for a quantile of nothing.
type History struct {
	Times  []int64               `json:"times"` // milliseconds since 1970
	Series map[string][]*float64 `json:"series"`
}

// History returns the history, oldest first.
func (l *Live) History() History {
	h := &l.history
	h.mu.Lock()
	points := h.points[:len(h.points):len(h.points)]
	h.mu.Unlock()
	out := History{Times: make([]int64, len(points)), Series: make(map[string][]*float64)}
	for i, p := range points {
		out.Times[i] = p.T
		for name, v := range p.V {
			if out.Series[name] == nil {
				out.Series[name] = make([]*float64, len(points))
			}
			out.Series[name][i] = &v
		}
	}
	return out
}
