package shedding

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/admission"
)

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

var testBands = []Band{
	{From: .90, Full: 1, MinAdmit: .05},
	{From: .60, Full: .90, MinAdmit: .05},
	{From: .25, Full: .60, MinAdmit: .05, Action: Defer},
}

var testRoute = admission.Route{ID: "work", Queue: "q"}

// newTestGate returns a gate with one queue "q" of limit 120 s and one signal
// "s" read every second, where o does not say otherwise.
func newTestGate(t testing.TB, o QueueOptions, more ...func(*Options)) *Gate {
	t.Helper()
	o.Name = "q"
	if o.MaxUsefulAge == 0 {
		o.MaxUsefulAge = 120 * time.Second
	}
	if o.Bands == nil {
		o.Bands = testBands
	}
	if o.Signals == nil {
		o.Signals = []SignalOptions{{Name: "s", Every: time.Second}}
	}
	opts := Options{Classes: 3, Queues: []QueueOptions{o}, Seed: 7}
	for _, m := range more {
		m(&opts)
	}
	g, err := New(opts, start, nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// header is a request's header in tests.
type header map[string]string

func (h header) Get(name string) (string, int) {
	for k, v := range h {
		if strings.EqualFold(k, name) {
			return v, 1
		}
	}
	return "", 0
}

type answer struct {
	permit  admission.Permit
	refusal admission.Refusal
	d       admission.Decision
	r       admission.Request
}

func (a *answer) ticket() string {
	return string(a.d.Promise.Signer.AppendTicket(nil, &a.r, &a.d.Promise))
}

func reserve(g *Gate, now time.Time, tenant string, class admission.Class, h admission.Header) *answer {
	a := &answer{}
	a.r.Reset()
	a.r.Route, a.r.Tenant, a.r.Class, a.r.Header = &testRoute, tenant, class, h
	a.permit, a.refusal = g.Reserve(now, &a.r, &a.d)
	return a
}

// strain brings the queue to an age, in seconds, at a completion rate of 100/s
// and returns the time at which it is there.
func strain(t testing.TB, g *Gate, from time.Time, age float64) time.Time {
	t.Helper()
	now := from
	for i := range 20 {
		now = now.Add(time.Second)
		grown := max(0, age-19+float64(i)) // ages rise no faster than time
		if i == 0 {
			grown = 0
		}
		s := Sample{Age: Known(grown), Depth: Known(100 * age), Done: Known(float64(100 * i))}
		if age > 19 {
			s.Age = Value{}
		}
		if f, err := g.Observe(now, "q", "s", s); err != nil || f > Skewed {
			t.Fatalf("sample %d: %v, %v", i, f, err)
		}
	}
	return now
}

// refused returns the first refusal of a few dozen requests.
func refused(t testing.TB, g *Gate, now time.Time, tenant string, class admission.Class, h admission.Header) *answer {
	t.Helper()
	for range 2000 {
		if a := reserve(g, now, tenant, class, h); a.refusal.Is() {
			return a
		}
	}
	t.Fatal("no request was refused")
	return nil
}

func total(g *Gate) int64 { return g.queues[0].log.total.Load() }

func TestOpenQueueAdmitsAndCounts(t *testing.T) {
	g := newTestGate(t, QueueOptions{})
	for range 100 {
		if a := reserve(g, start, "t", 2, nil); a.refusal.Is() || a.permit.Ref != g.queues[0] {
			t.Fatalf("refused with %v", a.refusal.Reason)
		}
	}
	if total(g) != 100 {
		t.Errorf("%d admissions were counted, want 100", total(g))
	}
}

func TestRoutesWithoutQueueAndRequestsWithoutClassPass(t *testing.T) {
	g := newTestGate(t, QueueOptions{})
	var d admission.Decision
	for _, r := range []admission.Request{
		{Route: &admission.Route{ID: "free"}},
		{Route: &testRoute, Class: admission.NoClass},
	} {
		if p, f := g.Reserve(start, &r, &d); p.Ref != nil || f.Is() {
			t.Errorf("got permit %v and refusal %v, want neither", p, f.Reason)
		}
	}
}

// Property 3, and 4 for this gate: what is given back never was.
func TestGiveBackUndoesTheAdmission(t *testing.T) {
	g := newTestGate(t, QueueOptions{})
	q := g.queues[0]
	before := q.demand.add(demandKey(admission.Hash(g.seed, "t"), 2), 0)
	a := reserve(g, start, "t", 2, nil)
	g.GiveBack(start, a.permit)
	if total(g) != 0 {
		t.Errorf("%d admissions are counted, want 0", total(g))
	}
	if after := q.demand.add(demandKey(admission.Hash(g.seed, "t"), 2), 0); after != before+1 {
		t.Errorf("the tenant's demand is %v, want %v", after, before+1)
	}
	b := reserve(g, start, "t", 2, nil)
	g.End(start, b.permit, admission.Answered)
	if total(g) != 1 {
		t.Errorf("%d admissions are counted after one ended, want 1", total(g))
	}
}

func TestRefusalReservesNothing(t *testing.T) {
	g := newTestGate(t, QueueOptions{})
	now := strain(t, g, start, 80)
	n := total(g)
	a := refused(t, g, now, "t", 2, nil)
	if a.permit != (admission.Permit{}) {
		t.Errorf("a refusal holds permit %+v", a.permit)
	}
	admitted := total(g) - n
	if st := g.State(now)[0].Classes[2]; int64(st.AdmittedNewcomers) != admitted {
		t.Errorf("%d admissions are counted, %d requests were let in", admitted, st.AdmittedNewcomers)
	}
}

func TestRefusalsSayWhatTheBandSays(t *testing.T) {
	bands := append([]Band(nil), testBands...)
	bands[1].Status = 429
	g := newTestGate(t, QueueOptions{Bands: bands})
	now := strain(t, g, start, 110)
	bulk, standard := refused(t, g, now, "t", 2, nil), refused(t, g, now, "t", 1, nil)
	if bulk.refusal.Reason != admission.Deferred || bulk.refusal.Form != nil {
		t.Errorf("bulk is refused with %v %+v, want deferred", bulk.refusal.Reason, bulk.refusal.Form)
	}
	if form := standard.refusal.Form; standard.refusal.Reason != admission.Shed || form == nil || form.Status != 429 {
		t.Errorf("standard is refused with %v %+v, want shed 429", standard.refusal.Reason, form)
	}
	for _, a := range []*answer{bulk, standard} {
		if ra := a.refusal.RetryAfter; ra < time.Second || ra > 15*time.Minute {
			t.Errorf("Retry-After is %v, want 1s to 15m", ra)
		}
	}
}

func TestRetryAfterIsSpreadAndBounded(t *testing.T) {
	g := newTestGate(t, QueueOptions{}, func(o *Options) { o.MaxRetryAfter = 30 * time.Second })
	now := strain(t, g, start, 115)
	seen := map[time.Duration]bool{}
	for i := range 3000 {
		a := reserve(g, now, fmt.Sprint("t", i), 2, nil)
		if !a.refusal.Is() {
			continue
		}
		ra := a.refusal.RetryAfter
		if ra < time.Second || ra > 30*time.Second {
			t.Fatalf("Retry-After is %v, want 1s to 30s", ra)
		}
		seen[ra] = true
	}
	if len(seen) < 8 {
		t.Errorf("Retry-After took %d values, want it spread", len(seen))
	}
}

func TestAboveTheLimitOnlyAProbePasses(t *testing.T) {
	bands := []Band{{MinAdmit: 1}, {MinAdmit: .5}, {MinAdmit: .5}}
	g := newTestGate(t, QueueOptions{Bands: bands})
	now := strain(t, g, start, 130)
	for class := range 3 {
		if s := g.State(now)[0].Classes[class].Share; s != probe {
			t.Errorf("class %d gets %v, want %v", class, s, probe)
		}
	}
}

func TestDepthCountsOnTheSameScale(t *testing.T) {
	g := newTestGate(t, QueueOptions{MaxDepth: 5000})
	now := strain(t, g, start, 40) // a wait of 40 s of 120, and 4000 of 5000
	st := g.State(now)[0]
	if st.Strain < .78 || st.Strain > .82 {
		t.Errorf("strain is %v, want about 0.8", st.Strain)
	}
}

func TestOfSeveralSignalsTheWorseCounts(t *testing.T) {
	g := newTestGate(t, QueueOptions{Signals: []SignalOptions{{Name: "good", Every: time.Second}, {Name: "bad", Every: time.Second}}})
	now := start
	for i := range 30 {
		now = now.Add(time.Second)
		for name, depth := range map[string]float64{"good": 10, "bad": 6000} {
			if _, err := g.Observe(now, "q", name, Sample{Depth: Known(depth), Done: Known(float64(100 * i))}); err != nil {
				t.Fatal(err)
			}
		}
	}
	st := g.State(now)[0]
	if st.Worst != "bad" || st.Wait.Or(0) < 55 || st.Wait.Or(0) > 65 {
		t.Errorf("wait is %v by %q, want about 60 by \"bad\"", st.Wait, st.Worst)
	}
}

func TestShadowCountsAndLetsPass(t *testing.T) {
	shadowed := append([]Band(nil), testBands...)
	shadowed[2].Mode = admission.Shadow
	for name, g := range map[string]*Gate{
		"queue": newTestGate(t, QueueOptions{Mode: admission.Shadow}),
		"band":  newTestGate(t, QueueOptions{Bands: shadowed}),
	} {
		now := strain(t, g, start, 100)
		before := total(g)
		a := refused(t, g, now, "t", 2, header{"Idempotency-Key": "k"})
		if a.refusal.Mode != admission.Shadow || a.permit.Ref == nil || a.d.Promise.Made() {
			t.Errorf("%s: mode %v, permit %v, promise %v; want a shadow refusal with a permit and no promise", name, a.refusal.Mode, a.permit, a.d.Promise)
		}
		st := g.State(now)[0].Classes[2]
		if st.Shadow != 1 || st.Refused != 0 || st.Promised != 0 || total(g)-before != int64(st.AdmittedNewcomers)+1 {
			t.Errorf("%s: %d counted as shadow, %d as refused, %d admissions", name, st.Shadow, st.Refused, total(g)-before)
		}
		g.GiveBack(now, a.permit)
		if total(g)-before != int64(st.AdmittedNewcomers) {
			t.Errorf("%s: a shadow permit cannot be given back", name)
		}
	}
	enforced := newTestGate(t, QueueOptions{Bands: shadowed})
	now := strain(t, enforced, start, 115)
	if a := refused(t, enforced, now, "t", 1, nil); a.refusal.Mode != admission.Enforce {
		t.Error("one class's shadow band hides another's enforced one")
	}
}

func TestLostSignalDoesWhatThePolicySays(t *testing.T) {
	for _, c := range []struct {
		loss    Loss
		backlog float64
		share   func(float64) bool
		reason  admission.Reason
	}{
		{Hold, 0, func(s float64) bool { return s == 1 }, admission.None},
		{Hold, 60, func(s float64) bool { return s > .05 && s < .9 }, admission.Deferred},
		{Open, 60, func(s float64) bool { return s == 1 }, admission.None},
		{Closed, 0, func(s float64) bool { return s == .05 }, admission.SignalLost},
	} {
		g := newTestGate(t, QueueOptions{Signals: []SignalOptions{{Name: "s", Every: time.Second, OnLoss: c.loss}}})
		now := strain(t, g, start, c.backlog)
		for range 10 * 110 { // as much as the queue completes
			now = now.Add(10 * time.Millisecond)
			reserve(g, now, "t", 0, nil)
		}
		st := g.State(now)[0]
		if st.Signals[0].Health != Lost {
			t.Errorf("%v: health is %v, want lost", c.loss, st.Signals[0].Health)
		}
		if bulk := st.Classes[2]; !c.share(bulk.Share) || bulk.Reason != c.reason {
			t.Errorf("%v with %v s of backlog: bulk gets %v for %v", c.loss, c.backlog, bulk.Share, bulk.Reason)
		}
	}
}

func TestCapAdmitsNineTenthsMostImportantFirst(t *testing.T) {
	g := newTestGate(t, QueueOptions{Signals: []SignalOptions{{Name: "s", Every: time.Second, OnLoss: Cap}}})
	now := strain(t, g, start, 10)
	for range 60 * 100 { // 200 a second, half of them bulk
		now = now.Add(10 * time.Millisecond)
		reserve(g, now, "t", 0, nil)
		reserve(g, now, "t", 2, nil)
	}
	st := g.State(now)[0]
	if st.RateCap < 80 || st.RateCap > 100 {
		t.Errorf("the cap is %v, want nine tenths of 100", st.RateCap)
	}
	if c, b := st.Classes[0].Share, st.Classes[2].Share; c < .85 || b > .06 {
		t.Errorf("critical gets %v, bulk %v; want nine tenths and the least", c, b)
	}
}

func TestClosedIsClosedFromTheStart(t *testing.T) {
	g := newTestGate(t, QueueOptions{Signals: []SignalOptions{{Name: "s", Every: time.Minute, OnLoss: Closed}}})
	if g.Ready(start) {
		t.Error("ready before the first sample")
	}
	a := refused(t, g, start, "t", 0, nil)
	if a.refusal.Reason != admission.SignalLost {
		t.Errorf("refused with %v, want signal_lost", a.refusal.Reason)
	}
	if !g.Ready(start.Add(4 * time.Minute)) {
		t.Error("not ready although the signal is lost")
	}
}

func TestReaderErrorsAreTold(t *testing.T) {
	g := newTestGate(t, QueueOptions{})
	now := strain(t, g, start, 10)
	cause := errors.New("connection refused")
	if err := g.Fail(now, "q", "s", cause); err != nil {
		t.Fatal(err)
	}
	s := g.State(now)[0].Signals[0]
	if s.Err != cause || s.Flaw != Failed || s.Flaws[Failed] != 1 || s.Health != Fresh {
		t.Errorf("got %+v", s)
	}
	if err := g.Fail(now, "q", "nosuch", cause); err == nil {
		t.Error("no error for an unknown signal")
	}
	if _, err := g.Observe(now, "nosuch", "s", Sample{}); err == nil {
		t.Error("no error for an unknown queue")
	}
}

// Property 10: a reload loses no learned rate and no promise.
func TestReloadKeepsWhatWasLearnedAndPromised(t *testing.T) {
	g := newTestGate(t, QueueOptions{})
	now := strain(t, g, start, 80)
	a := refused(t, g, now, "t", 2, header{"Idempotency-Key": "k"})
	before := g.State(now)[0]

	o := QueueOptions{Name: "q", MaxUsefulAge: 240 * time.Second, Bands: testBands, Signals: []SignalOptions{{Name: "s", Every: 2 * time.Second}}}
	next, err := New(Options{Classes: 3, Queues: []QueueOptions{o}}, now, g)
	if err != nil {
		t.Fatal(err)
	}
	after := next.State(now)[0]
	if d := after.Wait.Or(-1) - before.Wait.Or(-1); d < -.5 || d > .5 {
		t.Errorf("wait went from %v to %v", before.Wait, after.Wait)
	}
	if after.Signals[0].Rate != before.Signals[0].Rate || after.Signals[0].Health != Fresh {
		t.Errorf("signal is %+v after, %+v before", after.Signals[0], before.Signals[0])
	}
	if after.Classes[2].Refused != before.Classes[2].Refused {
		t.Errorf("refusals went from %d to %d", before.Classes[2].Refused, after.Classes[2].Refused)
	}
	due := a.d.Promise.NotBefore
	b := reserve(next, due, "t", 2, header{"Idempotency-Key": "k"})
	if b.permit.Amount&permitBack == 0 {
		t.Error("the promise was forgotten")
	}
}

// After a reload, nobody draws again what was drawn before; and what is drawn at one
// queue says nothing about another.
func TestNothingIsDrawnTwice(t *testing.T) {
	options := func(o *Options) {
		other := o.Queues[0]
		other.Name = "other"
		o.Queues = append(o.Queues, other)
	}
	g := newTestGate(t, QueueOptions{}, options)
	now := strain(t, g, start, 60)
	lots, again := map[admission.Lot]bool{}, map[admission.Lot]bool{}
	drawn, waits := 0, 0
	for reload := range 20 {
		for _, class := range []admission.Class{0, 2} {
			for at := range g.queues {
				route := admission.Route{ID: "work", Queue: "q", QueueAt: at}
				var d admission.Decision
				g.Reserve(now, &admission.Request{Tenant: "t", Class: class, Route: &route}, &d)
				lots[d.Lot] = true
				drawn++
				if d.Again != 0 {
					again[d.Again] = true
					waits++
				}
			}
		}
		now = now.Add(time.Minute)
		opts := Options{Classes: 3, Queues: []QueueOptions{g.queues[0].opts}, Seed: 7}
		options(&opts)
		next, err := New(opts, now, g)
		if err != nil {
			t.Fatalf("reload %d: %v", reload, err)
		}
		g = next
	}
	if len(lots) != drawn || len(again) != waits || waits == 0 {
		t.Errorf("%d of %d lots and %d of %d jitters differ", len(lots), drawn, len(again), waits)
	}
}

func TestOptionsAreCheckedByName(t *testing.T) {
	_, err := New(Options{Classes: 2, MaxRetryAfter: time.Millisecond, Queues: []QueueOptions{
		{Name: "a", MaxUsefulAge: time.Minute, Bands: []Band{{From: .9, Full: .5}, {MinAdmit: 2, Status: 200}}, MaxDepth: -1},
		{Name: "a", MaxUsefulAge: time.Millisecond, Bands: []Band{{}}, Signals: []SignalOptions{{Name: "s"}, {Name: "s", Every: time.Second, Retention: time.Microsecond}}},
	}}, start, nil)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"MaxRetryAfter is 1ms", `band 0 runs from 0.9 to 0.5`, "MinAdmit 2", "Status 200", "MaxDepth is -1",
		`Queues[1].Name is "a"`, "MaxUsefulAge is 1ms", "1 bands", `two signals named "s"`, "Every 0s", "Retention 1µs",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
}
