package gateway_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"sluice/admin"
	"sluice/admission"
	"sluice/config"
	"sluice/gateway"
	"sluice/rehearse"
	"sluice/rehearse/recording"
	"sluice/rehearse/replay"
	"sluice/shedding"
)

// randomPolicy is a policy of random sizes, with every kind of gate and nothing
// that waits.
func randomPolicy(rnd *rand.Rand) string {
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	n := func(from, to int) int { return from + rnd.IntN(to-from+1) }
	band := func() string {
		from := n(5, 60)
		return fmt.Sprintf("{from: %d%%, full: %d%%, action: %s, mode: %s, min_admit: %d%%}",
			from, from+n(1, 40), pick("shed", "defer"), pick("enforce", "enforce", "enforce", "shadow"), n(0, 10))
	}
	return fmt.Sprintf(`version: 1
origin: {url: http://127.0.0.1:3000, max_in_flight: %d}
tenants:
  from: [%s{header: X-Tenant-Id}, {client_ip: {}}]
  api_keys: [{sha256: 2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b, tenant: keyholder}]
  limit: {rate: %d/s, burst: %d}
  overrides: {acme: {rate: %d/s, burst: %d}, watched: {rate: 1/s, burst: 1, mode: shadow}}
classes: [{name: critical, max_wait: 0s}, {name: standard, max_wait: 0s}, {name: bulk, max_wait: 0s}]
class_header: {name: X-Priority, ceiling: %s}
priority:
  - {id: backfills, when: {header: {X-Job-Type: "back*"}}, class: bulk}
  - {id: tried, when: {not: {header: {X-Job-Type: "*"}}, tenant: t1}, class: %s}
queues:
  orders:
    max_useful_age: %ds
    signal: {every: 1s, push: {}}
    shed: {bulk: %s, standard: %s}
  mails:
    max_useful_age: 60s
    max_depth: %d
    signal: {every: 1s, on_loss: %s, push: {}}
routes:
  - {id: order, match: {method: POST, path: /orders}, class: critical, queue: orders, idempotency: {key: %s, wait: 0s, on_unknown: %s}}
  - {id: campaign, match: {method: POST, path: "/campaigns/*"}, class: bulk, queue: orders, cost: %d, cost_header: {name: X-Cost, max: 20}, limit: {rate: %d/s, burst: 20}}
  - {id: mail, match: {method: POST, path: /mails}, class: standard, queue: mails, max_in_flight: %d}
  - {id: trial, match: {method: POST, path: /trial}, class: standard, queue: orders, mode: shadow}
unmatched: %s
`, n(8, 40), pick("", "{api_key: {}}, "), n(3, 15), n(5, 40), n(20, 80), n(20, 80), pick("critical", "standard"), pick("critical", "bulk"),
		n(20, 90), band(), band(), n(20, 400), pick("hold", "cap", "open", "closed"), pick("required", "optional"), pick("hold", "release"),
		n(1, 4), n(1, 9), n(2, 9), pick("refuse", "forward"))
}

// call is one request of the random traffic, and what becomes of it.
type call struct {
	at      time.Duration
	request *rehearse.Request
	takes   time.Duration
	outcome admission.Outcome
	status  int

	r        *admission.Request
	decision admission.Decision
}

