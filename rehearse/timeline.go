package rehearse

import (
	"sort"
	"time"

	"sluice/shedding"
)

// Timeline is what a queue is like over time, in the order of At. Between two
// points that both tell a figure, it moves in a straight line; after the last
// one it stays. The zero value is an empty queue: age and depth are 0.
type Timeline []Point

// Point is a queue at one time. What is not known is not told by the signal.
type Point struct {
	At    time.Duration  // since the beginning
	Age   shedding.Value // of the oldest work, in seconds
	Depth shedding.Value // how much work waits
	Done  shedding.Value // completions per second, from here on
	// Silent: from here to the next point the signal cannot be read.
	Silent bool
	// Frozen: from here to the next point the figures of this one are repeated
	// to the last digit, as broken exporters do. A true queue never stands quite
	// still, so otherwise ages waver by a millisecond.
	Frozen bool
}

// empty is a queue with nothing in it.
var empty = Timeline{{Age: shedding.Known(0), Depth: shedding.Known(0)}}

// at is the point that holds at t, and the one after it.
func (l Timeline) at(t time.Duration) (now, next *Point) {
	i := sort.Search(len(l), func(i int) bool { return l[i].At > t })
	if i < len(l) {
		next = &l[i]
	}
	if i == 0 {
		return nil, next // nothing is said of the time before
	}
	return &l[i-1], next
}

// sample is the n-th reading, of the queue as it is at t; false where the signal
// is silent.
func (l Timeline) sample(t time.Duration, n int) (shedding.Sample, bool) {
	if len(l) == 0 {
		l = empty
	}
	now, next := l.at(t)
	if now == nil || now.Silent {
		return shedding.Sample{}, false
	}
	s := shedding.Sample{Age: now.Age, Depth: now.Depth}
	if _, counts := now.Done.Get(); counts {
		s.Done = shedding.Known(l.done(t))
	}
	if now.Frozen {
		if counted, counts := s.Done.Get(); counts {
			s.Done = shedding.Known(counted - now.Done.Or(0)*(t-now.At).Seconds())
		}
		return s, true
	}
	if next != nil && !next.Silent {
		part := float64(t-now.At) / float64(next.At-now.At)
		s.Age = between(now.Age, next.Age, part)
		s.Depth = between(now.Depth, next.Depth, part)
	}
	if age, ok := s.Age.Get(); ok && age > 0 {
		s.Age = shedding.Known(age + 0.001*float64(n%2))
	}
	return s, true
}

// between is the value at a part of the way from one to the other.
func between(from, to shedding.Value, part float64) shedding.Value {
	a, okA := from.Get()
	b, okB := to.Get()
	if !okA || !okB {
		return from
	}
	return shedding.Known(a + (b-a)*part)
}

// done is how much has been completed by t.
func (l Timeline) done(t time.Duration) float64 {
	sum := 0.0
	for i, p := range l {
		end := t
		if i+1 < len(l) {
			end = min(t, l[i+1].At)
		}
		if end <= p.At {
			break
		}
		sum += p.Done.Or(0) * (end - p.At).Seconds()
	}
	return sum
}
