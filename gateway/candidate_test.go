package gateway

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"sluice/admission"
	"sluice/config"
	"sluice/shedding"
)

func parse(tb testing.TB, text string) *config.Config {
	tb.Helper()
	cfg, err := config.Parse("policy.yaml", []byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	return cfg
}

// duel is a policy as a running gateway has it, with a candidate beside it.
type duel struct {
	*side
	p *prepared
	c *candidate
	g *Gateway
}

func newDuel(tb testing.TB, live, beside *config.Config, seed uint64) *duel {
	now := start2026
	tb.Helper()
	g, p := wired(tb, live, now, seed)
	c, err := g.newCandidate(beside, p, nil, now)
	if err != nil {
		tb.Fatal(err)
	}
	c.beside(p, g)
	tb.Cleanup(func() {
		p.queues.close()
		c.queues.close()
		p.policy.Origin.Close()
	})
	return &duel{&side{admit: p.policy.Controller.Admit, ctl: p.policy.Controller, queues: p.queues.gate}, p, c, g}
}

// play sends random traffic, with signals, and calls each with every request
// once it was decided, and ended with each that ended.
func (v *duel) play(t *testing.T, seed uint64, requests int, request func(*rand.Rand, int) admission.Request,
	read func(now time.Time, queue string, age float64),
	each func(n int, now time.Time, r *admission.Request, d admission.Decision), ended func(now time.Time, i int, o admission.Outcome),
) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 7))
	now := start2026
	age, next := 0.0, now
	for n := range requests {
		now = now.Add(time.Duration(rnd.ExpFloat64() * float64(20*time.Millisecond)))
		for ; !next.After(now); next = next.Add(time.Second) {
			age = min(max(age+rnd.Float64()*3-1, 0), 70)
			for _, queue := range []string{"orders", "mails"} {
				if queue == "mails" && n > 1000 && n < 2000 {
					continue
				}
				if _, err := v.p.queues.sink.Observe(next, queue, "push", shedding.Sample{Age: shedding.Known(age)}); err != nil {
					t.Fatal(err)
				}
				read(next, queue, age)
			}
		}
		for len(v.requests) > 0 && rnd.IntN(3) == 0 {
			i, o := rnd.IntN(len(v.requests)), admission.Outcome(rnd.IntN(4))
			v.end(now, i, o)
			ended(now, i, o)
		}
		r := request(rnd, n)
		r.Received = now
		q, d := v.decide(now, r)
		each(n, now, q, d)
	}
}

var start2026 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// A candidate that says the same as the policy in force decides the same about
// every request, to the class and route.
func TestEqualCandidateNeverDiffers(t *testing.T) {
	reasons := map[admission.Reason]int{}
	for seed := uint64(1); seed <= 6; seed++ {
		v := newDuel(t, parse(t, rehearsedPolicy), parse(t, rehearsedPolicy+"# in other words\n"), seed)
		v.play(t, seed, 2500, randomRequest, func(time.Time, string, float64) {}, func(n int, _ time.Time, r *admission.Request, d admission.Decision) {
			s := r.Second
			route, class := "", ""
			if r.Route != nil {
				route = r.Route.ID
			}
			if r.Class >= 0 {
				class = v.p.names.Classes[r.Class]
			}
			if !s.Asked || s.Differs(&d) || s.Route != route || s.Class != class {
				t.Fatalf("seed %d, request %d: %v %v, route %q, class %q; the candidate: %+v", seed, n, d.Verdict, d.Reason, route, class, s)
			}
			reasons[d.Reason]++
		}, func(time.Time, int, admission.Outcome) {})
	}
	for _, r := range []admission.Reason{
		admission.None, admission.TenantLimit, admission.Deferred, admission.Shed, admission.SignalLost, admission.OriginFull,
		admission.KeyMissing, admission.KeyReused, admission.KeyInProgress, admission.KeyInDoubt, admission.NoRoute,
	} {
		if reasons[r] == 0 {
			t.Errorf("the traffic never met %v, so that nothing is proved about it", r)
		}
	}
	t.Logf("seeds 1 to 6; decisions compared: %v", reasons)
}