func randomCall(rnd *rand.Rand, n int) *call {
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	q := &rehearse.Request{
		Method: pick("POST", "POST", "POST", "POST", "POST", "GET"), Path: pick("/orders", "/orders", "/orders", "/campaigns/7", "/campaigns/7", "/mails", "/mails", "/trial", "/elsewhere", "/orders/%2e%2e/mails"),
		Client: netip.MustParseAddr(pick("192.0.2.1", "2001:db8::7")), Body: pick("{}", "{}", `{"a": 1}`),
	}
	add := func(name, value string) { q.Header = append(q.Header, rehearse.Field{Name: name, Value: value}) }
	if rnd.IntN(8) > 0 {
		add("X-Tenant-Id", pick("acme", "globex", "watched", "t1", "t2", "t3", "keyholder", "ip:1"))
	}
	if rnd.IntN(12) == 0 {
		add("X-Tenant-Id", "twice")
	}
	if rnd.IntN(4) > 0 {
		add("Idempotency-Key", pick(fmt.Sprint("key-", n/40*20+rnd.IntN(40)), fmt.Sprint("key-", n/40*20+rnd.IntN(40)), fmt.Sprintf(`"key-%d"`, n/40*20+rnd.IntN(40))))
	}
	if rnd.IntN(20) == 0 {
		q.Header = slices.DeleteFunc(q.Header, func(f rehearse.Field) bool { return f.Name == "Idempotency-Key" })
		add("Idempotency-Key", "a,b")
	}
	if rnd.IntN(5) == 0 {
		add("X-Priority", pick("critical", "bulk", "none"))
	}
	if rnd.IntN(5) == 0 {
		add("X-Job-Type", pick("backfill", "other"))
	}
	if rnd.IntN(5) == 0 {
		add("X-Cost", pick("7", "1000", "x"))
	}
	return &call{
		request: q, takes: time.Duration(1+rnd.IntN(400_000)) * time.Microsecond,
		outcome: admission.Outcome(1 + rnd.IntN(3)), status: 200 + rnd.IntN(2),
	}
}

// facts are the request as the transport hands it over.
func (c *call) facts(n int, at time.Time) *admission.Request {
	q := c.request
	return &admission.Request{
		ID: fmt.Sprint("call-", n), Method: q.Method, Path: q.Path, Header: q.Header, Client: q.Client, Class: admission.NoClass, Received: at,
	}
}

// reading is one that both sides are told.
type reading struct {
	at     time.Duration
	queue  string
	sample shedding.Sample
	lost   bool
}

// A running gateway is recorded under random policies, traffic and signals. A
// stage that draws from the same seed, the replay of the recording with other
// draws than were made, and the explanation of single decisions come to the same
// verdict and reason for each request.
func TestEveryoneDecidesTheSame(t *testing.T) {
	seeds := []uint64{1, 2, 3, 4}
	reasons := map[string]int{}
	back := 0
	for _, seed := range append(seeds, rand.Uint64()) {
		rnd := rand.New(rand.NewPCG(seed, 11))
		text := randomPolicy(rnd)
		cfg, err := config.Parse("policy.yaml", []byte(text))
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		calls, readings, log := play(t, rnd, cfg, seed)
		for _, c := range calls {
			reasons[cmp.Or(c.decision.Reason, c.decision.Shadow).String()]++
			if c.decision.Promise.Made() && c.decision.Verdict == admission.Refuse {
				back++
			}
		}
		onStage(t, seed, cfg, calls, readings)
		replayed(t, rnd, seed, cfg, calls, log)
		if t.Failed() {
			t.Logf("seed %d, of the policy\n%s", seed, text)
			return
		}
	}
	t.Logf("decisions compared: %v", reasons)
	for _, r := range []admission.Reason{
		admission.None, admission.TenantLimit, admission.Deferred, admission.Shed, admission.SignalLost, admission.OriginFull, admission.KeyMissing,
		admission.KeyInvalid, admission.KeyReused, admission.KeyInProgress, admission.KeyInDoubt, admission.NoRoute, admission.BadRequest, admission.TenantUnknown,
	} {
		if reasons[r.String()] == 0 {
			t.Errorf("the traffic never met %v, so that nothing is proved about it", r)
		}
	}
	if back == 0 {
		t.Error("nothing was promised")
	}
}

var beginning = time.Date(2026, 5, 1, 12, 0, 0, 123456000, time.UTC)

