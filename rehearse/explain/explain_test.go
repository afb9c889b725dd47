package explain

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/config"
	"sluice/config/strict"
	"sluice/rehearse"
	"sluice/rehearse/spec"
)

var update = flag.Bool("update", false, "write what the tests find instead of comparing with it")

const policy = `
version: 1
origin: {url: http://127.0.0.1:3000, max_in_flight: 5}
tenants:
  from: [{header: X-Tenant-Id}]
  missing: reject
  limit: {rate: 10/s, burst: 20}
  overrides: {watched: {rate: 1/s, burst: 2, mode: shadow}}
classes: [{name: high, max_wait: 100ms}, {name: mid}, {name: low}]
class_header: {name: X-Priority, ceiling: mid}
priority:
  - {id: night-work, when: {header: {X-Night: "*"}}, class: low}
queues:
  work:
    max_useful_age: 100s
    signal: {every: 1s, on_loss: closed, push: {}}
    shed:
      mid: {from: 60%, full: 90%}
      low: {from: 20%, full: 60%, action: defer}
routes:
  - {id: put, match: {method: POST, path: /work}, class: high, queue: work}
  - {id: batch, match: {method: POST, path: /batches/*}, class: low, queue: work}
  - {id: pay, match: {method: POST, path: /payments}, class: high, idempotency: {key: required}}
  - {id: dear, match: {path: /dear}, class: mid, limit: {rate: 1/s, burst: 5}, cost: 5}
  - {id: tried, match: {path: /tried}, class: low, queue: work, mode: shadow}
unmatched: refuse
`

