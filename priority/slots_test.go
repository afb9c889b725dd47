package priority

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/admission"
)

// room returns slots for three classes with shares 50, 40 and 10 that wait for
// at most ten seconds each.
func room(t testing.TB, n int, change ...func(*SlotOptions)) *Slots {
	t.Helper()
	o := SlotOptions{Max: n, Classes: []SlotClass{
		{Share: 50, MaxWait: 10 * time.Second},
		{Share: 40, MaxWait: 10 * time.Second},
		{Share: 10, MaxWait: 10 * time.Second},
	}}
	for _, c := range change {
		c(&o)
	}
	s, err := NewSlots(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// busy takes every slot for a class.
func busy(t testing.TB, s *Slots, class admission.Class) []Slot {
	t.Helper()
	var held []Slot
	for {
		slot, ok := s.TryAcquire(time.Now(), class)
		if !ok {
			return held
		}
		held = append(held, slot)
	}
}

// queueUp starts a request that waits, and notes its name once it has a slot.
func queueUp(s *Slots, class admission.Class, tenant string, got chan<- string, hold time.Duration) {
	go func() {
		slot, refusal := s.Wait(context.Background(), class, tenant)
		if refusal.Is() {
			return
		}
		got <- tenant
		time.Sleep(hold)
		s.Release(time.Now(), slot, true)
	}()
	synctest.Wait()
}

func TestNeverMoreThanMax(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := room(t, 7)
		r := rand.New(rand.NewPCG(1, 1))
		var wg sync.WaitGroup
		for i := range 500 {
			wg.Add(1)
			class, hold := admission.Class(r.IntN(3)), time.Duration(r.IntN(100))*time.Millisecond
			go func() {
				defer wg.Done()
				time.Sleep(time.Duration(i) * time.Millisecond)
				slot, f := s.Wait(context.Background(), class, fmt.Sprint("t", i%10))
				if f.Is() {
					return
				}
				if st := s.State(); st.Used > 7 {
					t.Errorf("%d slots are used, want at most 7", st.Used)
				}
				time.Sleep(hold)
				s.Release(time.Now(), slot, true)
			}()
		}
		wg.Wait()
		if st := s.State(); st.Used != 0 || st.Classes[0].Waiting+st.Classes[1].Waiting+st.Classes[2].Waiting != 0 {
			t.Errorf("in the end %+v", st)
		}
	})
}

func TestUnusedShareIsLentAndTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := room(t, 10)
		held := busy(t, s, 2) // bulk has all ten
		if len(held) != 10 {
			t.Fatalf("bulk got %d of 10 free slots", len(held))
		}
		got := make(chan string, 100)
		for i := range 8 {
			queueUp(s, 2, fmt.Sprint("bulk", i), got, time.Hour)
			queueUp(s, 0, fmt.Sprint("critical", i), got, time.Hour)
		}
		for _, h := range held {
			s.Release(time.Now(), h, true)
			synctest.Wait()
		}
		st := s.State()
		if st.Classes[0].Used != 8 || st.Classes[2].Used != 2 {
			t.Errorf("critical holds %d and bulk %d, want 8 (its five, and three that nobody needs) and 2", st.Classes[0].Used, st.Classes[2].Used)
		}
		time.Sleep(3 * time.Hour)
	})
}

// A lower class can neither starve nor overtake.
func TestSharesHoldWhenAllClassesAreBusy(t *testing.T) {
	for _, slots := range []int{1, 4, 20} {
		synctest.Test(t, func(t *testing.T) {
			s := room(t, slots, func(o *SlotOptions) { o.Waiting = 1000 })
			held := busy(t, s, 1)
			served := [3]int{}
			var mu sync.Mutex
			ctx, cancel := context.WithCancel(t.Context())
			for class := range 3 {
				for i := range 60 {
					go func() {
						for ctx.Err() == nil {
							slot, f := s.Wait(ctx, admission.Class(class), fmt.Sprint("t", i%6))
							if f.Is() {
								continue
							}
							mu.Lock()
							served[class]++
							mu.Unlock()
							time.Sleep(10 * time.Millisecond)
							s.Release(time.Now(), slot, true)
						}
					}()
				}
			}
			synctest.Wait()
			for _, h := range held {
				s.Release(time.Now(), h, true)
			}
			time.Sleep(20 * time.Second)
			cancel()
			synctest.Wait()
			total := float64(served[0] + served[1] + served[2])
			for class, want := range []float64{.5, .4, .1} {
				if got := float64(served[class]) / total; got < want-.08 || got > want+.16 {
					t.Errorf("%d slots: class %d got %.2f of them, want about %.2f", slots, class, got, want)
				}
			}
			time.Sleep(time.Minute)
		})
	}
}

func TestTenantsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := room(t, 1, func(o *SlotOptions) { o.Waiting = 100 })
		held := busy(t, s, 0)
		got := make(chan string, 100)
		for range 6 {
			queueUp(s, 0, "greedy", got, time.Millisecond)
		}
		queueUp(s, 0, "modest", got, time.Millisecond)
		queueUp(s, 0, "other", got, time.Millisecond)
		s.Release(time.Now(), held[0], true)
		time.Sleep(time.Second)
		var order []string
		for range 8 {
			order = append(order, <-got)
		}
		if o := strings.Join(order[:4], " "); o != "greedy modest other greedy" {
			t.Errorf("served in the order %v", order)
		}
	})
}

func TestWaitingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := room(t, 1, func(o *SlotOptions) {
			o.Classes[1].MaxWait, o.Classes[2].MaxWait = 100*time.Millisecond, 0
		})
		busy(t, s, 0)
		for class, want := range []time.Duration{10 * time.Second, 100 * time.Millisecond, 0} {
			began := time.Now()
			_, f := s.Wait(context.Background(), admission.Class(class), "t")
			if f.Reason != admission.OriginFull || f.RetryAfter < time.Second {
				t.Errorf("class %d: refused with %v, Retry-After %v", class, f.Reason, f.RetryAfter)
			}
			if took := time.Since(began); took != want {
				t.Errorf("class %d waited %v, want %v", class, took, want)
			}
		}
	})
}

func TestWhoCannotBeServedInTimeIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := room(t, 1)
		for range 200 { // requests take a second
			slot, _ := s.TryAcquire(time.Now(), 0)
			time.Sleep(time.Second)
			s.Release(time.Now(), slot, true)
		}
		held := busy(t, s, 0)
		got := make(chan string, 10)
		for range 3 {
			queueUp(s, 0, "t", got, time.Second)
		}
		for _, c := range []struct {
			patience time.Duration
			waits    bool
		}{{3 * time.Second, false}, {7 * time.Second, true}} {
			ctx, cancel := context.WithTimeout(context.Background(), c.patience)
			began := time.Now()
			_, f := s.Wait(ctx, 0, "t")
			cancel()
			if !f.Is() {
				t.Fatal("got a slot that is not free")
			}
			if waited := time.Since(began) > 0; waited != c.waits {
				t.Errorf("with %v left and about 5 s to go, waited: %v", c.patience, waited)
			}
		}
		s.Release(time.Now(), held[0], true)
		time.Sleep(time.Minute)
	})
}

func TestClientThatLeavesFreesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := room(t, 1)
		held := busy(t, s, 0)
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			if slot, f := s.Wait(ctx, 0, "t"); !f.Is() {
				t.Errorf("got slot %v", slot)
			}
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if st := s.State(); st.Classes[0].Waiting != 0 {
			t.Errorf("%d are waiting", st.Classes[0].Waiting)
		}
		s.Release(time.Now(), held[0], true)
		if _, ok := s.TryAcquire(time.Now(), 0); !ok {
			t.Error("the slot was lost")
		}
	})
}

func TestFullRoomMakesPlaceForTenantsThatHoldFewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := room(t, 1, func(o *SlotOptions) { o.Waiting = 4 })
		held := busy(t, s, 0)
		got := make(chan string, 10)
		for range 4 {
			queueUp(s, 0, "greedy", got, time.Millisecond)
		}
		if _, f := s.Wait(context.Background(), 0, "greedy"); !f.Is() {
			t.Error("a fifth request found a place among four")
		}
		queueUp(s, 0, "modest", got, time.Millisecond)
		if st := s.State(); st.Classes[0].Waiting != 4 {
			t.Errorf("%d wait, want 4", st.Classes[0].Waiting)
		}
		s.Release(time.Now(), held[0], true)
		time.Sleep(time.Second)
		var order []string
		for range 4 {
			order = append(order, <-got)
		}
		if o := strings.Join(order, " "); o != "greedy modest greedy greedy" {
			t.Errorf("served in the order %s", o)
		}
	})
}

func TestResizeKeepsWhoIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := room(t, 2)
		held := busy(t, s, 2)
		got := make(chan string, 10)
		queueUp(s, 2, "a", got, time.Hour)
		queueUp(s, 1, "b", got, time.Hour)
		if err := s.Resize(SlotOptions{Max: 3, Classes: []SlotClass{{Share: 1, MaxWait: time.Minute}}}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if st := s.State(); st.Used != 3 || st.Classes[0].Used != 3 || st.Classes[0].Waiting != 1 {
			t.Errorf("after growing to 3 slots and one class: %+v", st)
		}
		if err := s.Resize(SlotOptions{Max: 1, Classes: []SlotClass{{Share: 1}, {Share: 1}, {Share: 1}}}); err != nil {
			t.Fatal(err)
		}
		for _, h := range held {
			s.Release(time.Now(), h, true)
		}
		synctest.Wait()
		if st := s.State(); st.Used != 1 {
			t.Errorf("after shrinking to 1 slot and two releases: %+v", st)
		}
		if err := s.Resize(SlotOptions{Max: 0}); err == nil || s.State().Max != 1 {
			t.Error("bad options changed something")
		}
		time.Sleep(3 * time.Hour)
		if st := s.State(); st.Used != 0 {
			t.Errorf("in the end %+v", st)
		}
	})
}