// play has a gateway decide random traffic, and returns its recording.
func play(t *testing.T, rnd *rand.Rand, cfg *config.Config, seed uint64) ([]*call, []reading, []byte) {
	t.Helper()
	var out bytes.Buffer
	log := admin.NewDecisionLog(&out, admin.LogOptions{PerSecond: admin.All, AdmitsPerSecond: admin.All, Signals: true, Queue: 1 << 14})
	live := gateway.NewLive(t, cfg, beginning, seed, log)
	var calls []*call
	var readings []reading
	type end struct {
		at time.Duration
		c  *call
	}
	var ends []end
	var returning []*call // refused with a ticket
	age, depth, next := 0.0, 0.0, time.Duration(0)
	finish := func(until time.Duration) {
		slices.SortStableFunc(ends, func(a, b end) int { return cmp.Compare(a.at, b.at) })
		for len(ends) > 0 && ends[0].at <= until {
			c := ends[0].c
			live.End(beginning.Add(ends[0].at), c.r, c.outcome, c.status)
			e := &admission.Event{Request: c.r, Decision: c.decision, Outcome: c.outcome, Status: c.status, Done: c.takes}
			if c.outcome == admission.Answered {
				e.OriginAnswered = c.takes
			}
			log.Observe(e)
			ends = ends[1:]
		}
	}
	now := time.Duration(0)
	const count = 1500
	for n := range count {
		now += time.Duration(1+rnd.ExpFloat64()*20_000) * time.Microsecond
		for ; next <= now; next += time.Second {
			finish(next)
			age = min(max(age+rnd.Float64()*3-0.8, 0), 95)
			depth = max(depth+rnd.Float64()*60-25, 0)
			for i, queue := range []string{"orders", "mails"} {
				r := reading{at: next, queue: queue, sample: shedding.Sample{Age: shedding.Known(age)}}
				if i == 1 {
					r.sample.Depth, r.lost = shedding.Known(depth), n > count/3 && n < count*2/3
				}
				readings = append(readings, r)
				at := beginning.Add(next)
				if r.lost {
					_ = live.Sink.Fail(at, queue, "push", fmt.Errorf("lost"))
				} else if _, err := live.Sink.Observe(at, queue, "push", r.sample); err != nil {
					t.Fatal(err)
				}
			}
		}
		finish(now)
		c := randomCall(rnd, n)
		if len(returning) > 0 && rnd.IntN(4) == 0 {
			was := returning[0]
			returning = returning[1:]
			q := *was.request
			q.Header = append(slices.Clone(q.Header), rehearse.Field{
				Name: "Sluice-Ticket", Value: string(was.decision.Promise.Signer.AppendTicket(nil, was.r, &was.decision.Promise)),
			})
			c.request = &q
		}
		c.at, c.r = now, c.facts(n, beginning.Add(now))
		c.decision = live.Decide(c.r.Received, c.r, c.request.Body)
		calls = append(calls, c)
		if c.decision.Verdict == admission.Admit {
			ends = append(ends, end{now + c.takes, c})
			continue
		}
		if c.decision.Promise.Signer != nil {
			returning = append(returning, c)
		}
		log.Observe(&admission.Event{Request: c.r, Decision: c.decision, Status: c.decision.Status})
	}
	finish(now + time.Hour)
	if err := log.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := log.Counts(); c.Written != count {
		t.Fatalf("seed %d: %d of %d decisions were recorded: %+v", seed, c.Written, count, c)
	}
	return calls, readings, out.Bytes()
}

func word(d *admission.Decision) string {
	w := replay.Word(d.Verdict, d.Reason)
	if d.Shadow != admission.None {
		w += " shadow " + d.Shadow.String()
	}
	return w
}

