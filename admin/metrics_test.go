package admin

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"sluice/admission"
)

// Property 15: whatever runs concurrently, at every scrape received equals the
// decisions plus those in flight; and in the end every count is what was sent.
func TestTotalsAddUp(t *testing.T) {
	rng := seeded(t)
	m := NewMetrics(MetricsOptions{})
	p := testPolicy(5)
	m.SetPolicy(p)

	const workers, each = 8, 2000
	events := make([][]*admission.Event, workers)
	want := map[string]uint64{}
	for w := range events {
		for range each {
			e := randomEvent(rng, p, 100)
			events[w] = append(events[w], e)
			want[fmt.Sprintf("%s|%s|%s|%s|enforce", routeName(e.Request.Route), p.className(e.Request.Class), e.Decision.Verdict, e.Decision.Reason)]++
			if e.Decision.Shadow != admission.None {
				want[fmt.Sprintf("%s|%s|refuse|%s|shadow", routeName(e.Request.Route), p.className(e.Request.Class), e.Decision.Shadow)]++
			}
		}
	}

	var sending sync.WaitGroup
	for _, list := range events {
		sending.Go(func() {
			for _, e := range list {
				m.Begin()
				m.Observe(e)
			}
		})
	}
	done := make(chan struct{})
	go func() { sending.Wait(); close(done) }()
	last := 0.
	for scrapes, running := 0, true; running; scrapes++ {
		select {
		case <-done:
			running = false
		default:
		}
		g := gather(t, m)
		received, inFlight := g.sum("sluice_requests_received_total"), g.sum("sluice_requests_in_flight")
		if decisions := g.sum("sluice_decisions_total", "mode", "enforce"); received != decisions+inFlight || inFlight < 0 || received < last {
			t.Fatalf("scrape %d: received %v (%v before), decisions %v, in flight %v", scrapes, received, last, decisions, inFlight)
		}
		last = received
	}

	g := gather(t, m)
	got := map[string]uint64{}
	for _, s := range g["sluice_decisions_total"].Metric {
		key := fmt.Sprintf("%s|%s|%s|%s|%s", label(s, "route"), label(s, "class"), label(s, "verdict"), label(s, "reason"), label(s, "mode"))
		got[key] = uint64(s.GetCounter().GetValue())
	}
	if len(got) != len(want) {
		t.Errorf("%d series of decisions, want %d", len(got), len(want))
	}
	for key, n := range want {
		if got[key] != n {
			t.Errorf("decisions{%s} = %d, want %d", key, got[key], n)
		}
	}
	const all = workers * each
	for _, name := range []string{"sluice_requests_received_total", "sluice_requests_completed_total", "sluice_request_duration_seconds", "sluice_tenant_decisions_total"} {
		if n := g.sum(name); n != all {
			t.Errorf("%s sums up to %v, want %d", name, n, all)
		}
	}
	if n := g.sum("sluice_requests_in_flight"); n != 0 {
		t.Errorf("%v in flight after the end", n)
	}
}

// Each count goes where it belongs, and every counter moves.
func TestObserveCounts(t *testing.T) {
	m := NewMetrics(MetricsOptions{})
	p := testPolicy(2)
	m.SetPolicy(p)
	see := func(change func(*admission.Event)) {
		e := &admission.Event{Request: &admission.Request{Route: p.Routes[1], Class: 2, Tenant: "acme", Received: epoch}, Decided: 10 * time.Microsecond, Done: 20 * time.Microsecond}
		change(e)
		m.Begin()
		m.Observe(e)
	}
	see(func(e *admission.Event) {
		e.Decision = admission.Decision{Verdict: admission.Refuse, Reason: admission.TenantLimit, RetryAfter: 3 * time.Second, Limit: admission.Limit{Name: "gold"}}
	})
	see(func(e *admission.Event) {
		e.Decision = admission.Decision{Verdict: admission.Admit, Shadow: admission.TenantLimit, Limit: admission.Limit{Name: "gold"}}
		e.Outcome, e.Status = admission.Answered, 201
		e.Sent, e.OriginAnswered, e.Done = 100*time.Microsecond, 40*time.Millisecond, 41*time.Millisecond
	})
	see(func(e *admission.Event) {
		e.Decision = admission.Decision{Verdict: admission.Admit, Limit: admission.Limit{Name: "gold"}}
		e.Outcome, e.Failure, e.Status = admission.Unknown, admission.OriginTimeout, 504
		e.Sent, e.Done = 100*time.Microsecond, 10*time.Second
	})
	m.Begin() // in flight

	g := gather(t, m)
	for _, c := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{4, "sluice_requests_received_total", nil},
		{1, "sluice_requests_in_flight", nil},
		{1, "sluice_decisions_total", []string{"route", "r1", "class", "bulk", "verdict", "refuse", "reason", "tenant_limit", "mode", "enforce"}},
		{1, "sluice_decisions_total", []string{"verdict", "refuse", "reason", "tenant_limit", "mode", "shadow"}},
		{2, "sluice_decisions_total", []string{"verdict", "admit", "reason", "none", "mode", "enforce"}},
		{1, "sluice_requests_completed_total", []string{"outcome", "answered"}},
		{1, "sluice_requests_completed_total", []string{"outcome", "unknown"}},
		{1, "sluice_requests_completed_total", []string{"outcome", "not_tried"}},
		{1, "sluice_request_failures_total", []string{"reason", "origin_timeout"}},
		{1, "sluice_request_duration_seconds", []string{"verdict", "refuse", "outcome", "not_tried"}},
		{3, "sluice_gateway_overhead_seconds", []string{"stage", "decide"}},
		{2, "sluice_gateway_overhead_seconds", []string{"stage", "send"}},
		{2, "sluice_gateway_overhead_seconds", []string{"stage", "answer"}},
		{1, "sluice_origin_duration_seconds", []string{"code", "2xx"}},
		{1, "sluice_origin_duration_seconds", []string{"code", "none"}},
		{1, "sluice_rate_limit_checks_total", []string{"limit", "gold", "result", "allowed", "mode", "enforce"}},
		{1, "sluice_rate_limit_checks_total", []string{"limit", "gold", "result", "refused", "mode", "enforce"}},
		{1, "sluice_rate_limit_checks_total", []string{"limit", "gold", "result", "refused", "mode", "shadow"}},
		{1, "sluice_retry_after_seconds", []string{"reason", "tenant_limit"}},
		{2, "sluice_tenant_decisions_total", []string{"tenant", "acme", "verdict", "admit"}},
		{0, "sluice_tenant_label_overflow_total", nil},
	} {
		if got := g.sum(c.name, c.labels...); got != c.want {
			t.Errorf("%s%v = %v, want %v", c.name, c.labels, got, c.want)
		}
	}
}

