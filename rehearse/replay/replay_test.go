package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sluice/config"
	"sluice/rehearse/recording"
)

const policy = `version: 1
origin: {url: http://127.0.0.1:3000}
tenants: {from: [{api_key: {}}, {header: X-Tenant-Id}], limit: {rate: 1/s, burst: 3}, api_keys: [{sha256: 2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b, tenant: acme}]}
classes: [{name: high, max_wait: 100ms}, {name: low}]
queues:
  work: {max_useful_age: 100s, signal: {every: 1s, push: {}}, shed: {low: {from: 20%, full: 40%, action: defer}}}
routes:
  - {id: put, match: {method: POST, path: /put}, class: high, idempotency: {key: optional}}
  - {id: batch, match: {method: POST, path: /batch}, class: low, queue: work}
`

func parse(t testing.TB, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("policy.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// recorder writes lines of a recording.
type recorder struct {
	bytes.Buffer
	n      int
	config string // hash
}

func (r *recorder) line(kind string, fields map[string]any) {
	fields["kind"] = kind
	if fields["ts"] == nil {
		fields["ts"] = at(0)
	}
	text, _ := json.Marshal(fields)
	r.Write(append(text, '\n'))
}

// at is so many milliseconds after the beginning.
func at(ms int) string {
	return fmt.Sprintf("2026-05-01T12:%02d:%02d.%03dZ", ms/60000, ms/1000%60, ms%1000)
}

func (r *recorder) policy(cfg *config.Config, with map[string]any) {
	r.config = cfg.Source.Hash
	fields := map[string]any{
		"version": 1, "config": cfg.Source.Hash, "file": "policy.yaml", "classes": []string{"high", "low"}, "fields": []string{"x-tenant-id"},
		"refusals_per_second": "all", "admits_per_second": "all", "signals": true,
	}
	for k, v := range with {
		fields[k] = v
	}
	r.line("policy", fields)
}

// decision is one of acme on the route put that was admitted, except for what
// with says.
func (r *recorder) decision(ms int, with map[string]any) string {
	r.n++
	id := fmt.Sprint("id-", r.n)
	fields := map[string]any{
		"id": id, "config": r.config, "tenant": "acme", "class": "high", "route": "put", "verdict": "admit", "reason": "none", "status": 200, "outcome": "answered",
		"received": at(ms), "answered_us": 1000, "done_us": 1000, "method": "POST", "path": "/put", "fields": map[string][]string{"x-tenant-id": {"acme2"}},
	}
	for k, v := range with {
		fields[k] = v
	}
	r.line("decision", fields)
	return id
}

func refused(reason string) map[string]any {
	return map[string]any{"verdict": "refuse", "reason": reason, "status": 429, "outcome": "not_tried", "answered_us": 0}
}

func (r *recorder) run(t testing.TB, cfg *config.Config) *Report {
	t.Helper()
	rec := &recording.Recording{}
	if err := rec.Read("d.jsonl", bytes.NewReader(r.Bytes())); err != nil {
		t.Fatal(err)
	}
	report, err := Run(cfg, rec, 1)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// What an edit changes is told by outcome, class, tenant, route and time, each
// with an example.
func TestChangesAreCounted(t *testing.T) {
	cfg := parse(t, policy)
	var r recorder
	r.policy(cfg, nil)
	for n := range 3 {
		r.decision(10*n, nil)
	}
	first := r.decision(40, refused("tenant_limit"))
	r.decision(41, refused("tenant_limit"))
	if same := r.run(t, cfg); same.Changed != 0 || !same.Same || !same.Recording.Complete || len(same.Warnings) != 0 {
		t.Errorf("under the same policy %d decisions change: %+v", same.Changed, same)
	}
	report := r.run(t, parse(t, strings.Replace(policy, "burst: 3", "burst: 4", 1)))
	if report.Same || report.Compared != 5 || report.Changed != 1 || report.Recorded["admit"] != 3 || report.Replayed["admit"] != 4 {
		t.Errorf("with one token more: %+v", report)
	}
	want := Change{From: "refuse tenant_limit", To: "admit", Class: "high", Route: "put", Count: 1, Example: first, Tenant: "acme"}
	if len(report.Changes) != 1 || report.Changes[0] != want {
		t.Errorf("changes %+v, want %+v", report.Changes, want)
	}
	group := Group{Name: "high", Requests: 5, Recorded: 3, Replayed: 4, Changed: 1}
	if len(report.Classes) != 1 || report.Classes[0] != group {
		t.Errorf("classes %+v, want %+v", report.Classes, group)
	}
	point := Point{Requests: 5, Recorded: 3, Replayed: 4}
	if c := report.Curve; len(c.Classes) != 1 || len(c.Classes[0].Points) != 1 || c.Classes[0].Points[0] != point {
		t.Errorf("curve %+v, want %+v", c, point)
	}
	var text, object bytes.Buffer
	if err := report.WriteText(&text); err != nil || !strings.Contains(text.String(), "1 of 5 decisions change (20.0%)") || !strings.Contains(text.String(), "such as "+first+" of acme") {
		t.Errorf("in words (%v):\n%s", err, text.String())
	}
	if err := report.WriteJSON(&object); err != nil || !json.Valid(object.Bytes()) {
		t.Errorf("as JSON (%v):\n%s", err, object.String())
	}
}

// What a recording does not tell is taken as recorded, and counted by name.
func TestWhatCannotBeMadeAgainIsCounted(t *testing.T) {
	cfg := parse(t, policy)
	var r recorder
	r.policy(cfg, nil)
	with := func(f map[string]any, key string, value any) map[string]any { f[key] = value; return f }
	r.decision(1, with(refused("bad_request"), "method", ""))
	r.decision(2, refused("too_large"))
	r.decision(3, with(with(refused("tenant_unknown"), "identified", "api_key"), "tenant", ""))
	r.decision(4, refused("store_unavailable"))
	r.decision(5, map[string]any{"cut": true})
	r.decision(6, refused("origin_full"))
	report := r.run(t, cfg)
	got := map[string]int{}
	for _, n := range report.Taken {
		got[n.What] = n.Count
	}
	want := map[Taken]int{Outside: 2, Credential: 1, StoreAway: 1, Cut: 1, NoPlaces: 1}
	for why, n := range want {
		if got[string(why)] != n {
			t.Errorf("%q: %d, want %d", why, got[string(why)], n)
		}
	}
	if len(got) != len(want) || report.Compared != 0 || report.Changed != 0 {
		t.Errorf("taken as recorded %v, compared %d, changed %d", got, report.Compared, report.Changed)
	}
}

// A tenant that an API key told is the same in the replay, without its key.
func TestTenantOfAnAPIKeyIsTakenAsRecorded(t *testing.T) {
	cfg := parse(t, policy)
	var r recorder
	r.policy(cfg, nil)
	for n := range 3 {
		r.decision(n, map[string]any{"identified": "api_key"})
	}
	r.decision(4, refused("tenant_limit")) // of acme2, by the header
	if report := r.run(t, cfg); report.Changed != 1 || report.Changes[0].To != "admit" || !strings.Contains(fmt.Sprint(report.Warnings), "3 tenants were told by API keys") {
		t.Errorf("the header and the key name one tenant: %+v", report)
	}
}

// What the store held of a key before the recording began is held again.
func TestKeysFromBeforeTheRecording(t *testing.T) {
	cfg := parse(t, policy)
	var r recorder
	r.policy(cfg, nil)
	key := func(name, status string, f map[string]any) map[string]any {
		f["key"], f["fingerprint"], f["key_status"] = name, "f0", status
		return f
	}
	r.decision(1, key("k1", "replayed", map[string]any{"verdict": "replay", "outcome": "not_tried"}))
	r.decision(2, key("k2", "reused", refused("key_reused")))
	r.decision(3, key("k3", "in_doubt", refused("key_in_doubt")))
	r.decision(4, key("k4", "fresh", map[string]any{}))
	r.decision(50, key("k4", "replayed", map[string]any{"verdict": "replay", "outcome": "not_tried"}))
	again := key("k4", "reused", refused("key_reused"))
	again["fingerprint"] = "f1"
	r.decision(60, again)
	r.decision(70, map[string]any{"verdict": "refuse", "reason": "key_invalid", "outcome": "not_tried", "key": "invalid", "status": 400})
	if report := r.run(t, cfg); report.Changed != 0 || report.Compared != 7 {
		t.Errorf("%d of %d decisions change: %+v", report.Changed, report.Compared, report.Changes)
	}
}

// What makes a recording less than complete is said.
func TestIncompleteRecordingsAreWarnedOf(t *testing.T) {
	cfg := parse(t, policy)
	for name, c := range map[string]struct {
		write func(*recorder)
		want  string
	}{
		"sampled":      {func(r *recorder) { r.policy(cfg, nil); r.line("gap", map[string]any{"sampled_out": 5, "dropped": 2}) }, "7 decisions are missing (5 over"},
		"not to be":    {func(r *recorder) { r.policy(cfg, map[string]any{"admits_per_second": "0"}) }, "not every decision was to be written"},
		"no policy":    {func(*recorder) {}, "no line says which policy"},
		"begins late":  {func(r *recorder) { r.policy(cfg, map[string]any{"ts": at(5000)}) }, "begins in the middle"},
		"no signals":   {func(r *recorder) { r.policy(cfg, map[string]any{"signals": false}) }, "readings of signals were not recorded"},
		"unread field": {func(r *recorder) { r.policy(cfg, map[string]any{"fields": []string{}}) }, "reads the field x-tenant-id, which was not recorded with 1 decisions"},
		"unheard signal": {func(r *recorder) {
			r.policy(cfg, nil)
			r.line("signal", map[string]any{"queue": "other", "signal": "push", "age": 1})
		}, "no signal for the 1 readings of other/push"},
		"old promise": {func(r *recorder) { r.policy(cfg, nil); r.decision(1, map[string]any{"ticket": "abc"}) }, "1 requests came back for promises"},
		"two policies": {func(r *recorder) {
			r.policy(cfg, nil)
			r.policy(cfg, map[string]any{"config": "other"})
			r.config = "other"
		}, "decisions of 2 policies"},
	} {
		var r recorder
		c.write(&r)
		r.decision(10, nil)
		if report := r.run(t, cfg); !strings.Contains(strings.Join(report.Warnings, "\n"), c.want) {
			t.Errorf("%s: warnings %q, want one with %q", name, report.Warnings, c.want)
		}
	}
}

// Whatever reads as a recording can be replayed, under any policy.
func FuzzReplay(f *testing.F) {
	cfg := parse(f, policy)
	var r recorder
	r.policy(cfg, nil)
	r.line("signal", map[string]any{"ts": at(3), "queue": "work", "signal": "push", "age": 30, "undefined": true})
	r.decision(5, map[string]any{"key": "k", "fingerprint": "f", "key_status": "in_progress", "lot": 7, "again": 9, "ticket": "t"})
	r.decision(7, map[string]any{"route": "batch", "path": "/batch", "class": "low", "verdict": "refuse", "reason": "deferred", "promise": "t"})
	f.Add(r.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		rec := &recording.Recording{}
		if rec.Read("f", bytes.NewReader(data)) != nil || len(rec.Decisions) == 0 {
			return
		}
		report, err := Run(cfg, rec, 1)
		if err != nil {
			t.Fatal(err)
		}
		taken := 0
		for _, n := range report.Taken {
			taken += n.Count
		}
		if report.Compared+taken != len(rec.Decisions) {
			t.Fatalf("%d compared and %d taken as recorded of %d decisions", report.Compared, taken, len(rec.Decisions))
		}
		if err := report.WriteText(&bytes.Buffer{}); err != nil {
			t.Fatal(err)
		}
		_, _ = Explain(cfg, rec, rec.Decisions[0], 1)
	})
}
