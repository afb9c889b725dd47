package gateway

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"sluice/admission"
	"sluice/admission/ratelimit"
	"sluice/config"
	"sluice/shedding"
)

// rehearsedPolicy has every kind of gate, and nothing that waits.
const rehearsedPolicy = `
version: 1
origin: {url: http://127.0.0.1:3000, max_in_flight: 12}
tenants:
  from: [{header: X-Tenant-Id}]
  limit: {rate: 5/s, burst: 10}
  overrides: {acme: {rate: 50/s, burst: 60}, watched: {rate: 1/s, burst: 1, mode: shadow}}
classes: [{name: critical, share: 50%, max_wait: 0s}, {name: standard, share: 30%, max_wait: 0s}, {name: bulk, share: 20%, max_wait: 0s}]
class_header: {name: X-Priority, ceiling: standard}
priority: [{id: backfills, when: {header: {X-Job-Type: backfill}}, class: bulk}]
queues:
  orders:
    max_useful_age: 60s
    signal: {every: 1s, push: {}}
    shed:
      bulk: {from: 10s, full: 30s, action: defer}
      standard: {from: 20s, full: 50s, status: 429}
      critical: {from: 50s, full: 60s, min_admit: 5%}
  mails:
    max_useful_age: 60s
    signal: {every: 1s, on_loss: closed, push: {}}
routes:
  - {id: order, match: {method: POST, path: /orders}, class: critical, queue: orders, idempotency: {key: required, wait: 0s}}
  - {id: campaign, match: {method: POST, path: /campaigns/*}, class: bulk, queue: orders, cost: 3, limit: {rate: 3/s, burst: 9}}
  - {id: mail, match: {method: POST, path: /mails}, class: standard, queue: mails, max_in_flight: 3}
  - {id: trial, match: {method: POST, path: /trial}, class: standard, queue: orders, mode: shadow}
unmatched: refuse
`

// lines are header fields, by name in lower case.
type lines map[string]string

func (h lines) Get(name string) (string, int) {
	v, ok := h[strings.ToLower(name)]
	if !ok {
		return "", 0
	}
	return v, 1
}

func (h lines) PeekAll(name string) [][]byte {
	if v, ok := h[strings.ToLower(name)]; ok {
		return [][]byte{[]byte(v)}
	}
	return nil
}

// side is one of two that decide the same requests.
type side struct {
	admit    func(now time.Time, r *admission.Request, d *admission.Decision)
	ctl      *admission.Controller
	queues   *shedding.Gate
	requests []*admission.Request // admitted, and not ended yet
}

// liveLike wires a policy as a running gateway has it.
func liveLike(t *testing.T, cfg *config.Config, now time.Time, seed uint64) *side {
	t.Helper()
	s, _ := liveWith(t, cfg, now, seed)
	return s
}

func liveWith(t *testing.T, cfg *config.Config, now time.Time, seed uint64) (*side, *prepared) {
	t.Helper()
	_, p := wired(t, cfg, now, seed)
	return &side{admit: p.policy.Controller.Admit, ctl: p.policy.Controller, queues: p.queues.gate}, p
}

// wired is the deciding part of a gateway, whose draws repeat.
func wired(tb testing.TB, cfg *config.Config, now time.Time, seed uint64) (*Gateway, *prepared) {
	tb.Helper()
	p, err := prepare(cfg, nil)
	if err != nil {
		tb.Fatal(err)
	}
	if p.queues, err = seededQueues(cfg, p.names.Classes, now, seed); err != nil {
		tb.Fatal(err)
	}
	g := &Gateway{log: slog.New(slog.DiscardHandler)}
	if g.buckets, err = ratelimit.New(p.buckets, now); err != nil {
		tb.Fatal(err)
	}
	if g.store, err = newStore(cfg); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = g.store.close(tb.Context()) })
	p.attach(g)
	return g, p
}