// An edited candidate decides what a rehearsal of it decides about the same
// requests and readings: what it says of a change is what the change would do,
// as far as the traffic would stay the same.
func TestEditedCandidateDecidesAsItsRehearsal(t *testing.T) {
	// Promises are kept by key, and of those a candidate knows the ones in force:
	// see TestCandidateHonoursPromisesInForce.
	base := strings.Replace(rehearsedPolicy, ", idempotency: {key: required, wait: 0s}", "", 1)
	for _, edit := range [][2]string{
		{"bulk: {from: 10s, full: 30s, action: defer}", "bulk: {from: 3s, full: 12s, action: shed}"},
		{"standard: {from: 20s, full: 50s, status: 429}", "standard: {from: 55s, full: 60s}"},
		{"limit: {rate: 5/s, burst: 10}", "limit: {rate: 1/s, burst: 3}"},
		{"acme: {rate: 50/s, burst: 60}", "acme: {rate: 2/s, burst: 2}"},
		{"max_in_flight: 12}", "max_in_flight: 5}"},
		{"class: critical, queue: orders", "class: bulk, queue: mails"},
		{"when: {header: {X-Job-Type: backfill}}, class: bulk", "when: {header: {X-Job-Type: backfill}}, class: critical"},
		{"unmatched: refuse", "unmatched: forward"},
		{"mode: shadow}\nunmatched", "mode: enforce}\nunmatched"},
		{"path: /mails", "path: /letters"},
	} {
		edited := strings.Replace(base, edit[0], edit[1], 1)
		if edited == base {
			t.Fatalf("%q is not in the policy", edit[0])
		}
		differing := 0
		for seed := uint64(1); seed <= 2; seed++ {
			cfg := parse(t, edited)
			v := newDuel(t, parse(t, base), cfg, seed)
			r, err := Rehearse(cfg, start2026, seed)
			if err != nil {
				t.Fatal(err)
			}
			open := []*admission.Request{} // of the rehearsal, as v.requests; nil: refused there
			v.play(t, seed, 2000, func(rnd *rand.Rand, n int) admission.Request {
				q := randomRequest(rnd, n)
				delete(q.Header.(lines), "idempotency-key")
				return q
			}, func(now time.Time, queue string, age float64) {
				if _, err := r.Queues.Observe(now, queue, "push", shedding.Sample{Age: shedding.Known(age)}); err != nil {
					t.Fatal(err)
				}
			}, func(n int, now time.Time, q *admission.Request, d admission.Decision) {
				twin := admission.Request{Class: admission.NoClass, Method: q.Method, Path: q.Path, Header: q.Header, Client: q.Client}
				want := admission.Decision{Lot: d.Lot, Again: d.Again}
				if f := r.Controller.Classify(&twin); f.Is() {
					want.Refuse(f)
				} else {
					r.Admit(now, &twin, &want)
				}
				s := q.Second
				if s.Verdict != want.Verdict || s.Reason != want.Reason {
					t.Fatalf("%q, seed %d, request %d: the candidate: %+v; its rehearsal: %v %v", edit[1], seed, n, s, want.Verdict, want.Reason)
				}
				if s.Differs(&d) {
					differing++
				}
				switch {
				case d.Verdict == admission.Admit && want.Verdict == admission.Admit:
					open = append(open, &twin)
				case d.Verdict == admission.Admit:
					open = append(open, nil)
				case want.Verdict == admission.Admit:
					r.Controller.End(now, &twin, admission.Answered, admission.Answer{})
				}
			}, func(now time.Time, i int, o admission.Outcome) {
				if twin := open[i]; twin != nil {
					r.Controller.End(now, twin, o, admission.Answer{})
				}
				open = append(open[:i], open[i+1:]...)
			})
			_ = r.Close()
		}
		if differing == 0 {
			t.Errorf("%q never made a difference, so that nothing is proved about it", edit[1])
		}
	}
}

