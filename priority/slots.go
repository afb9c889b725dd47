package priority

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"sluice/admission"
)

// Slots bounds how many requests are at the origin at a time, and is the room
// in which the others wait.
//
// A request that finds a slot free takes it. Otherwise it waits, for at most
// its class's MaxWait, and is handed the slot of a request that ends:
//
//   - Classes that hold fewer slots than their share come first, and take
//     turns in proportion to their shares. So no class starves, whatever the
//     others ask for.
//   - What is left over, because some class does not use its share, goes to
//     the most important class that waits. It is lent: nobody is interrupted,
//     but every slot that becomes free goes to those below their share first.
//   - In a class, tenants take turns, each in the order in which it came.
//
// Each class has as many places to wait. Where they are all taken, a tenant
// that holds many makes room for one that holds few. Who cannot be served
// before its client gives up is refused at once, rather than waiting in vain.
//
// Slots is safe for concurrent use. Use [NewSlots].
type Slots struct {
	mu      sync.Mutex
	opts    SlotOptions
	limit   int // slots there are now: opts.Max, or fewer if learned
	used    int
	classes []*slotClass
	learned *limiter // nil: the limit is fixed

	service float64 // seconds that a request holds its slot, smoothed
	seen    bool
}

// SlotOptions describes a set of slots.
type SlotOptions struct {
	// Max is the most requests at the origin at a time; at least 1.
	Max int
	// Learn lowers the limit below Max while latency shows that requests queue
	// inside the origin. It never exceeds Max.
	Learn bool
	// Classes has one entry for each class, most important first.
	Classes []SlotClass
	// Waiting is how many requests of each class may wait; 0: as many as Max,
	// but at least 16.
	Waiting int
}

// SlotClass is what one class gets of the slots.
type SlotClass struct {
	// Share of the slots, relative to the sum of all shares. Above 0.
	Share float64
	// MaxWait bounds waiting for a slot; 0: do not wait.
	MaxWait time.Duration
}

func (o SlotOptions) filled() (SlotOptions, error) {
	var errs []error
	if o.Max < 1 {
		errs = append(errs, fmt.Errorf("priority: Max is %d, want at least 1 slot", o.Max))
	}
	if len(o.Classes) == 0 {
		errs = append(errs, errors.New("priority: Classes is empty, want one entry for each class"))
	}
	if o.Waiting < 0 {
		errs = append(errs, fmt.Errorf("priority: Waiting is %d, want 0 (the default) or more", o.Waiting))
	}
	if o.Waiting == 0 {
		o.Waiting = max(o.Max, 16)
	}
	sum := 0.0
	classes := make([]SlotClass, len(o.Classes))
	for i, c := range o.Classes {
		if !(c.Share > 0) || math.IsInf(c.Share, 0) {
			errs = append(errs, fmt.Errorf("priority: class %d has Share %v, want more than 0", i, c.Share))
		}
		if c.MaxWait < 0 {
			errs = append(errs, fmt.Errorf("priority: class %d has MaxWait %v, want 0 or more", i, c.MaxWait))
		}
		classes[i] = c
		sum += c.Share
	}
	for i := range classes {
		classes[i].Share /= sum
	}
	o.Classes = classes
	return o, errors.Join(errs...)
}

// NewSlots returns the slots described by o, or every problem that o has.
func NewSlots(o SlotOptions) (*Slots, error) {
	s := new(Slots)
	if err := s.Resize(o); err != nil {
		return nil, err
	}
	return s, nil
}

// Resize makes s as described by o, or leaves it as it was. Requests at the
// origin stay there and those that wait go on waiting; slots that are too many
// go as they become free. A class that is gone counts as the last.
func (s *Slots) Resize(o SlotOptions) error {
	o, err := o.filled()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.classes) < len(o.Classes) {
		s.classes = append(s.classes, new(slotClass))
	}
	for last := len(s.classes) - 1; last >= len(o.Classes); last-- {
		s.classes[last-1].absorb(s.classes[last])
		s.classes = s.classes[:last]
	}
	for i := range s.classes {
		s.classes[i].share = o.Classes[i].Share
	}
	s.opts = o
	switch {
	case !o.Learn:
		s.learned, s.limit = nil, o.Max
	case s.learned == nil:
		s.learned = newLimiter(o.Max)
		s.limit = s.learned.limit()
	default:
		s.learned.max = float64(o.Max)
		s.limit = s.learned.limit()
	}
	s.dispatchLocked(time.Now())
	return nil
}

// Slot is one place at the origin. The zero value is none. It is ended exactly
// once, by [Slots.Release].
type Slot struct {
	held  bool
	class int
	since int64 // nanoseconds of Unix time
}

// Held reports whether s is a place at all.
func (s Slot) Held() bool { return s.held }

// TryAcquire takes a slot for a request of the class if one is free. It does
// not wait and does not allocate.
func (s *Slots) TryAcquire(now time.Time, class admission.Class) (Slot, bool) {
	s.mu.Lock()
	if s.used >= s.limit {
		s.mu.Unlock()
		return Slot{}, false
	}
	slot := s.takeLocked(now, s.classOf(class))
	s.mu.Unlock()
	return slot, true
}

