package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/admission"
	"sluice/internal/testbuffer"
)

// buffer keeps a decision log.
type buffer struct{ testbuffer.Buffer }

// lines are the lines of one kind.
func (b *buffer) lines(t *testing.T, kind string) (lines []map[string]any) {
	t.Helper()
	for sc := bufio.NewScanner(strings.NewReader(b.String())); sc.Scan(); {
		var l map[string]any
		if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
			t.Fatalf("%v in line %s", err, sc.Text())
		}
		if l["kind"] == kind {
			lines = append(lines, l)
		}
	}
	return lines
}

func refusal(p *Policy, reason admission.Reason, second int) *admission.Event {
	return &admission.Event{
		Request: &admission.Request{
			ID: "req-1", Method: "POST", Path: "/v1/orders", Query: "api_key=secret-query", Host: "secret-host",
			Header: secretHeader{}, Client: netip.MustParseAddr("203.0.113.9"), Tenant: "acme",
			Route: p.Routes[0], Class: 1, Received: epoch.Add(time.Duration(second) * time.Second),
		},
		Decision: admission.Decision{Verdict: admission.Refuse, Reason: reason, Status: reason.Status(), RetryAfter: 1200 * time.Millisecond},
		Status:   reason.Status(), Detail: "bucket of acme is empty", Decided: 12 * time.Microsecond, Done: 34 * time.Microsecond, BytesOut: 321,
	}
}

type secretHeader struct{}

func (secretHeader) Get(string) (string, int) { return "secret-header", 1 }

// A record says what was decided and why, and nothing that the client sent
// besides its tenant, request id, method, path and the fields that are allowed.
func TestLogLine(t *testing.T) {
	var out buffer
	l := NewDecisionLog(&out, LogOptions{})
	p := testPolicy(1)
	l.SetPolicy(p)
	l.Observe(refusal(p, admission.TenantLimit, 0))
	l.Observe(&admission.Event{Request: &admission.Request{Received: epoch}, Decision: admission.Decision{Verdict: admission.Admit}})
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	lines := out.lines(t, KindDecision)
	if len(lines) != 1 {
		t.Fatalf("%d lines, want the refusal alone", len(lines))
	}
	want := map[string]any{
		"ts": "2026-03-01T12:00:00.000034Z", "id": "req-1", "tenant": "acme", "class": "standard", "route": "r0",
		"verdict": "refuse", "reason": "tenant_limit", "mode": "enforce", "status": 429., "retry_after": 2.,
		"outcome": "not_tried", "detail": "bucket of acme is empty", "config": "cafe",
		"decided_us": 12., "done_us": 34., "bytes_in": 0., "bytes_out": 321.,
		"kind": "decision", "received": "2026-03-01T12:00:00Z", "method": "POST", "path": "/v1/orders", "client": "203.0.113.9",
		"key": lines[0]["key"],
	}
	for k, v := range want {
		if lines[0][k] != v {
			t.Errorf("%s = %v, want %v", k, lines[0][k], v)
		}
	}
	for k := range lines[0] {
		if _, ok := want[k]; !ok {
			t.Errorf("field %s is not on the list", k)
		}
	}
	if strings.Contains(out.String(), "secret") {
		t.Errorf("the line holds what it must not: %s", out.String())
	}
}

// Failures are logged, and what a shadow policy would have refused.
func TestLogFailuresAndShadow(t *testing.T) {
	var out buffer
	l := NewDecisionLog(&out, LogOptions{})
	p := testPolicy(1)
	l.SetPolicy(p)
	r := &admission.Request{Route: p.Routes[0], Received: epoch}
	l.Observe(&admission.Event{Request: r, Decision: admission.Decision{Verdict: admission.Admit}, Outcome: admission.Unknown, Failure: admission.OriginTimeout, Status: 504})
	l.Observe(&admission.Event{Request: r, Decision: admission.Decision{Verdict: admission.Admit, Shadow: admission.Shed}, Outcome: admission.Answered, Status: 200})
	l.Close(t.Context())
	lines := out.lines(t, KindDecision)
	if len(lines) != 2 {
		t.Fatalf("%d lines, want 2", len(lines))
	}
	if f := lines[0]; f["failure"] != "origin_timeout" || f["verdict"] != "admit" || f["outcome"] != "unknown" || f["mode"] != "enforce" {
		t.Errorf("failure: %v", f)
	}
	if s := lines[1]; s["shadow"] != "shed" || s["mode"] != "shadow" || s["verdict"] != "admit" || s["reason"] != "none" {
		t.Errorf("shadow: %v", s)
	}
}

// Each route and reason has its own cap in each second, so a common refusal
// does not hide a rare one; and everything is accounted for.
func TestLogCap(t *testing.T) {
	var out buffer
	l := NewDecisionLog(&out, LogOptions{PerSecond: 3})
	p := testPolicy(1)
	l.SetPolicy(p)
	for second := range 2 {
		for range 100 {
			l.Observe(refusal(p, admission.TenantLimit, second))
		}
		l.Observe(refusal(p, admission.KeyMissing, second))
	}
	l.Observe(refusal(p, admission.TenantLimit, 0)) // reported late: spends from the second that runs
	l.Close(t.Context())
	if got, want := l.Counts(), (LogCounts{Written: 8, SampledOut: 195}); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
	if n := len(out.lines(t, KindDecision)); n != 8 {
		t.Errorf("%d lines, want 8", n)
	}
}