// Who was promised by the policy in force to get in gets in at the candidate,
// too, and only once; what the candidate would have promised does not count.
func TestCandidateHonoursPromisesInForce(t *testing.T) {
	live := strings.Replace(rehearsedPolicy, "bulk: {from: 10s, full: 30s", "bulk: {from: 1s, full: 2s", 1)
	v := newDuel(t, parse(t, live), parse(t, live), 1)
	now := start2026
	observe := func(age float64) {
		for range 3 {
			now = now.Add(time.Second)
			_, _ = v.p.queues.sink.Observe(now, "orders", "push", shedding.Sample{Age: shedding.Known(age), Depth: shedding.Known(1000)})
		}
	}
	observe(40)
	ask := func() (*admission.Request, admission.Decision) {
		return v.decide(now, admission.Request{Method: "POST", Path: "/campaigns/7", Class: admission.NoClass, Received: now,
			Header: lines{"x-tenant-id": "t1", "idempotency-key": "again"}})
	}
	r, d := ask()
	if d.Reason != admission.Deferred || !d.Promise.Made() || r.Second.Reason != admission.Deferred {
		t.Fatalf("%v %v; the candidate: %+v", d.Verdict, d.Reason, r.Second)
	}
	if r, d = ask(); d.Standing != admission.Early || r.Second.Differs(&d) {
		t.Fatalf("standing %v, %v %v; the candidate: %+v", d.Standing, d.Verdict, d.Reason, r.Second)
	}
	now = d.Promise.NotBefore.Add(time.Second)
	observe(1.5)
	if r, d = ask(); d.Standing != admission.Due || d.Verdict != admission.Admit || r.Second.Verdict != admission.Admit {
		t.Fatalf("standing %v, %v %v; the candidate: %+v", d.Standing, d.Verdict, d.Reason, r.Second)
	}
	state := v.c.queues.gate.State(now)[1].Classes[2]
	if state.Returners != 1 || state.Kept != 1 || state.Early != 1 || state.Newcomers != 1 {
		t.Errorf("the candidate counted %+v", state)
	}
	v.end(now, 0, admission.NotSent) // given back: the promise is good again, in force and beside
	if r, d = ask(); d.Standing != admission.Due || r.Second.Verdict != admission.Admit {
		t.Fatalf("after it was given back: standing %v, %v %v; the candidate: %+v", d.Standing, d.Verdict, d.Reason, r.Second)
	}
	v.end(now, 0, admission.Answered)
	if _, d = ask(); d.Standing != admission.Newcomer {
		t.Errorf("once used: standing %v", d.Standing)
	}
}

// A reading goes to both where both read the same; otherwise the candidate reads
// for itself.
func TestCandidateSharesReaders(t *testing.T) {
	policy := func(orders, more string) string {
		return `version: 1
origin: {url: http://127.0.0.1:1}
queues:
  orders: {max_useful_age: 60s, signals: [` + orders + `]}
` + more + `routes: [{id: order, match: {path: /orders}, class: standard, queue: orders}]
`
	}
	const http = `{name: state, http: {url: "http://127.0.0.1:1/queue", age: /age}}`
	for _, c := range []struct {
		name, live, candidate string
		own, shared           int
	}{
		{"the same", policy(http, ""), policy(http, ""), 0, 1},
		{"what is made of it differs", policy(http, ""), policy(`{name: other, on_loss: open, delay: 2s, http: {url: "http://127.0.0.1:1/queue", age: /age}}`, ""), 0, 1},
		{"read less often", policy(http, ""), policy(`{name: state, every: 5s, http: {url: "http://127.0.0.1:1/queue", age: /age}}`, ""), 1, 0},
		{"another document", policy(http, ""), policy(`{name: state, http: {url: "http://127.0.0.1:1/other", age: /age}}`, ""), 1, 0},
		{"for a second queue", policy(http, ""), policy(http, "  mails: {max_useful_age: 5s, signals: ["+http+"]}\n"), 0, 2},
		{"pushed to both", policy(`{name: told, push: {}}`, ""), policy(`{name: told, push: {}}`, ""), 0, 1},
		{"pushed under another name", policy(`{name: told, push: {}}`, ""), policy(`{name: said, push: {}}`, ""), 1, 0},
		{"none in force", "version: 1\norigin: {url: http://127.0.0.1:1}\n", policy(http, ""), 1, 0},
	} {
		v := newDuel(t, parse(t, c.live), parse(t, c.candidate), 1)
		shared := 0
		for _, to := range v.p.queues.sink.(*besideSink).also {
			shared += len(to)
		}
		if own := len(v.c.queues.sources); own != c.own || shared != c.shared {
			t.Errorf("%s: %d readers of its own and %d shared, want %d and %d", c.name, own, shared, c.own, c.shared)
		}
	}
}

