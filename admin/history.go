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
	recent []*sampled // the last rateWindow+1 samples
}

type sampled struct {
	at time.Time
	*snapshot
	totals Totals
}

// sample takes the point of the second that ends now; nil the first time.
func (l *Live) sample(now time.Time) *Point {
	next := &sampled{at: now, snapshot: l.metrics.snapshot()}
	next.totals = next.snapshot.sum()
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
	if n := len(h.recent); n > 0 {
		p = &Point{T: now.UnixMilli(), V: next.differ(h.recent[n-1], l.metrics)}
		maps.Copy(p.V, series)
		h.points = append(h.points[max(0, len(h.points)-historyPoints+1):], p)
	}
	h.recent = append(h.recent[max(0, len(h.recent)-rateWindow):], next)
	return p
}

// differ says what happened since before, by series name: counts per second,
// quantiles in seconds.
func (s *sampled) differ(before *sampled, m *Metrics) map[string]float64 {
	v := make(map[string]float64)
	per := max(s.at.Sub(before.at).Seconds(), 0.001)
	add := func(name string, n uint64) {
		if n > 0 {
			v[name] += float64(n) / per
		}
	}
	add("received", s.begun-before.begun)
	v["in_flight"] = float64(s.totals.InFlight)
	var admitted histogram
	for id := range s.cells {
		now, was := &s.cells[id], new(cell)
		if id < len(before.cells) {
			was = &before.cells[id]
		}
		class := "class/" + s.names[id].class + "/"
		for i := range now.verdicts {
			n := now.verdicts[i] - was.verdicts[i]
			add(admission.Verdict(i).String(), n)
			add(class+admission.Verdict(i).String(), n)
		}
		for i := range reasonCount {
			reason := admission.Reason(i).String()
			add("refuse/"+reason, now.refused[i]-was.refused[i])
			add("shadow/"+reason, now.shadow[i]-was.shadow[i])
			add("failure/"+reason, now.failures[i]-was.failures[i])
		}
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