// Property 10, for counters: a reload keeps the counts of a route that keeps
// its id, and a request that outlives it is counted under its own policy.
func TestReloadKeepsCounts(t *testing.T) {
	m := NewMetrics(MetricsOptions{})
	before := &Policy{Classes: []string{"critical", "bulk"}, Routes: []*admission.Route{{ID: "orders", Index: 0}, {ID: "gone", Index: 1}}}
	after := &Policy{Classes: []string{"bulk"}, Routes: []*admission.Route{{ID: "new", Index: 0}, {ID: "orders", Index: 1}}}
	admit := func(r *admission.Route, c admission.Class) {
		m.Observe(&admission.Event{Request: &admission.Request{Route: r, Class: c, Received: epoch}, Decision: admission.Decision{Verdict: admission.Admit}})
	}
	m.SetPolicy(before)
	admit(before.Routes[0], 1)
	m.SetPolicy(after)
	admit(before.Routes[0], 1) // still bulk
	admit(before.Routes[1], 0)
	admit(after.Routes[1], 0)
	for range keptPolicies {
		m.SetPolicy(after)
	}
	admit(before.Routes[0], 0) // so old that only its id is known

	g := gather(t, m)
	if n := g.sum("sluice_decisions_total", "route", "orders", "class", "bulk"); n != 4 {
		t.Errorf("orders, bulk: %v decisions, want 4", n)
	}
	if n := g.sum("sluice_decisions_total", "route", "gone", "class", "critical"); n != 1 {
		t.Errorf("gone, critical: %v decisions, want 1", n)
	}
}

// Where nothing is new, observing allocates nothing, refused or admitted.
func TestObserveDoesNotAllocate(t *testing.T) {
	// The log's writer allocates; here it is stuck with its first record.
	out := &blocked{reached: make(chan struct{}), release: make(chan struct{})}
	o, events := observers(t, out)
	t.Cleanup(func() { close(out.release) })
	for _, e := range events {
		o.Observe(e)
	}
	<-out.reached
	i := 0
	if n := testing.AllocsPerRun(2000, func() {
		o.Observe(events[i%len(events)])
		i++
	}); n != 0 {
		t.Errorf("Observe allocates %v times a call", n)
	}
}

// observers are all three, with events whose tenants are known and unknown,
// every verdict and reason among them.
func observers(t testing.TB, out io.Writer) (Fanout, []*admission.Event) {
	rng := rand.New(rand.NewPCG(1, 2))
	log := NewDecisionLog(out, LogOptions{})
	t.Cleanup(func() { log.Close(context.Background()) })
	m := NewMetrics(MetricsOptions{Log: log})
	o := Fanout{m, log, NewLive(m, LiveOptions{})}
	p := testPolicy(20)
	o.SetPolicy(p)
	var events []*admission.Event
	for range 4096 {
		events = append(events, randomEvent(rng, p, 1000))
	}
	return o, events
}

func BenchmarkObserve(b *testing.B) {
	o, events := observers(b, io.Discard)
	pick := func(keep func(*admission.Event) bool) (picked []*admission.Event) {
		for _, e := range events {
			if keep(e) {
				picked = append(picked, e)
			}
		}
		return slices.Clip(picked)
	}
	for _, c := range []struct {
		name   string
		events []*admission.Event
	}{
		{"admitted", pick(func(e *admission.Event) bool {
			return e.Decision.Verdict == admission.Admit && e.Outcome == admission.Answered
		})},
		{"refused", pick(func(e *admission.Event) bool { return e.Decision.Verdict == admission.Refuse })},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				o.Observe(c.events[i%len(c.events)])
				i++
			}
		})
		b.Run(c.name+"/parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					o.Observe(c.events[i%len(c.events)])
				}
			})
		})
	}
}