// What is posted reaches a candidate under the name that it has there.
func TestPostedSignalsReachTheCandidate(t *testing.T) {
	const live = "version: 1\norigin: {url: http://127.0.0.1:1}\n"
	v := newDuel(t, parse(t, live), parse(t, live+"queues: {orders: {max_useful_age: 60s, signal: {push: {header: X-Queue}}}}\n"), 1)
	v.g.current.Store(&running{prepared: v.p, candidate: v.c})
	if err := (signalDesk{v.g}).Offer("orders", []byte(`{"age": 7}`)); err != nil {
		t.Fatal(err)
	}
	if got, err := v.c.queues.sources[0].Reader.Read(t.Context()); err != nil || got.Age != shedding.Known(7) {
		t.Errorf("read %+v, %v", got, err)
	}
	if err := (signalDesk{v.g}).Offer("nowhere", []byte(`{"age": 7}`)); err == nil {
		t.Error("a signal that nobody has was taken")
	}
	fields := v.p.policy.Signals
	if len(fields) != 1 || fields[0].Name != "X-Queue" || !fields[0].Pass {
		t.Errorf("the fields listened to are %+v, want X-Queue, passed on to clients", fields)
	}
}

// A candidate that goes on under an edited configuration keeps bucket levels and
// what was counted, like the policy in force; one with the same text keeps its
// time.
func TestCandidateKeepsLevels(t *testing.T) {
	cfg := parse(t, rehearsedPolicy)
	v := newDuel(t, cfg, cfg, 1)
	now := start2026.Add(time.Minute)
	ask := func() admission.Second {
		r, _ := v.decide(now, admission.Request{Method: "POST", Path: "/trial", Class: admission.NoClass, Received: now, Header: lines{"x-tenant-id": "t1"}})
		if len(v.requests) > 0 {
			v.end(now, 0, admission.Answered)
		}
		return r.Second
	}
	for range 10 { // the burst
		ask()
	}
	edited := parse(t, strings.Replace(strings.Replace(rehearsedPolicy, "full: 30s", "full: 31s", 1), "mode: shadow}\nunmatched", "mode: enforce}\nunmatched", 1))
	next, err := v.g.newCandidate(edited, v.p, v.c, now)
	if err != nil {
		t.Fatal(err)
	}
	next.beside(v.p, v.g)
	if s := ask(); s.Verdict != admission.Refuse || s.Reason != admission.TenantLimit {
		t.Errorf("after the burst: %+v, want the bucket still empty", s)
	}
	if n := next.queues.gate.State(now)[1].Classes[1].Newcomers; n == 0 {
		t.Error("what the queue counted is forgotten")
	}
	if !next.since.Equal(now) {
		t.Errorf("another candidate since %v, want since %v", next.since, now)
	}
	again, err := v.g.newCandidate(edited, v.p, next, now.Add(time.Hour))
	if err != nil || !again.since.Equal(now) {
		t.Errorf("the same candidate since %v, want since %v (%v)", again.since, now, err)
	}
}

// broken panics wherever it is asked, like a gate with a fault in it.
type broken struct{ admission.Gate }

func (broken) Anticipate(*admission.Request) {}

func (broken) Reserve(time.Time, *admission.Request, *admission.Decision) (admission.Permit, admission.Refusal) {
	panic("a fault")
}

