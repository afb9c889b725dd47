package priority

import (
	"context"
	"time"

	"sluice/admission"
)

// Reserve implements [admission.Gate] as the one gate that may take time: it
// waits for a slot, see [Slots.Wait]. A route in shadow mode does not wait; it
// takes a slot whether there is one or not, and is told that there was none.
func (s *Slots) Reserve(now time.Time, r *admission.Request, _ *admission.Decision) (admission.Permit, admission.Refusal) {
	if r.Route != nil && r.Route.Mode == admission.Shadow {
		return s.ReserveNow(now, r)
	}
	slot, ok := s.TryAcquire(now, r.Class)
	if ok {
		return s.permit(slot), admission.Refusal{}
	}
	ctx := context.Background()
	if !r.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, r.Deadline)
		defer cancel()
	}
	slot, refusal := s.Wait(ctx, r.Class, r.Tenant)
	if refusal.Is() {
		return admission.Permit{}, refusal
	}
	return s.permit(slot), admission.Refusal{}
}

// ReserveNow is Reserve for requests that cannot wait: it takes no time and does
// not allocate.
func (s *Slots) ReserveNow(now time.Time, r *admission.Request) (admission.Permit, admission.Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.classOf(r.Class)
	if s.used < s.limit {
		return s.permit(s.takeLocked(now, c)), admission.Refusal{}
	}
	s.classes[c].refused++
	refusal := full(s.expectedLocked(c, r.Tenant))
	if r.Route != nil && r.Route.Mode == admission.Shadow {
		return s.permit(s.takeLocked(now, c)), refusal
	}
	return admission.Permit{}, refusal
}

func (s *Slots) permit(slot Slot) admission.Permit {
	return admission.Permit{Ref: s, Amount: int64(slot.class), Key: uint64(slot.since)}
}

func slotOf(p admission.Permit) Slot {
	return Slot{held: true, class: int(p.Amount), since: int64(p.Key)}
}

// GiveBack implements [admission.Gate].
func (s *Slots) GiveBack(now time.Time, p admission.Permit) { s.Release(now, slotOf(p), false) }

// End implements [admission.Gate].
func (s *Slots) End(now time.Time, p admission.Permit, o admission.Outcome) {
	s.Release(now, slotOf(p), o == admission.Answered || o == admission.Unknown)
}