// onStage plays the same on a stage that draws from the same seed. Tickets are
// those that the stage wrote.
func onStage(t *testing.T, seed uint64, cfg *config.Config, calls []*call, readings []reading) {
	t.Helper()
	stage, err := rehearse.NewStage(cfg, rehearse.Given{Told: true, Seed: seed, Begin: beginning})
	if err != nil {
		t.Fatal(err)
	}
	defer stage.Close()
	tickets := map[uint64]string{}
	for n, c := range calls {
		for len(readings) > 0 && readings[0].at <= c.at {
			r := readings[0]
			readings = readings[1:]
			if err := stage.Advance(r.at); err != nil {
				t.Fatal(err)
			}
			if err := stage.Tell(r.queue, "push", r.sample, !r.lost); err != nil {
				t.Fatal(err)
			}
		}
		if err := stage.Advance(c.at); err != nil {
			t.Fatal(err)
		}
		q := *c.request
		q.Header = slices.Clone(q.Header)
		for i, f := range q.Header {
			if f.Name == "Sluice-Ticket" {
				q.Header[i].Value = tickets[ticketOf(f.Value)]
			}
		}
		o := &rehearse.Origin{Takes: c.takes, Outcome: c.outcome, Status: c.status}
		stage.Send(&q, o, func(p *rehearse.Performance) {
			if got, want := word(&p.Decision), word(&c.decision); got != want {
				t.Errorf("seed %d, call %d: the stage decides %s, the gateway %s", seed, n, got, want)
			}
			if signer := p.Decision.Promise.Signer; signer != nil && c.decision.Promise.Signer != nil {
				theirs := string(c.decision.Promise.Signer.AppendTicket(nil, c.r, &c.decision.Promise))
				tickets[ticketOf(theirs)] = string(signer.AppendTicket(nil, p.Request, &p.Decision.Promise))
			}
		})
	}
	if err := stage.Finish(); err != nil {
		t.Fatal(err)
	}
}

// ticketOf tells tickets apart.
func ticketOf(ticket string) uint64 {
	var h uint64
	for i := range len(ticket) {
		h = h*1099511628211 + uint64(ticket[i])
	}
	return h
}

// replayed replays the recording with another seed than it was made with, and
// explains some of its decisions.
func replayed(t *testing.T, rnd *rand.Rand, seed uint64, cfg *config.Config, calls []*call, log []byte) {
	t.Helper()
	rec := &recording.Recording{}
	if err := rec.Read("recording", bytes.NewReader(log)); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	player, err := replay.NewPlayer(cfg, rec, seed+1)
	if err != nil {
		t.Fatal(err)
	}
	defer player.Close()
	made := map[string]string{}
	for {
		more, err := player.Next(func(m replay.Made) {
			if m.Taken != "" {
				made[m.ID] = string(m.Taken)
			} else {
				made[m.ID] = word(&m.Performance.Decision)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			break
		}
	}
	if err := player.Finish(); err != nil {
		t.Fatal(err)
	}
	for n, c := range calls {
		if got, want := made[fmt.Sprint("call-", n)], word(&c.decision); got != want {
			t.Errorf("seed %d, call %d at %v: the replay decides %s, the gateway %s", seed, n, c.at, got, want)
		}
	}
	report, err := replay.Run(cfg, rec, seed+2)
	if err != nil {
		t.Fatal(err)
	}
	if report.Changed != 0 || report.Compared != len(calls) {
		t.Errorf("seed %d: %d of %d decisions change under the same policy: %+v", seed, report.Changed, report.Compared, report.Changes)
	}
	for range 6 {
		n := rnd.IntN(len(calls))
		e, err := replay.Explain(cfg, rec, rec.Find(fmt.Sprint("call-", n)), seed+3)
		if err != nil {
			t.Fatal(err)
		}
		d := &calls[n].decision
		if e.Verdict != d.Verdict.String() || e.Reason != d.Reason.String() || e.Recorded.Differs != "" {
			t.Errorf("seed %d, call %d: explained as %s %s, decided %s: %s", seed, n, e.Verdict, e.Reason, word(d), e.Recorded.Differs)
		}
	}
}