// Admitted requests are sampled if asked for, with a cap of their own.
func TestLogAdmits(t *testing.T) {
	var out buffer
	l := NewDecisionLog(&out, LogOptions{AdmitsPerSecond: 2})
	p := testPolicy(1)
	l.SetPolicy(p)
	for range 10 {
		l.Observe(&admission.Event{Request: &admission.Request{Route: p.Routes[0], Received: epoch}, Decision: admission.Decision{Verdict: admission.Admit}, Outcome: admission.Answered})
		l.Observe(refusal(p, admission.Shed, 0))
	}
	l.Close(t.Context())
	verdicts := map[any]int{}
	for _, line := range out.lines(t, KindDecision) {
		verdicts[line["verdict"]]++
	}
	if verdicts["admit"] != 2 || verdicts["refuse"] != 10 {
		t.Errorf("lines by verdict %v, want 2 of admit and 10 of refuse", verdicts)
	}
}

// blocked is an output that takes nothing until it is released.
type blocked struct {
	reached chan struct{}
	release chan struct{}
	once    sync.Once
}

func (b *blocked) Write(p []byte) (int, error) {
	b.once.Do(func() { close(b.reached) })
	<-b.release
	return len(p), nil
}

// An output that blocks keeps nobody waiting: what does not fit is dropped and
// counted, and closing gives up when told to.
func TestBlockedOutputNeverBlocksObserve(t *testing.T) {
	out := &blocked{reached: make(chan struct{}), release: make(chan struct{})}
	l := NewDecisionLog(out, LogOptions{PerSecond: 1000, Queue: 10})
	p := testPolicy(1)
	l.SetPolicy(p)
	<-out.reached // the line of the policy is with the output, the queue is empty
	l.Observe(refusal(p, admission.Shed, 0))
	var observing sync.WaitGroup
	for range 4 {
		observing.Go(func() {
			for range 100 {
				l.Observe(refusal(p, admission.Shed, 0))
			}
		})
	}
	observing.Wait() // returns only if nobody blocks
	if got, want := l.Counts(), (LogCounts{Dropped: 391}); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Close with a blocked output: %v, want it to give up", err)
	}
	close(out.release)
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.Observe(refusal(p, admission.Shed, 1))
	if got, want := l.Counts(), (LogCounts{Written: 10, Dropped: 392}); got != want {
		t.Errorf("counts in the end %+v, want %+v", got, want)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// A failing output is counted and reported once, not once a record.
func TestFailingOutput(t *testing.T) {
	var logged buffer
	l := NewDecisionLog(broken{}, LogOptions{Logger: textLogger(&logged)})
	p := testPolicy(1)
	l.SetPolicy(p)
	for range 5 {
		l.Observe(refusal(p, admission.Shed, 0))
	}
	l.Close(t.Context())
	if got, want := l.Counts(), (LogCounts{Failed: 5}); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
	if n := strings.Count(logged.String(), "disk full"); n != 1 {
		t.Errorf("reported %d times, want once: %s", n, logged.String())
	}
}

// After the file was moved away and reopened, writing goes on in a new one.
func TestLogFileReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.ndjson")
	f, err := OpenLogFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f.Write([]byte("one\n"))
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	f.Write([]byte("two\n"))
	if err := f.Reopen(); err != nil {
		t.Fatal(err)
	}
	f.Write([]byte("three\n"))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	old, _ := os.ReadFile(path + ".1")
	now, _ := os.ReadFile(path)
	if string(old) != "one\ntwo\n" || string(now) != "three\n" {
		t.Errorf("old file %q, new file %q", old, now)
	}
	if _, err := OpenLogFile(filepath.Join(path, "below-a-file")); err == nil {
		t.Error("opening an impossible path succeeded")
	}
}

// The tail keeps the latest, newest first, and a flood of one kind leaves room
// for the others.
func TestLiveTail(t *testing.T) {
	l := NewLive(NewMetrics(MetricsOptions{}), LiveOptions{Tail: 8, PerSecond: 2})
	p := testPolicy(1)
	l.SetPolicy(p)
	for second := range 3 {
		for range 50 {
			l.Observe(refusal(p, admission.Shed, second))
		}
		l.Observe(refusal(p, admission.KeyReused, second))
	}
	var got []string
	for _, line := range l.Recent(100) {
		got = append(got, line.Time.Format("05 ")+line.Reason)
	}
	want := []string{"02 key_reused", "02 shed", "02 shed", "01 key_reused", "01 shed", "01 shed", "00 key_reused", "00 shed"}
	if !slices.Equal(got, want) {
		t.Errorf("tail %v, want %v", got, want)
	}
	if n := len(l.Recent(3)); n != 3 {
		t.Errorf("Recent(3) returns %d", n)
	}
}