// Properties 4 and 13: a panic in the candidate harms no request. It is counted,
// and is the last.
func TestCandidatePanicIsContained(t *testing.T) {
	cfg := parse(t, rehearsedPolicy)
	v := newDuel(t, cfg, cfg, 1)
	var log strings.Builder
	v.g.log = slog.New(slog.NewTextHandler(&log, nil))
	p, err := prepare(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.policy.Origin.Close()
	v.ctl.Candidate = admission.NewCandidate(admission.CandidateOptions{
		Classifier: p.policy.Controller.Classifier, Identifier: p.policy.Controller.Identifier,
		Gates: []admission.Gate{v.c.buckets, broken{}}, Classes: p.names.Classes, Failed: v.g.candidateFailed,
	})
	v.c.decider = v.ctl.Candidate
	for i := range 3 {
		now := start2026.Add(time.Duration(i) * time.Second)
		r, d := v.decide(now, admission.Request{Method: "POST", Path: "/trial", Class: admission.NoClass, Header: lines{"x-tenant-id": "t1"}})
		if d.Verdict != admission.Admit || r.Second.Asked {
			t.Fatalf("request %d: %v %v; the candidate: %+v", i, d.Verdict, d.Reason, r.Second)
		}
		v.end(now, 0, admission.Answered)
	}
	if n := v.g.candidatePanics.Load(); n != 1 || strings.Count(log.String(), "the candidate policy panicked") != 1 || !strings.Contains(log.String(), "a fault") {
		t.Errorf("%d panics counted, want 1, told once: %s", n, log.String())
	}
	s := candidateStatus(&running{prepared: v.p, candidate: v.c})
	if !s.Off {
		t.Error("the status does not tell that the candidate is off")
	}
	// Its queues hear nothing any more, and those in force go on.
	at := start2026.Add(time.Minute)
	if _, err := v.p.queues.sink.Observe(at, "orders", "push", shedding.Sample{Age: shedding.Known(9)}); err != nil {
		t.Fatal(err)
	}
	if got := v.c.queues.gate.State(at)[1].Signals[0].Last.Age; got == shedding.Known(9) {
		t.Error("a candidate that is off is still told")
	}
	if got := v.p.queues.gate.State(at)[1].Signals[0].Last.Age; got != shedding.Known(9) {
		t.Error("the policy in force was not told")
	}
}

// A permit of the candidate ends with the request, whatever becomes of that: no
// place stays taken.
func TestCandidateGivesEverythingBack(t *testing.T) {
	cfg := parse(t, rehearsedPolicy)
	looser := parse(t, strings.Replace(rehearsedPolicy, "limit: {rate: 5/s, burst: 10}", "limit: {rate: 500/s, burst: 1000}", 1))
	for _, candidate := range []*config.Config{cfg, looser} {
		v := newDuel(t, cfg, candidate, 1)
		v.play(t, 3, 1500, randomRequest, func(time.Time, string, float64) {}, func(n int, now time.Time, r *admission.Request, d admission.Decision) {
			if n%7 == 0 && d.Verdict == admission.Admit { // the transport refuses it after all
				last := len(v.requests) - 1
				v.ctl.GiveBack(now, v.requests[last])
				if r.Second.Asked {
					t.Fatal("what the transport refuses still counts as the candidate's decision")
				}
				v.requests = v.requests[:last]
			}
		}, func(time.Time, int, admission.Outcome) {})
		for len(v.requests) > 0 {
			v.end(start2026.Add(time.Hour), 0, admission.Answered)
		}
		for id, s := range v.c.places.state() {
			if s.Used != 0 {
				t.Errorf("%d places of %q are still taken", s.Used, id)
			}
		}
		if v.c.decider.Off() {
			t.Error("the candidate panicked")
		}
	}
}

// With a candidate, a decision allocates nothing either.
func TestCandidateAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Log("the race detector allocates on its own; this is measured without it")
		return
	}
	for _, edit := range [][2]string{{"", ""}, {"rate: 1000/s, burst: 1000", "rate: 1/s, burst: 1"}, {"max_in_flight: 1000", "max_in_flight: 1"}} {
		d := newDecider(t, 1000)
		d.candidate(t, strings.Replace(decisionConfig, edit[0], edit[1], 1))
		differing := 0
		if n := testing.AllocsPerRun(20_000, func() {
			d.decide()
			if !d.request.Second.Asked {
				t.Fatal("the candidate was not asked")
			}
			if d.request.Second.Differs(&d.decision) {
				differing++
			}
		}); n != 0 {
			t.Errorf("%q: %v allocations a decision", edit[1], n)
		}
		t.Logf("%q: %d of 20,001 decisions differ", edit[1], differing)
	}
}

// candidate sets a candidate beside the policy of d.
func (d *decider) candidate(tb testing.TB, policy string) {
	g := d.gateway
	now := g.current.Load()
	c, err := g.newCandidate(parse(tb, policy), now.prepared, nil, d.now)
	if err != nil {
		tb.Fatal(err)
	}
	c.beside(now.prepared, g)
	tb.Cleanup(c.queues.close)
	for range 3 {
		d.now = d.now.Add(time.Second)
		if _, err := now.queues.sink.Observe(d.now, "orders", "push", shedding.Sample{At: d.now, Age: shedding.Known(20), Depth: shedding.Known(1000)}); err != nil {
			tb.Fatal(err)
		}
	}
	for range d.tenants {
		d.decide()
	}
}

func BenchmarkDecisionWithCandidate(b *testing.B) {
	for _, tenants := range []int{1000, 1_000_000} {
		for _, with := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d/candidate=%v", tenants, with), func(b *testing.B) {
				d := newDecider(b, tenants)
				if with {
					d.candidate(b, decisionConfig)
				}
				b.ReportAllocs()
				for b.Loop() {
					d.decide()
				}
			})
		}
	}
}
