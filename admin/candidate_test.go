package admin

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"sluice/admission"
)

// seconded is an event that a candidate was asked about.
func seconded(p *Policy, d admission.Decision, s admission.Second) *admission.Event {
	s.Asked = true
	return &admission.Event{
		Request:  &admission.Request{ID: "id", Route: p.Routes[0], Class: 1, Tenant: "acme", Received: epoch, Second: s},
		Decision: d, Done: time.Millisecond,
	}
}

var (
	admitted = admission.Decision{Verdict: admission.Admit}
	shed     = admission.Decision{Verdict: admission.Refuse, Reason: admission.Shed}
)

// Each agreement and each difference is counted by its kind, under the names of
// the policy in force, and asked is their sum.
func TestCandidateCounts(t *testing.T) {
	m, p := NewMetrics(MetricsOptions{}), testPolicy(2)
	m.SetPolicy(p)
	m.CandidateLoaded("one")
	see := func(n int, d admission.Decision, s admission.Second) {
		for range n {
			m.Observe(seconded(p, d, s))
		}
	}
	see(5, admitted, admission.Second{Verdict: admission.Admit, Class: "standard"})
	see(4, admitted, admission.Second{Verdict: admission.Refuse, Reason: admission.TenantLimit, Class: "bulk"})
	see(3, shed, admission.Second{Verdict: admission.Admit, Class: "standard"})
	see(2, shed, admission.Second{Verdict: admission.Refuse, Reason: admission.Deferred, Class: "standard"})
	see(1, shed, admission.Second{Verdict: admission.Refuse, Reason: admission.Shed, Class: "standard"})
	m.Observe(&admission.Event{Request: &admission.Request{Route: p.Routes[0], Class: 1, Received: epoch}}) // not asked

	g := gather(t, m)
	for _, c := range []struct {
		want                             float64
		live, candidate, reason, differs string
	}{
		{5, "admit", "admit", "none", "no"},
		{4, "admit", "refuse", "tenant_limit", "yes"},
		{3, "refuse", "admit", "shed", "yes"},
		{2, "refuse", "refuse", "deferred", "yes"},
		{1, "refuse", "refuse", "shed", "no"},
	} {
		if n := g.sum("sluice_candidate_decisions_total", "route", "r0", "class", "standard",
			"live", c.live, "candidate", c.candidate, "reason", c.reason, "differs", c.differs); n != c.want {
			t.Errorf("%+v: counted %v", c, n)
		}
	}
	if n := g.sum("sluice_candidate_decisions_total"); n != 15 {
		t.Errorf("%v decisions in all, want 15", n)
	}
	if n := g.sum("sluice_candidate_reclassified_total", "class", "standard"); n != 4 {
		t.Errorf("%v reclassified, want 4", n)
	}
	got := m.candidateCounts(m.snapshot())
	if got.Asked != 15 || got.Same != 6 || got.Different != 9 || got.Reclassified != 4 || len(got.Changes) != 3 ||
		got.Changes[0] != (CandidateChange{"r0", "standard", "admit", "refuse", "tenant_limit", 4}) {
		t.Errorf("the status counts %+v", got)
	}

	// The same candidate again goes on; another one begins anew, in the status.
	m.CandidateLoaded("one")
	if n := m.candidateCounts(m.snapshot()).Asked; n != 15 {
		t.Errorf("asked %d times after the same was loaded, want 15", n)
	}
	m.CandidateLoaded("two")
	see(2, admitted, admission.Second{Verdict: admission.Replay, Class: "standard"})
	got = m.candidateCounts(m.snapshot())
	if got.Asked != 2 || got.Different != 2 || len(got.Changes) != 1 || got.Reclassified != 0 {
		t.Errorf("of the second candidate the status counts %+v", got)
	}
	if n := gather(t, m).sum("sluice_candidate_decisions_total"); n != 17 {
		t.Errorf("%v decisions in all, want 17: counters do not go back", n)
	}
}

// The history tells what would be refused more and what less.
func TestCandidateSeries(t *testing.T) {
	m, p := NewMetrics(MetricsOptions{}), testPolicy(1)
	m.SetPolicy(p)
	l := NewLive(m, LiveOptions{})
	l.sample(epoch)
	for range 4 {
		m.Observe(seconded(p, admitted, admission.Second{Verdict: admission.Refuse, Reason: admission.Shed}))
	}
	m.Observe(seconded(p, shed, admission.Second{Verdict: admission.Admit}))
	m.Observe(seconded(p, admitted, admission.Second{Verdict: admission.Admit}))
	v := l.sample(epoch.Add(time.Second)).V
	if v["candidate/asked"] != 6 || v["candidate/refused_more"] != 4 || v["candidate/refused_less"] != 1 {
		t.Errorf("the second's point is %v", v)
	}
}

// A difference is a kind of decision of its own: examples are logged however
// many other decisions there are, also where admits are not logged at all.
func TestDifferencesAreLogged(t *testing.T) {
	var out bytes.Buffer
	l := NewDecisionLog(&out, LogOptions{PerSecond: 2})
	p := testPolicy(1)
	l.SetPolicy(p)
	for range 50 {
		l.Observe(seconded(p, shed, admission.Second{Verdict: admission.Refuse, Reason: admission.Shed, Class: "standard", Route: "r0"}))
		l.Observe(seconded(p, admitted, admission.Second{Verdict: admission.Admit, Class: "standard", Route: "r0"}))
	}
	for range 5 {
		l.Observe(seconded(p, admitted, admission.Second{Verdict: admission.Refuse, Reason: admission.TenantLimit, Class: "bulk", Route: "r9"}))
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	same, different := 0, 0
	for line := range strings.Lines(out.String()) {
		var got struct {
			Verdict   string
			Candidate *CandidateLine
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(err)
		}
		switch {
		case got.Verdict == "":
		case got.Candidate == nil:
			same++
		case *got.Candidate != CandidateLine{Verdict: "refuse", Reason: "tenant_limit", Class: "bulk", Route: "r9"} || got.Verdict != "admit":
			t.Errorf("logged %s", line)
		default:
			different++
		}
	}
	if same != 2 || different != 2 {
		t.Errorf("%d agreeing and %d differing decisions are logged, want 2 of each\n%s", same, different, out.String())
	}
}
