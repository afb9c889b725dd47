package admin

import (
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/admission"
)

// sent is a header as it was sent.
type sent [][2]string

func (h sent) Get(name string) (value string, count int) {
	for _, f := range h {
		if strings.EqualFold(f[0], name) {
			if count == 0 {
				value = f[1]
			}
			count++
		}
	}
	return value, count
}

// recordedPolicy reads a tenant from an API key or a header, and records two
// fields.
func recordedPolicy() *Policy {
	p := testPolicy(1)
	p.File = "policy.yaml"
	p.Facts = Facts{
		Fields:   []string{"X-Tenant-Id", "X-Job-Type", "X-Api-Key", "Authorization", "x-job-type"},
		Identity: []IdentityPlace{{Field: "X-Api-Key", Credential: true}, {Field: "X-Tenant-Id"}},
	}
	return p
}

func recordable(p *Policy, header sent) *admission.Event {
	return &admission.Event{
		Request: &admission.Request{
			ID: "req-1", Method: "POST", Path: "/v1/orders", Query: "a=secret-query", Host: "secret-host", Header: header,
			Client: netip.MustParseAddr("192.0.2.7"), ClientCert: "billing", Tenant: "acme", Route: p.Routes[0],
			Received: epoch, Fingerprint: 42,
		},
		Decision: admission.Decision{
			Verdict: admission.Refuse, Reason: admission.Deferred, Status: 503, KeyStatus: "fresh", Lot: 7, Again: 9,
			Promise: admission.Promise{ID: 0x1122334455667788}, Limit: admission.Limit{Name: "tenant", Quota: 10, Remaining: 3},
		},
		Status: 503, Asked: 5 * time.Microsecond, Decided: 12 * time.Microsecond, Done: 34 * time.Microsecond,
	}
}

// written is what a log makes of events.
func written(t *testing.T, p *Policy, o LogOptions, events ...*admission.Event) (*buffer, []DecisionLine) {
	t.Helper()
	var out buffer
	l := NewDecisionLog(&out, o)
	l.SetPolicy(p)
	for _, e := range events {
		l.Observe(e)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var lines []DecisionLine
	for _, text := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		if !strings.HasPrefix(text, `{"kind":"decision"`) {
			continue
		}
		var l DecisionLine
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	return &out, lines
}

// A record holds what the decision depended on, and no secret: keys and tickets
// as hashes by which the same is known again, credentials not at all.
func TestRecordHoldsFactsAndNoSecrets(t *testing.T) {
	p := recordedPolicy()
	hider := NewHider([]byte("of the store"))
	header := sent{
		{"X-Tenant-Id", "acme"}, {"x-tenant-id", "globex"}, {"X-Job-Type", "backfill"}, {"X-Other", "secret-other"},
		{"Authorization", "Bearer secret-token"}, {"Cookie", "secret-cookie"}, {"X-Api-Key", "secret-api-key"},
		{"Idempotency-Key", `"secret-key"`}, {"Sluice-Ticket", "AQIAAAAAAAAAABEiM0RVZneI"},
	}
	out, lines := written(t, p, LogOptions{Hider: hider}, recordable(p, header))
	if strings.Contains(out.String(), "secret") {
		t.Errorf("a secret is in the recording: %s", out.String())
	}
	if len(lines) != 1 {
		t.Fatalf("%d lines, want 1", len(lines))
	}
	got := lines[0].Recorded
	want := Recorded{
		Received: epoch, AskedUS: 5, Method: "POST", Path: "/v1/orders", Client: "192.0.2.7", Cert: "billing",
		Fields:     map[string][]string{"x-tenant-id": {"acme", "acme"}, "x-job-type": {"backfill"}},
		Identified: "api_key", KeyStatus: "fresh", Limit: "tenant", Tokens: 3, Burst: 10, Lot: 7, Again: 9,
		Key: got.Key, Fingerprint: got.Fingerprint, Promise: got.Promise, Ticket: got.Ticket,
	}
	if a, b := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); a != b {
		t.Errorf("recorded\n%s\nwant\n%s", a, b)
	}
	if got.Ticket == "" || got.Ticket != got.Promise {
		t.Errorf("the ticket %q is not known as that of the promise %q", got.Ticket, got.Promise)
	}

	// The same key without its quotes, another one, one of another tenant, and
	// the same under another secret.
	other := recordable(p, sent{{"Idempotency-Key", "another"}})
	elsewhere := recordable(p, sent{{"Idempotency-Key", "secret-key"}})
	elsewhere.Request.Tenant = "globex"
	_, lines = written(t, p, LogOptions{Hider: hider}, recordable(p, sent{{"Idempotency-Key", "secret-key"}}), other, elsewhere)
	if lines[0].Key != got.Key || lines[1].Key == got.Key || lines[2].Key == got.Key || len(got.Key) != 24 {
		t.Errorf("the key %s is recorded anew as %s, another one as %s, one of another tenant as %s", got.Key, lines[0].Key, lines[1].Key, lines[2].Key)
	}
	_, lines = written(t, p, LogOptions{}, recordable(p, header))
	if lines[0].Key == got.Key || lines[0].Fingerprint == got.Fingerprint {
		t.Error("what is hidden does not depend on the secret")
	}
}

