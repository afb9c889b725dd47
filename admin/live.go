package admin

import (
	"context"
	"slices"
	"sync"
	"time"

	"sluice/admission"
)

// LiveOptions configure [NewLive]. The zero value is usable.
type LiveOptions struct {
	// Tail is how many decisions are kept; 0 means 1024.
	Tail int
	// PerSecond is how many decisions of each reason (and of each verdict
	// that needs none) are kept in a second, so that a common one does not
	// push out a rare one; 0 means 20.
	PerSecond int
	// Sections add their series to the history.
	Sections []Section
	// Hider hides keys and promises; nil means one of the view's own.
	Hider *Hider
}

// Live is the gateway's recent past: the last decisions, and five minutes of
// counts by the second. The [Server] that it is given to samples the history
// from [Metrics], so it costs requests nothing and agrees with them.
//
// It is an [admission.Observer], safe for concurrent use; make one with
// [NewLive].
type Live struct {
	policies[struct{}]
	metrics   *Metrics
	sections  []Section
	perSecond uint32
	hider     *Hider
	budgets   [kinds]budget

	mu   sync.Mutex // guards the tail
	tail []record   // a ring
	kept uint64     // records ever kept; the next goes to tail[kept % len(tail)]

	readings readings
	history  history
}

// NewLive returns a live view of what m counts.
func NewLive(m *Metrics, o LiveOptions) *Live {
	if o.Tail <= 0 {
		o.Tail = 1024
	}
	if o.PerSecond <= 0 {
		o.PerSecond = 20
	}
	if o.Hider == nil {
		o.Hider = NewHider(nil)
	}
	l := &Live{metrics: m, sections: o.Sections, perSecond: uint32(o.PerSecond), hider: o.Hider, tail: make([]record, o.Tail)}
	l.SetPolicy(&Policy{})
	return l
}

// SetPolicy tells what the indexes in events of p's routes mean.
func (l *Live) SetPolicy(p *Policy) { l.add(p, struct{}{}) }

// Observe implements [admission.Observer]. It does not allocate.
func (l *Live) Observe(e *admission.Event) {
	if !l.budgets[kindOf(e)].spend(endSecond(e), l.perSecond) {
		return
	}
	v, _ := l.of(e.Request.Route)
	l.mu.Lock()
	l.tail[l.kept%uint64(len(l.tail))].set(e, v.Policy)
	l.kept++
	l.mu.Unlock()
}

// Recent returns the latest decisions kept, newest first, at most n.
func (l *Live) Recent(n int) []Line {
	lines, _ := l.since(0)
	slices.Reverse(lines)
	return lines[:min(n, len(lines))]
}

// find returns the latest record kept of the request of that id.
func (l *Live) find(id string) (record, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	size := uint64(len(l.tail))
	for i := l.kept; i > l.kept-min(l.kept, size); i-- {
		if rec := &l.tail[(i-1)%size]; rec.id.String() == id {
			return *rec, true
		}
	}
	return record{}, false
}

// since returns the decisions kept after the first seen ones, oldest first,
// and how many there have been in all.
func (l *Live) since(seen uint64) (lines []Line, kept uint64) {
	l.mu.Lock()
	kept = l.kept
	size := uint64(len(l.tail))
	if kept > size {
		seen = max(seen, kept-size)
	}
	records := make([]record, 0, kept-min(seen, kept))
	for i := seen; i < kept; i++ {
		records = append(records, l.tail[i%size])
	}
	l.mu.Unlock()
	lines = make([]Line, len(records))
	for i := range records {
		lines[i] = records[i].line()
	}
	return lines, kept
}

// run samples the metrics once a second until ctx ends, and calls after with
// each second's point.
func (l *Live) run(ctx context.Context, after func(*Point)) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	l.sample(time.Now())
	for {
		select {
		case now := <-tick.C:
			after(l.sample(now))
		case <-ctx.Done():
			return
		}
	}
}
