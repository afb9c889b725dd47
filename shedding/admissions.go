package shedding

import "sync/atomic"

// admissions is the gateway's own log of what it let into a queue: how much up
// to now, and how much up to any time within its reach. Counting is lock-free;
// roll, at and reaches are for one goroutine at a time.
type admissions struct {
	total atomic.Int64

	start float64   // when the log began
	width float64   // seconds between two entries
	cum   []float64 // ring: the total at start + k*width is at k modulo its length
	last  int       // k of the newest entry
}

// logEntries is the length of the ring. With entries a 512th of the limit
// apart, it reaches back four times the limit.
const logEntries = 2048

func newAdmissions(start, limit float64) *admissions {
	return &admissions{start: start, width: limit / (logEntries / 4), cum: make([]float64, logEntries)}
}

// add counts n admissions; a negative n takes them back.
func (a *admissions) add(n int64) { a.total.Add(n) }

// roll writes the entries that have become due at now.
func (a *admissions) roll(now float64) {
	k := int((now - a.start) / a.width)
	if k <= a.last {
		return
	}
	n := float64(a.total.Load())
	from := max(a.last+1, k-len(a.cum)+1)
	for i := from; i <= k; i++ {
		a.cum[i%len(a.cum)] = n
	}
	a.last = k
}

// reaches reports whether the log knows what was admitted by time t.
func (a *admissions) reaches(t float64) bool {
	return t >= a.start && t >= a.start+float64(a.last-len(a.cum)+1)*a.width
}

// at is how much had been admitted by time t, seen from now. Before its reach
// the log gives its oldest entry.
func (a *admissions) at(t, now float64) float64 {
	if t >= now {
		return float64(a.total.Load())
	}
	x := (t - a.start) / a.width
	oldest := max(0, a.last-len(a.cum)+1)
	if x <= float64(oldest) {
		return a.cum[oldest%len(a.cum)]
	}
	k := int(x)
	lo := a.cum[min(k, a.last)%len(a.cum)]
	if k < a.last {
		return lo + (x-float64(k))*(a.cum[(k+1)%len(a.cum)]-lo)
	}
	// Within the entry still open: the rest of the total, spread evenly.
	from := a.start + float64(a.last)*a.width
	if now <= from {
		return lo
	}
	return lo + (t-from)/(now-from)*(float64(a.total.Load())-lo)
}

// adopt takes over the entries of another log, whatever their width.
func (a *admissions) adopt(old *admissions, now float64) {
	a.start = old.start
	if oldest := old.start + float64(max(0, old.last-len(old.cum)+1))*old.width; oldest > a.start {
		a.start = oldest
	}
	a.last = int((now - a.start) / a.width)
	for k := max(0, a.last-len(a.cum)+1); k <= a.last; k++ {
		a.cum[k%len(a.cum)] = old.at(a.start+float64(k)*a.width, now)
	}
	a.total.Store(old.total.Load())
}