func load(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("policy.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func ask(t *testing.T, policy, question string) *Explanation {
	t.Helper()
	cfg := load(t, policy)
	q, err := ParseQuestion("question", []byte(question), cfg)
	if err != nil {
		t.Fatal(err)
	}
	e, err := Explain(cfg, q, 1)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// questions has one for each way a request can go.
var questions = []struct {
	name, question   string
	verdict, reason  string
	decidedBy, path  string
	status           int
	changes, changed string // a change of the policy that is said to let it pass
}{
	{name: "passes", question: `{request: {method: POST, path: /work, tenant: acme}}`,
		verdict: "admit", reason: "none", decidedBy: "route", path: "routes[0]"},
	{name: "no-route", question: `{request: {method: GET, path: /work, tenant: acme}}`,
		verdict: "refuse", reason: "no_route", decidedBy: "route", path: "unmatched", status: 404,
		changes: "unmatched: refuse", changed: "unmatched: forward"},
	{name: "ambiguous", question: `{request: {method: POST, path: /batches/..%2fwork, tenant: acme}}`,
		verdict: "refuse", reason: "bad_request", decidedBy: "route", path: "routes", status: 400},
	{name: "no-tenant", question: `{request: {method: POST, path: /work}}`,
		verdict: "refuse", reason: "tenant_missing", decidedBy: "tenant", path: "tenants.missing", status: 400,
		changes: "missing: reject", changed: "missing: anonymous"},
	{name: "bad-tenant", question: `{request: {method: POST, path: /work, header: {X-Tenant-Id: "two words"}}}`,
		verdict: "refuse", reason: "tenant_unknown", decidedBy: "tenant", path: "tenants.from[0]", status: 400},
	{name: "limit", question: `{request: {method: POST, path: /work, tenant: acme}, already: 20}`,
		verdict: "refuse", reason: "tenant_limit", decidedBy: "limit", path: "tenants.limit", status: 429,
		changes: "burst: 20", changed: "burst: 21"},
	{name: "route-limit", question: `{request: {path: /dear, tenant: acme}, already: 1}`,
		verdict: "refuse", reason: "tenant_limit", decidedBy: "limit", path: "routes[3].limit", status: 429,
		changes: "burst: 5", changed: "burst: 10"},
	{name: "deferred", question: `{request: {method: POST, path: /batches/7, tenant: acme}, signals: {work: [{age: 80s}]}}`,
		verdict: "refuse", reason: "deferred", decidedBy: "queue", path: "queues.work.shed.low", status: 503,
		changes: "max_useful_age: 100s", changed: "max_useful_age: 400s"},
	{name: "shed-rule", question: `{request: {method: POST, path: /work, tenant: acme, header: {X-Night: "1"}}, signals: {work: [{age: 80s, depth: 800, done: 10/s}]}}`,
		verdict: "refuse", reason: "deferred", decidedBy: "queue", path: "queues.work.shed.low", status: 503},
	{name: "too-old", question: `{request: {method: POST, path: /work, tenant: acme}, signals: {work: [{age: 2m}]}}`,
		verdict: "refuse", reason: "shed", decidedBy: "queue", path: "queues.work.max_useful_age", status: 503},
	{name: "signal-lost", question: `{request: {method: POST, path: /work, tenant: acme}, signals: {work: [{silent: true}]}}`,
		verdict: "refuse", reason: "signal_lost", decidedBy: "queue", path: "queues.work.signals[0]", status: 503,
		changes: "on_loss: closed", changed: "on_loss: hold"},
	{name: "places", question: `{request: {method: POST, path: /work, tenant: acme}, already: 5, origin: {takes: 1s}}`,
		verdict: "refuse", reason: "origin_full", decidedBy: "places", path: "origin.max_in_flight", status: 503,
		changes: "max_in_flight: 5", changed: "max_in_flight: 6"},
	{name: "key-missing", question: `{request: {method: POST, path: /payments, tenant: acme}}`,
		verdict: "refuse", reason: "key_missing", decidedBy: "key", path: "routes[2].idempotency.key", status: 400,
		changes: "key: required", changed: "key: optional"},
	{name: "replay", question: `{request: {method: POST, path: /payments, tenant: acme, header: {Idempotency-Key: k}}, already: 1, origin: {answers: 201}}`,
		verdict: "replay", reason: "none", decidedBy: "record", path: "routes[2].idempotency", status: 201},
	{name: "replay-without-tokens", question: `{request: {method: POST, path: /payments, tenant: acme, header: {Idempotency-Key: "k-{n}"}}, already: 20}`,
		verdict: "refuse", reason: "tenant_limit", decidedBy: "limit", path: "tenants.limit", status: 429},
	{name: "in-doubt", question: `{request: {method: POST, path: /payments, tenant: acme, header: {Idempotency-Key: k}}, already: 1, origin: {outcome: unknown}}`,
		verdict: "refuse", reason: "key_in_doubt", decidedBy: "record", path: "routes[2].idempotency", status: 409},
	{name: "shadow-limit", question: `{request: {method: POST, path: /work, tenant: watched}, already: 2}`,
		verdict: "admit", reason: "none", decidedBy: "route", path: "routes[0]"},
	{name: "shadow-route", question: `{request: {path: /tried, tenant: acme}, signals: {work: [{age: 90s}]}}`,
		verdict: "admit", reason: "none", decidedBy: "route", path: "routes[4]"},
	{name: "ceiling", question: `{request: {path: /dear, tenant: acme, class: high}}`,
		verdict: "admit", reason: "none", decidedBy: "route", path: "routes[3]"},
}

// Each way that a request can go is told: the verdict, the step and the line that
// decided, what the client gets and what would have changed it.
func TestEveryDecisionIsExplained(t *testing.T) {
	var all strings.Builder
	for _, c := range questions {
		t.Run(c.name, func(t *testing.T) {
			e := ask(t, policy, c.question)
			got := []any{e.Verdict, e.Reason, e.DecidedBy, e.Path, e.Wire.Status}
			if diff := cmp.Diff([]any{c.verdict, c.reason, c.decidedBy, c.path, c.status}, got); diff != "" {
				t.Errorf("verdict, reason, step, path, status (-want +got):\n%s", diff)
			}
			if want := fmt.Sprintf("policy.yaml:%d", load(t, policy).Line(c.path)); e.Where != want {
				t.Errorf("it is said to be decided at %s, want %s", e.Where, want)
			}
			if len(e.Otherwise) == 0 {
				t.Error("nothing is said to have changed it")
			}
			fmt.Fprintf(&all, "=== %s\n", c.name)
			if err := e.WriteText(&all); err != nil {
				t.Fatal(err)
			}
			all.WriteByte('\n')
		})
	}
	file := filepath.Join("testdata", "explanations.txt")
	if *update {
		if err := os.WriteFile(file, []byte(all.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// The policy's hash is not what this is about.
	if diff := cmp.Diff(string(want), all.String()); diff != "" {
		t.Errorf("%s differs (-file +got); run with -update if it is meant:\n%s", file, diff)
	}
}

// What is said to have let a request pass does let it pass.
func TestWhatWouldHaveChangedItIsTrue(t *testing.T) {
	for _, c := range questions {
		if c.changes == "" {
			continue
		}
		changed := strings.Replace(policy, c.changes, c.changed, 1)
		if changed == policy {
			t.Fatalf("%s: the policy has no %q", c.name, c.changes)
		}
		if e := ask(t, changed, c.question); e.Verdict != "admit" {
			t.Errorf("%s: with %s it is still refused: %s", c.name, c.changed, e.Reason)
		}
	}
}

// Explaining a decision does not change it: a stage that is only sent the same
// request decides the same.
func TestExplanationIsOfTheRealDecision(t *testing.T) {
	cfg := load(t, policy)
	for _, c := range questions {
		q, err := ParseQuestion("question", []byte(c.question), cfg)
		if err != nil {
			t.Fatal(err)
		}
		stage, err := rehearse.NewStage(cfg, rehearse.Given{Signals: spec.Timelines(q.Signals), Origin: q.Origin.Rehearsed(), Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer stage.Close()
		if err := stage.Advance(10e9); err != nil {
			t.Fatal(err)
		}
		var last *rehearse.Performance
		for n := range q.Already + 1 {
			stage.Send(q.Request.Numbered(n+1), nil, func(p *rehearse.Performance) { last = p })
		}
		if err := stage.Finish(); err != nil {
			t.Fatal(err)
		}
		e, err := Explain(cfg, q, 1)
		if err != nil {
			t.Fatal(err)
		}
		wait, _ := last.RetryAfter()
		told := "0"
		for _, f := range e.Wire.Fields {
			if f.What == "Retry-After" {
				told = f.Value
			}
		}
		got := []string{e.Verdict, e.Reason, e.Shadow, told}
		want := []string{last.Decision.Verdict.String(), last.Decision.Reason.String(), last.Decision.Shadow.String(), fmt.Sprint(int(wait.Seconds()))}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: verdict, reason, shadow, Retry-After (-sent +explained):\n%s", c.name, diff)
		}
	}
}

func TestExplanationAsJSON(t *testing.T) {
	var out bytes.Buffer
	e := ask(t, policy, questions[7].question)
	if err := e.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	var back Explanation
	if err := json.Unmarshal(out.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(*e, back); diff != "" {
		t.Errorf("written and read again it differs:\n%s", diff)
	}
}

func TestWrongQuestions(t *testing.T) {
	cfg := load(t, policy)
	for text, want := range map[string]string{
		`{}`: "question:1:1: request: missing; write request: {method: POST, path: /v1/orders}",
		`{"request": {"path": "/work"}, "signals": {"wrk": [{"age": "1s"}]}}`: "did you mean work?",
		`{"request": {"paht": "/work"}}`:                                      "request.paht: unknown key; did you mean path?",
		`{"request": {"path": "/work"}, "already": -1}`:                       "already",
	} {
		_, err := ParseQuestion("question", []byte(text), cfg)
		var problems strict.Problems
		if !errors.As(err, &problems) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want Problems with %q, got %v", text, want, err)
		}
	}
	for text, want := range map[string]string{
		"orders":             "write it as QUEUE=",
		"orders=agee:5s":     "did you mean age?",
		"orders=age:5":       "write 5s or 5ms",
		"orders=depth:many":  "not a whole number",
		"orders=done:5/s":    "neither age nor depth",
		"=age:5s":            "write it as QUEUE=",
		"orders=depth:5,x:1": `"x" is none of age`,
	} {
		if _, _, err := ParseSignal(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want an error with %q, got %v", text, want, err)
		}
	}
	name, r, err := ParseSignal("orders/stream=age:42s,depth:1000,done:20/s,frozen")
	if err != nil || name != "orders/stream" || r.Age.String() != "42s" || *r.Depth != 1000 || r.Done.String() != "20/s" || !r.Frozen {
		t.Errorf("a signal is read as %q %+v, %v", name, r, err)
	}
}