func TestSlotOptionsAreCheckedByName(t *testing.T) {
	_, err := NewSlots(SlotOptions{Max: -1, Waiting: -2, Classes: []SlotClass{{Share: 0}, {Share: 1, MaxWait: -1}}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"Max is -1", "Waiting is -2", "class 0 has Share 0", "class 1 has MaxWait -1ns"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	if _, err := NewSlots(SlotOptions{Max: 1}); err == nil {
		t.Error("no classes are accepted")
	}
}

// Property 4: as a gate, each permit ends once and frees one slot.
func TestSlotsAsAGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := room(t, 2)
		var d admission.Decision
		route := &admission.Route{ID: "r"}
		r := admission.Request{Route: route, Class: 1, Tenant: "t"}
		a, f := s.Reserve(time.Now(), &r, &d)
		b, g := s.Reserve(time.Now(), &r, &d)
		if f.Is() || g.Is() {
			t.Fatal("free slots are refused")
		}
		r.Deadline = time.Now().Add(300 * time.Millisecond)
		began := time.Now()
		if p, f := s.Reserve(time.Now(), &r, &d); f.Reason != admission.OriginFull || p != (admission.Permit{}) || time.Since(began) != 300*time.Millisecond {
			t.Errorf("refused with %v after %v, permit %v", f.Reason, time.Since(began), p)
		}
		shadow := admission.Request{Route: &admission.Route{Mode: admission.Shadow}, Class: 2}
		c, f := s.Reserve(time.Now(), &shadow, &d)
		if !f.Is() || c.Ref == nil || s.State().Used != 3 {
			t.Errorf("a shadow route got refusal %v, permit %v; %d slots used", f.Reason, c, s.State().Used)
		}
		s.GiveBack(time.Now(), a)
		s.End(time.Now(), b, admission.Answered)
		s.End(time.Now(), c, admission.Unknown)
		if st := s.State(); st.Used != 0 {
			t.Errorf("%d slots are used in the end", st.Used)
		}
	})
}

func TestTakingAFreeSlotAllocatesNothing(t *testing.T) {
	s := room(t, 10)
	var d admission.Decision
	r := admission.Request{Route: &admission.Route{}, Class: 1, Tenant: "t"}
	now := time.Now()
	if n := testing.AllocsPerRun(1000, func() {
		p, _ := s.Reserve(now, &r, &d)
		s.End(now, p, admission.Answered)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// An origin that does 40 at a time in 10 ms each, and queues the rest.
func TestLearnedLimitFindsWhatTheOriginCanTake(t *testing.T) {
	s := room(t, 400, func(o *SlotOptions) { o.Learn = true })
	now := time.Unix(0, 0)
	var limits []int
	drive := func(capacity int, rounds int) {
		for range rounds {
			var held []Slot
			for {
				slot, ok := s.TryAcquire(now, 0)
				if !ok {
					break
				}
				held = append(held, slot)
			}
			took := 10 * time.Millisecond * time.Duration(max(len(held), capacity)) / time.Duration(capacity)
			now = now.Add(took)
			for _, h := range held {
				s.Release(now, h, true)
			}
			limits = append(limits, s.State().Limit)
		}
	}
	drive(40, 5000)
	if l := s.State().Limit; l < 40 || l > 110 {
		t.Errorf("the limit is %d for an origin that takes 40", l)
	}
	for _, l := range limits {
		if l > 400 {
			t.Fatalf("the limit is %d, above its cap", l)
		}
	}
	before := s.State().Limit
	for range 3000 { // hardly used: teaches nothing
		slot, _ := s.TryAcquire(now, 0)
		now = now.Add(10 * time.Millisecond)
		s.Release(now, slot, true)
	}
	if l := s.State().Limit; l > before {
		t.Errorf("the limit rose from %d to %d without being used", before, l)
	}
	drive(4, 5000)
	if l := s.State().Limit; l > 25 {
		t.Errorf("the limit is %d for an origin that takes 4 by now", l)
	}
	drive(40, 5000)
	if l := s.State().Limit; l < 40 || l > 110 {
		t.Errorf("the limit is %d after the origin recovered to 40", l)
	}
}

func BenchmarkSlot(b *testing.B) {
	s := room(b, 1000)
	now := time.Now()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			slot, _ := s.TryAcquire(now, 0)
			s.Release(now, slot, true)
		}
	})
}
