package admin

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/admission"
)

// clock is a settable clock, safe for concurrent use.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func decide(m *Metrics, tenant string, times int) {
	e := &admission.Event{Request: &admission.Request{Tenant: tenant, Class: admission.NoClass, Received: epoch}, Decision: admission.Decision{Verdict: admission.Admit}}
	for range times {
		m.Observe(e)
	}
}

// Property 13, for labels: a flood of made-up tenants keeps the number of
// labels bounded, takes no label from a tenant on the list, and does not keep a
// busy one from getting its own.
func TestTenantFlood(t *testing.T) {
	c := &clock{now: epoch}
	m := NewMetrics(MetricsOptions{Tenants: []string{"listed"}, TopTenants: 5, Now: c.Now})
	made := 0
	for round := range 60 {
		for range 2000 {
			made++
			decide(m, fmt.Sprintf("made-up-%d", made), 1)
		}
		decide(m, "busy", 400)
		decide(m, "listed", 1)
		c.advance(rankEvery)
		g := gather(t, m)
		labels := map[string]bool{}
		for _, s := range g["sluice_tenant_decisions_total"].Metric {
			labels[label(s, "tenant")] = true
		}
		if limit := 1 + 3*5 + 2; len(labels) > limit {
			t.Fatalf("round %d: %d tenant labels, want at most %d", round, len(labels), limit)
		}
		if n := g.sum("sluice_tenant_decisions_total", "tenant", "listed"); n != float64(round+1) {
			t.Fatalf("round %d: listed has %v decisions, want %d", round, n, round+1)
		}
		if round > 0 && !labels["busy"] {
			t.Fatalf("round %d: the busy tenant has no label; labels are %v", round, labels)
		}
		if all, want := g.sum("sluice_tenant_decisions_total"), float64((round+1)*2401); all > want {
			t.Fatalf("round %d: %v decisions by tenant, of %v made", round, all, want)
		}
	}
	// From when it got its label, each of its decisions is counted, exactly.
	g := gather(t, m)
	if n := g.sum("sluice_tenant_decisions_total", "tenant", "busy"); n != 59*400 {
		t.Errorf("busy has %v decisions, want %d", n, 59*400)
	}
	if over, other := g.sum("sluice_tenant_label_overflow_total"), g.sum("sluice_tenant_decisions_total", "tenant", "other"); over != other || other == 0 {
		t.Errorf("overflow %v, other %v, want equal and not zero", over, other)
	}
}

// A place is given to whoever is busier now, and counts start from zero there.
func TestTenantTakesOverPlace(t *testing.T) {
	c := &clock{now: epoch}
	m := NewMetrics(MetricsOptions{TopTenants: 1, Now: c.Now})
	for i := range 3 { // all three places
		decide(m, fmt.Sprintf("old-%d", i), 100)
		gather(t, m)
		c.advance(rankEvery)
	}
	for range 40 {
		decide(m, "new", 1000)
		gather(t, m)
		c.advance(rankEvery)
	}
	before := gather(t, m).sum("sluice_tenant_decisions_total", "tenant", "new")
	decide(m, "new", 7)
	g := gather(t, m)
	if n := g.sum("sluice_tenant_decisions_total", "tenant", "new"); n != before+7 || n > 40_007 || before == 0 {
		t.Errorf("new went from %v to %v decisions, want 7 more and none of its predecessor's", before, n)
	}
	if n := len(g["sluice_tenant_decisions_total"].Metric); n > 4 {
		t.Errorf("%d series for one tenant at a time, want at most 4", n)
	}
}

// A client chooses its tenant's name. None breaks a scrape or passes for one
// of our own labels.
func TestHostileTenantNames(t *testing.T) {
	m := NewMetrics(MetricsOptions{TopTenants: 100})
	long := strings.Repeat("x", 100)
	names := []string{"", "other", "unidentified", "a\nb", "\xff\xfe", `q"\`, "<img src=x onerror=alert(1)>", "\u202e", long + "a", long + "b"}
	names = append(names, shortName(long+"a")) // made up to look like the shortened form
	for _, name := range names {
		decide(m, name, 2)
	}
	g := gather(t, m) // fails where a label is invalid or appears twice
	if n := g.sum("sluice_tenant_decisions_total"); n != float64(2*len(names)) {
		t.Errorf("%v decisions by tenant, want %d", n, 2*len(names))
	}
	if n := g.sum("sluice_tenant_decisions_total", "tenant", "unidentified"); n != 2 {
		t.Errorf("unidentified has %v decisions, want the 2 that named no tenant", n)
	}
	if n := g.sum("sluice_tenant_decisions_total", "tenant", shortName(long+"b")); n != 2 {
		t.Errorf("a long name that differs at its end only has %v decisions, want 2", n)
	}
}

// Without tenants to tell apart there are no labels of theirs.
func TestNoTenantLabels(t *testing.T) {
	m := NewMetrics(MetricsOptions{TopTenants: -1})
	decide(m, "acme", 3)
	g := gather(t, m)
	if n := g.sum("sluice_tenant_decisions_total", "tenant", "other"); n != 3 || len(g["sluice_tenant_decisions_total"].Metric) != 1 {
		t.Errorf("tenant series %v, want 3 decisions of other alone", g["sluice_tenant_decisions_total"])
	}
}

// The sketch never credits a tenant with more than it did.
func TestSketchNeverOverstates(t *testing.T) {
	rng := seeded(t)
	m := NewMetrics(MetricsOptions{})
	sent := map[string]uint64{}
	for range 50_000 {
		name := fmt.Sprintf("t%d", int(rng.ExpFloat64()*200))
		sent[name]++
		decide(m, name, 1)
	}
	ranked, total := mergeSketches(m.stripes)
	if total > 50_000 || len(ranked) == 0 {
		t.Fatalf("%d ranked, %d in all", len(ranked), total)
	}
	for _, r := range ranked {
		if r.count > sent[r.name] {
			t.Errorf("%s is credited with %d, did %d", r.name, r.count, sent[r.name])
		}
	}
}
