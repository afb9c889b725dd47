package admin

import (
	"slices"
	"sync"
	"time"
)

// Remembered is what is known of one decision: enough to make it again, as far
// as the tail and the readings kept reach.
type Remembered struct {
	Decision DecisionLine
	// Readings are those before the decision, oldest first.
	Readings []SignalLine
}

// Remember returns what is known of the decision about the request of that id;
// false where the tail does not hold it.
func (l *Live) Remember(id string) (Remembered, bool) {
	rec, found := l.find(id)
	if !found {
		return Remembered{}, false
	}
	m := Remembered{Decision: rec.full(l.hider)}
	m.Readings = l.readings.until(rec.received.Add(max(rec.asked, 0)))
	return m, true
}

// Signal keeps a reading for those who ask later.
func (l *Live) Signal(s SignalLine) {
	s.Kind = KindSignal
	l.readings.add(s)
}

// keptReadings is how many readings of one signal are kept.
const keptReadings = 300

// readings are the latest of each signal. The zero value is ready.
type readings struct {
	mu sync.Mutex
	of map[[2]string][]SignalLine // by queue and signal, oldest first
}

func (r *readings) add(s SignalLine) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = make(map[[2]string][]SignalLine)
	}
	name := [2]string{s.Queue, s.Signal}
	list := append(r.of[name], s)
	if len(list) >= 2*keptReadings {
		list = slices.Clone(list[len(list)-keptReadings:])
	}
	r.of[name] = list
}

// until returns the readings up to t, oldest first.
func (r *readings) until(t time.Time) (all []SignalLine) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, list := range r.of {
		for _, s := range list {
			if !s.Time.After(t) {
				all = append(all, s)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b SignalLine) int { return a.Time.Compare(b.Time) })
	return all
}
