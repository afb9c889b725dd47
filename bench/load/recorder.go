package load

import (
	"sync"
	"time"
)

// Report tells of one request at its end.
type Report struct {
	Effect   uint64
	Class    int
	Tenant   string
	Attempt  int  // from 1
	Repeat   bool // repeats an earlier request under the same key
	Conflict bool // misuses the key of another effect
	// First is the intended time of the effect's first request, Intended that of
	// this one, Sent and Ended what really happened; all since the load's start.
	First, Intended, Sent, Ended time.Duration
	Ending                       Ending
	Reason                       string
	RetryAfter                   time.Duration
	// Returns says that the client will send this effect again.
	Returns bool
}

// Live is what the load has done so far.
type Live struct {
	Elapsed  time.Duration
	Stage    int
	Offered  int64
	InFlight int64
	Waiting  int64 // clients that will come back
	Classes  []LiveClass
	LagP99   time.Duration // of requests sent since the previous reading
}

// LiveClass is what one class has done so far.
type LiveClass struct {
	Name    string
	Offered int64
	Endings [Endings]int64
	Reasons map[string]int64
	// P99 of the response time of requests admitted since the previous reading;
	// 0 when there were too few to say (fewer than 1000 leave less than ten
	// beyond it), in which case Max stands in.
	P99, Max time.Duration
}

// Ended is how many requests of all classes ended in e.
func (l *Live) Ended(e Ending) (n int64) {
	for i := range l.Classes {
		n += l.Classes[i].Endings[e]
	}
	return n
}

// Reasons adds up the reasons of all classes.
func (l *Live) Reasons() map[string]int64 {
	all := map[string]int64{}
	for i := range l.Classes {
		for r, n := range l.Classes[i].Reasons {
			all[r] += n
		}
	}
	return all
}

// recorder sorts ends of requests into intervals and hands each interval over
// once nothing can be added to it any more.
type recorder struct {
	mu      sync.Mutex
	classes []Class
	open    []*Interval // consecutive seconds from first
	first   int
	emit    func(*Interval)
	emitMu  sync.Mutex // keeps intervals in order
	live    Live
	recent  []*Histogram // admitted response times since the last reading
	lag     *Histogram
	reached time.Duration // nothing intended earlier is still to be offered
}

func newRecorder(classes []Class, emit func(*Interval)) *recorder {
	r := &recorder{classes: classes, emit: emit, recent: make([]*Histogram, len(classes)), lag: NewHistogram()}
	r.live.Classes = make([]LiveClass, len(classes))
	for i, c := range classes {
		r.live.Classes[i] = LiveClass{Name: c.Name, Reasons: map[string]int64{}}
		r.recent[i] = NewHistogram()
	}
	return r
}

// advance says that nothing intended before t is still to be offered.
func (r *recorder) advance(t time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reached = max(r.reached, t)
}

// interval is the second that t falls into.
func (r *recorder) interval(t time.Duration) *Interval {
	n := int(t / time.Second)
	for r.first+len(r.open) <= n {
		r.open = append(r.open, &Interval{
			Start:   time.Duration(r.first+len(r.open)) * time.Second,
			Classes: make([]ClassInterval, len(r.classes)),
		})
	}
	return r.open[n-r.first]
}

// offer counts a request that is due.
func (r *recorder) offer(q *request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// A client that came back sooner than the dispatcher could notice.
	q.intended = max(q.intended, r.reached.Truncate(time.Second))
	i := r.interval(q.intended)
	if !i.staged {
		i.staged, i.Stage = true, q.stage
	}
	i.pending++
	c := &i.Classes[q.class]
	c.Offered++
	if q.attempt == 1 && !q.repeat {
		c.First++
	}
	if q.obeyed {
		c.Obeyed++
	}
	r.live.Offered++
	r.live.InFlight++
	r.live.Stage = q.stage
	r.live.Classes[q.class].Offered++
}

// end counts how q ended. sent and ended are since the load's start.
func (r *recorder) end(q *request, a *answer, sent, ended time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.interval(q.intended)
	i.pending--
	c, l := &i.Classes[q.class], &r.live.Classes[q.class]
	c.Endings[a.ending]++
	l.Endings[a.ending]++
	r.live.InFlight--
	if a.reason != "" {
		if c.Reasons == nil {
			c.Reasons = map[string]int64{}
		}
		c.Reasons[a.reason]++
		l.Reasons[a.reason]++
	}
	if a.ending == Unsent {
		return
	}
	if q.obeyed && (a.ending == Admitted || a.ending == Replayed) {
		c.Kept++
	}
	observe(&c.Response[a.ending], ended-q.intended)
	observe(&c.Service[a.ending], ended-sent)
	observe(&i.Lag, sent-q.intended)
	observe(&r.lag, sent-q.intended)
	if a.ending == Admitted {
		observe(&r.recent[q.class], ended-q.intended)
	}
}

// release hands over the intervals that nothing can be added to any more; with
// all set, every interval.
func (r *recorder) release(all bool) {
	r.emitMu.Lock()
	defer r.emitMu.Unlock()
	for {
		r.mu.Lock()
		if len(r.open) == 0 || !all && (r.open[0].pending > 0 || r.open[0].Start+time.Second > r.reached) {
			r.mu.Unlock()
			return
		}
		i := r.open[0]
		r.open = r.open[1:]
		r.first++
		r.mu.Unlock()
		if r.emit != nil {
			r.emit(i)
		}
	}
}

// read returns the counts so far, and latencies since the previous reading.
func (r *recorder) read(now time.Duration, waiting int) Live {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.live
	l.Elapsed, l.Waiting = now, int64(waiting)
	l.LagP99 = Quantile(r.lag, 0.99)
	r.lag.Reset()
	l.Classes = make([]LiveClass, len(r.live.Classes))
	for i := range l.Classes {
		c := r.live.Classes[i]
		c.Reasons = make(map[string]int64, len(c.Reasons))
		for k, v := range r.live.Classes[i].Reasons {
			c.Reasons[k] = v
		}
		c.P99 = Quantile(r.recent[i], 0.99)
		c.Max = time.Duration(r.recent[i].Max()) * time.Microsecond
		r.recent[i].Reset()
		l.Classes[i] = c
	}
	return l
}

// Quantile of h, for p from 0 to below 1: 0 unless at least ten samples lie
// beyond it, since fewer say nothing about it.
func Quantile(h *Histogram, p float64) time.Duration {
	if h == nil || float64(h.TotalCount())*(1-p) < 10-1e-6 {
		return 0
	}
	return time.Duration(h.ValueAtQuantile(p*100)) * time.Microsecond
}