// What tells the tenant first counts; a key that is invalid is told to be so; a
// request too long to be recorded is marked, and so is what was none.
func TestRecordMarksWhatIsSpecial(t *testing.T) {
	p := recordedPolicy()
	slices.Reverse(p.Facts.Identity)
	both := recordable(p, sent{{"X-Api-Key", "k"}, {"X-Tenant-Id", "acme"}})
	wrong := recordable(p, sent{{"Idempotency-Key", "a,b"}})
	wrong.Decision.Reason = admission.KeyInvalid
	long := recordable(p, sent{{"X-Job-Type", "backfill"}})
	long.Request.Path = "/" + strings.Repeat("x", factsSize)
	none := recordable(p, sent{})
	none.Request.Method, none.Decision.Reason = "", admission.BadRequest
	_, lines := written(t, p, LogOptions{}, both, wrong, long, none)
	if lines[0].Identified != "" {
		t.Errorf("a header that comes first is passed over: %+v", lines[0].Recorded)
	}
	if lines[1].Key != "invalid" {
		t.Errorf("an invalid key is recorded as %q", lines[1].Key)
	}
	if !lines[2].Cut || lines[2].Path != "" || lines[2].Fields["x-job-type"] == nil || lines[0].Cut {
		t.Errorf("a long path is recorded as %+v", lines[2].Recorded)
	}
	if lines[3].Method != "" || lines[3].Cut {
		t.Errorf("what was no request is recorded as %+v", lines[3].Recorded)
	}
}

// A recording says what it leaves out, and which policies and readings there
// were.
func TestRecordingSaysWhatItLacks(t *testing.T) {
	var out buffer
	l := NewDecisionLog(&out, LogOptions{PerSecond: 3, AdmitsPerSecond: All, Signals: true})
	p := recordedPolicy()
	l.SetPolicy(p)
	age := 4.5
	reading := SignalLine{Time: epoch, Queue: "orders", Signal: "push", Age: &age}
	reading.Depth = reading.Figure(math.NaN())
	l.Signal(reading)
	for range 100 {
		l.Observe(refusal(p, admission.TenantLimit, 0))
		l.Observe(&admission.Event{Request: &admission.Request{Route: p.Routes[0], Received: epoch}, Decision: admission.Decision{Verdict: admission.Admit}, Outcome: admission.Answered})
	}
	l.Close(t.Context())
	if n := len(out.lines(t, KindDecision)); n != 103 {
		t.Errorf("%d decisions, want 3 refusals and 100 admitted", n)
	}
	missing := 0.0
	for _, g := range out.lines(t, KindGap) {
		missing += g["sampled_out"].(float64) + g["dropped"].(float64)
	}
	if missing != 97 {
		t.Errorf("%v are said to be missing, want 97", missing)
	}
	policies := out.lines(t, KindPolicy)
	if len(policies) != 1 || policies[0]["config"] != "cafe" || policies[0]["refusals_per_second"] != "3" || policies[0]["admits_per_second"] != "all" ||
		policies[0]["version"] != 1. || fmt.Sprint(policies[0]["fields"]) != "[x-tenant-id x-job-type]" {
		t.Errorf("policies: %v", policies)
	}
	signals := out.lines(t, KindSignal)
	if len(signals) != 1 || signals[0]["age"] != 4.5 || signals[0]["undefined"] != true || signals[0]["depth"] != nil {
		t.Errorf("signals: %v", signals)
	}
}

// Recording allocates nothing on the request path.
func TestRecordingAllocatesNothing(t *testing.T) {
	l := NewDecisionLog(discard{}, LogOptions{PerSecond: All, Queue: 1 << 14})
	live := NewLive(NewMetrics(MetricsOptions{}), LiveOptions{PerSecond: All})
	p := recordedPolicy()
	l.SetPolicy(p)
	live.SetPolicy(p)
	e := recordable(p, sent{{"X-Tenant-Id", "acme"}, {"X-Job-Type", "backfill"}, {"Idempotency-Key", "secret-key"}})
	var rec record
	v, _ := l.of(e.Request.Route)
	if n := testing.AllocsPerRun(1000, func() { rec.set(e, v.Policy) }); n != 0 {
		t.Errorf("%v allocations to copy the facts", n)
	}
	if n := testing.AllocsPerRun(1000, func() { live.Observe(e) }); n != 0 {
		t.Errorf("%v allocations to keep it in the tail", n)
	}
	l.Close(t.Context())
	// The writer, which allocates, has ended: what is measured is observing.
	if n := testing.AllocsPerRun(1000, func() { l.Observe(e) }); n != 0 {
		t.Errorf("%v allocations to observe", n)
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// A decision of the tail is remembered with what it depended on, and with the
// readings before it.
func TestRemember(t *testing.T) {
	l := NewLive(NewMetrics(MetricsOptions{}), LiveOptions{Tail: 8})
	p := recordedPolicy()
	l.SetPolicy(p)
	for n := range 700 {
		age := float64(n)
		l.Signal(SignalLine{Time: epoch.Add(time.Duration(n-690) * time.Second), Queue: "orders", Signal: "push", Age: &age})
	}
	l.Observe(recordable(p, sent{{"X-Job-Type", "backfill"}}))
	m, ok := l.Remember("req-1")
	if !ok || m.Decision.Path != "/v1/orders" || m.Decision.Fields["x-job-type"] == nil || m.Decision.Reason != "deferred" {
		t.Fatalf("remembered %v: %+v", ok, m.Decision)
	}
	if n := len(m.Readings); n < keptReadings || *m.Readings[n-1].Age != 690 {
		t.Errorf("%d readings, want those up to the decision", n)
	}
	if _, ok := l.Remember("req-2"); ok {
		t.Error("a request that never was is remembered")
	}
}