// Wait takes a slot for a request of the class, and waits for one if need be:
// for at most the class's MaxWait, and not beyond the end of ctx. The deadline
// of ctx is when the client gives up. The refusal is zero if a slot was taken.
func (s *Slots) Wait(ctx context.Context, class admission.Class, tenant string) (Slot, admission.Refusal) {
	now := time.Now()
	s.mu.Lock()
	c := s.classOf(class)
	if s.used < s.limit {
		slot := s.takeLocked(now, c)
		s.mu.Unlock()
		return slot, admission.Refusal{}
	}
	maxWait := s.opts.Classes[c].MaxWait
	expected := s.expectedLocked(c, tenant)
	deadline, bounded := ctx.Deadline()
	tooLate := bounded && now.Add(seconds(expected+s.service)).After(deadline)
	if maxWait == 0 || tooLate || ctx.Err() != nil {
		s.classes[c].refused++
		s.mu.Unlock()
		return Slot{}, full(expected)
	}
	w := s.classes[c].enter(tenant, s.opts.Waiting)
	if w == nil {
		s.classes[c].refused++
		s.mu.Unlock()
		return Slot{}, full(expected)
	}
	s.mu.Unlock()

	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	select {
	case <-w.done:
	case <-timer.C:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// The slot may have come in the same moment as the end of waiting.
	if w.slot.Held() {
		return w.slot, admission.Refusal{}
	}
	c = min(c, len(s.classes)-1) // classes may have become fewer meanwhile
	if !w.out {
		w.line.class.leave(w)
	}
	s.classes[c].refused++
	return Slot{}, full(s.expectedLocked(c, tenant))
}

// takeLocked takes a slot for class c, whether there is one or not.
func (s *Slots) takeLocked(now time.Time, c int) Slot {
	s.used++
	s.classes[c].used++
	s.classes[c].served++
	if s.learned != nil {
		s.learned.peak = max(s.learned.peak, s.used)
	}
	return Slot{held: true, class: c, since: now.UnixNano()}
}

// Release ends a slot at now. A slot whose request reached the origin says
// something about its latency; others do not.
func (s *Slots) Release(now time.Time, slot Slot, reached bool) {
	if !slot.Held() {
		return
	}
	s.mu.Lock()
	s.used--
	s.classes[min(slot.class, len(s.classes)-1)].used--
	if held := float64(now.UnixNano()-slot.since) / 1e9; reached && held >= 0 {
		if !s.seen {
			s.service, s.seen = held, true
		}
		s.service += 0.05 * (held - s.service)
		if s.learned != nil {
			s.learned.observe(now, held)
			s.limit = s.learned.limit()
		}
	}
	s.dispatchLocked(now)
	s.mu.Unlock()
}

// dispatchLocked hands free slots to those who wait.
func (s *Slots) dispatchLocked(now time.Time) {
	for s.used < s.limit && s.waitingLocked() {
		c := s.nextLocked()
		if c < 0 {
			return
		}
		w := s.classes[c].next()
		w.slot = s.takeLocked(now, c)
		close(w.done)
	}
}

// waitingLocked reports whether anybody waits. Who does not takes no part in
// the turns.
func (s *Slots) waitingLocked() bool {
	for _, c := range s.classes {
		if c.waiting > 0 {
			return true
		}
		c.turn = 0
	}
	return false
}

// nextLocked is the class whose turn it is, or -1 if nobody waits.
func (s *Slots) nextLocked() int {
	// Weighted turns among the classes below their share, smoothly: each
	// gains its share, the one with the most pays for all.
	best, sum := -1, 0.0
	for i := range s.classes {
		c := s.classes[i]
		if c.waiting == 0 {
			c.turn = 0
			continue
		}
		if float64(c.used) >= math.Ceil(c.share*float64(s.limit)-1e-9) {
			continue
		}
		c.turn += c.share
		sum += c.share
		if best < 0 || c.turn > s.classes[best].turn+1e-9 {
			best = i
		}
	}
	if best >= 0 {
		s.classes[best].turn -= sum
		return best
	}
	for i := range s.classes {
		if s.classes[i].waiting > 0 {
			return i
		}
	}
	return -1
}

// expectedLocked is how long, in seconds, one more request of a tenant in class
// c can expect to wait.
func (s *Slots) expectedLocked(c int, tenant string) float64 {
	if s.used < s.limit {
		return 0
	}
	sum := 0.0
	for i := range s.classes {
		if i == c || s.classes[i].waiting > 0 {
			sum += s.classes[i].share
		}
	}
	// Slots become free at limit/service per second, and the class gets its
	// share of those.
	rate := float64(s.limit) / max(s.service, 1e-6) * s.classes[c].share / sum
	return float64(s.classes[c].position(tenant)) / rate
}

// full is the refusal of a request that could expect a slot after so many
// seconds: twice as long, spread over as much again, since all who were
// refused come back to it.
func full(expected float64) admission.Refusal {
	wait := seconds(expected * 2 * (1 + rand.Float64()))
	return admission.Refusal{
		Reason:     admission.OriginFull,
		RetryAfter: min(max(wait, time.Second), time.Minute),
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (s *Slots) classOf(c admission.Class) int {
	return min(max(int(c), 0), len(s.classes)-1)
}

// SlotState is the state of a set of slots at one time.
type SlotState struct {
	Max, Limit, Used int
	Service          time.Duration // that a request holds its slot, on average
	Classes          []SlotClassState
}

// SlotClassState is one class's part of it.
type SlotClassState struct {
	Used, Waiting   int
	Served, Refused uint64
}

// State returns the state of s. It shares nothing with s.
func (s *Slots) State() SlotState {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := SlotState{Max: s.opts.Max, Limit: s.limit, Used: s.used, Service: seconds(s.service)}
	for i := range s.classes {
		c := s.classes[i]
		st.Classes = append(st.Classes, SlotClassState{Used: c.used, Waiting: c.waiting, Served: c.served, Refused: c.refused})
	}
	return st
}