func rehearsed(t *testing.T, cfg *config.Config, now time.Time, seed uint64) *side {
	t.Helper()
	r, err := Rehearse(cfg, now, seed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return &side{admit: r.Admit, ctl: r.Controller, queues: r.Queues}
}

// decide leads one request as far as the origin.
func (s *side) decide(now time.Time, r admission.Request) (*admission.Request, admission.Decision) {
	var d admission.Decision
	if f := s.ctl.Classify(&r); f.Is() {
		d.Refuse(f)
		return &r, d
	}
	if r.Keyed {
		s.ctl.Keys.Prepare(&r, []byte("{}"))
	}
	s.admit(now, &r, &d)
	if d.Verdict == admission.Admit {
		s.requests = append(s.requests, &r)
	}
	return &r, d
}

// end ends the i-th request under way.
func (s *side) end(now time.Time, i int, o admission.Outcome) string {
	r := s.requests[i]
	s.requests = append(s.requests[:i], s.requests[i+1:]...)
	status := s.ctl.End(now, r, o, admission.Answer{Status: 201})
	if r.Keyed {
		s.ctl.Keys.Forget(r)
	}
	return status
}

// seen is what two sides have to agree on.
func seen(r *admission.Request, d admission.Decision) string {
	id := "-"
	if r.Route != nil {
		id = r.Route.ID
	}
	return fmt.Sprintf("%s %s %d shadow=%s route=%s class=%d rule=%s tenant=%s key=%s recorded=%d limit=%+v promise=%d/%d/%d detail=%q",
		d.Verdict, d.Reason, d.Status, d.Shadow, id, r.Class, r.Rule, r.Tenant, d.KeyStatus, d.Recorded.Status, d.Limit,
		d.Promise.NotBefore.Unix(), d.Promise.Lapse.Unix(), d.Promise.ID, d.Detail())
}

// A gateway and a rehearsal are asked the same at the same times, and decide the
// same. Retry-After may differ by what a gateway draws for itself alone.
func TestRehearsalDecidesAsTheGateway(t *testing.T) {
	cfg, err := config.Parse("policy.yaml", []byte(rehearsedPolicy))
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[admission.Reason]int{}
	for seed := uint64(1); seed <= 6; seed++ {
		rnd := rand.New(rand.NewPCG(seed, 7))
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		live, rehearsal := liveLike(t, cfg, now, seed), rehearsed(t, cfg, now, seed)
		age, next := 0.0, now
		for n := range 2500 {
			now = now.Add(time.Duration(rnd.ExpFloat64() * float64(20*time.Millisecond)))
			for ; !next.After(now); next = next.Add(time.Second) {
				age = min(max(age+rnd.Float64()*3-1, 0), 70)
				for queue, lost := range map[string]bool{"orders": false, "mails": n > 1000 && n < 2000} {
					if lost {
						continue
					}
					for _, s := range []*side{live, rehearsal} {
						if _, err := s.queues.Observe(next, queue, "push", shedding.Sample{Age: shedding.Known(age)}); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			for len(live.requests) > 0 && rnd.IntN(3) == 0 {
				i, o := rnd.IntN(len(live.requests)), admission.Outcome(rnd.IntN(4))
				if a, b := live.end(now, i, o), rehearsal.end(now, i, o); a != b {
					t.Fatalf("seed %d, request %d: ended as %q, in the rehearsal as %q", seed, n, a, b)
				}
			}
			r := randomRequest(rnd, n)
			liveRequest, want := live.decide(now, r)
			rehearsedRequest, got := rehearsal.decide(now, r)
			if diff := gocmp.Diff(seen(liveRequest, want), seen(rehearsedRequest, got)); diff != "" {
				t.Fatalf("seed %d, request %d: the rehearsal decides otherwise (-gateway +rehearsal):\n%s", seed, n, diff)
			}
			if err := sameRetryAfter(want, got); err != nil {
				t.Fatalf("seed %d, request %d: %v", seed, n, err)
			}
			reasons[cmp.Or(got.Reason, got.Shadow)]++
		}
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

func randomRequest(rnd *rand.Rand, n int) admission.Request {
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	header := lines{"x-tenant-id": pick("acme", "globex", "watched", "t1", "t2", "t3")}
	if rnd.IntN(4) > 0 {
		header["idempotency-key"] = fmt.Sprint("key-", rnd.IntN(n/2+2))
	}
	if rnd.IntN(5) == 0 {
		header["x-priority"] = pick("critical", "bulk", "none")
	}
	if rnd.IntN(5) == 0 {
		header["x-job-type"] = "backfill"
	}
	return admission.Request{
		ID: fmt.Sprint(n), Method: "POST", Path: pick("/orders", "/orders", "/campaigns/7", "/mails", "/trial", "/elsewhere"),
		Query: pick("", "", "x=1"), Header: header, Client: netip.MustParseAddr("192.0.2.1"), Class: admission.NoClass,
	}
}

// sameRetryAfter allows for what each gateway draws: the spread over tenants at a
// bucket, and when to come back for a place.
func sameRetryAfter(live, rehearsed admission.Decision) error {
	low, high := live.RetryAfter, live.RetryAfter
	switch live.Reason {
	case admission.TenantLimit:
		low -= 5 * time.Second
	case admission.OriginFull:
		// Both lie between two and four times the expected wait.
		low, high = min(max(low/2, time.Second), low), min(max(high*2, time.Second), time.Minute)
	}
	if rehearsed.RetryAfter < low || rehearsed.RetryAfter > high {
		return fmt.Errorf("%v: Retry-After is %v, in the rehearsal %v", live.Reason, live.RetryAfter, rehearsed.RetryAfter)
	}
	return nil
}

// The same seed gives the same Retry-After to the nanosecond, whatever the
// process draws.
func TestRehearsalRepeatsExactly(t *testing.T) {
	cfg, err := config.Parse("policy.yaml", []byte(rehearsedPolicy))
	if err != nil {
		t.Fatal(err)
	}
	run := func() (all []string) {
		rnd := rand.New(rand.NewPCG(3, 7))
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		s := rehearsed(t, cfg, now, 3)
		for n := range 1500 {
			now = now.Add(5 * time.Millisecond)
			if n%200 == 0 {
				_, _ = s.queues.Observe(now, "orders", "push", shedding.Sample{Age: shedding.Known(float64(n) / 50)})
			}
			r, d := s.decide(now, randomRequest(rnd, n))
			all = append(all, fmt.Sprint(seen(r, d), " again in ", d.RetryAfter.Round(10*time.Nanosecond)))
			if len(s.requests) > 8 {
				s.end(now, 0, admission.Answered)
			}
		}
		return all
	}
	if diff := gocmp.Diff(run(), run()); diff != "" {
		t.Errorf("two runs of one rehearsal differ:\n%s", diff)
	}
}

// A policy is rehearsed without the certificates, servers and files that it
// names.
func TestRehearsalTouchesNothing(t *testing.T) {
	cfg, err := config.Parse("policy.yaml", []byte(`
version: 1
origin: {url: https://10.0.0.5, tls: {ca: /nowhere/ca.crt}}
tls: {cert: /nowhere/tls.crt, key: /nowhere/tls.key}
store: {redis: {url: redis://127.0.0.1:1/0}}
queues:
  orders: {max_useful_age: 60s, signal: {redis_stream: {url: redis://127.0.0.1:1/0, stream: orders, group: workers}}}
routes: [{id: order, match: {path: /orders}, class: standard, queue: orders, idempotency: {key: required}}]
`))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := rehearsed(t, cfg, now, 1)
	r := admission.Request{
		Method: "POST", Path: "/orders", Header: lines{"idempotency-key": "k"}, Client: netip.MustParseAddr("192.0.2.1"),
	}
	if _, d := s.decide(now, r); d.Verdict != admission.Admit {
		t.Fatalf("the first request is not admitted: %v %v", d.Verdict, d.Reason)
	}
	s.end(now, 0, admission.Answered)
	if _, d := s.decide(now, r); d.Verdict != admission.Replay || d.Recorded.Status != 201 {
		t.Fatalf("its repetition is not answered with the first answer: %v %v", d.Verdict, d.Reason)
	}
}
