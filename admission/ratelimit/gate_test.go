package ratelimit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"sluice/admission"
)

func TestBucketAdmitsItsBurstAndThenItsRate(t *testing.T) {
	g := newGate(t, policyOf(quota(10, 5)))
	steps := []struct {
		at        time.Duration
		cost      int64
		ok        bool
		remaining int64
		reset     time.Duration
	}{
		{0, 1, true, 4, 100 * time.Millisecond},
		{0, 4, true, 0, 500 * time.Millisecond},
		{0, 1, false, 0, 500 * time.Millisecond},
		{99 * time.Millisecond, 1, false, 0, 401 * time.Millisecond},
		{100 * time.Millisecond, 1, true, 0, 500 * time.Millisecond},
		{300 * time.Millisecond, 3, false, 2, 300 * time.Millisecond},
		{300 * time.Millisecond, 2, true, 0, 500 * time.Millisecond},
		{time.Hour, 5, true, 0, 500 * time.Millisecond},
		{time.Hour, 1, false, 0, 500 * time.Millisecond},
	}
	for i, s := range steps {
		_, f, l := ask(g, at(s.at), "acme", s.cost)
		if f.Is() == s.ok {
			t.Fatalf("step %d: refused %v", i, f.Is())
		}
		if l.Name != "tenant" || l.Quota != 5 || l.Remaining != s.remaining {
			t.Errorf("step %d: limit is %+v, want %d remaining", i, l, s.remaining)
		}
		if d := l.Reset - s.reset; d < 0 || d > time.Microsecond {
			t.Errorf("step %d: reset is %v, want %v", i, l.Reset, s.reset)
		}
		if d := l.Window - 500*time.Millisecond; d < 0 || d > time.Microsecond {
			t.Errorf("step %d: window is %v", i, l.Window)
		}
	}
}

func TestTenantsDoNotShareBuckets(t *testing.T) {
	g := newGate(t, policyOf(quota(1, 3)))
	if n := drain(g, epoch, "one"); n != 3 {
		t.Fatalf("drained %d, want 3", n)
	}
	if n := drain(g, epoch, "two"); n != 3 {
		t.Errorf("drained %d, want 3: another tenant had spent them", n)
	}
	// The tenant that the transport could not name is one like any other.
	if n := drain(g, epoch, ""); n != 3 {
		t.Errorf("drained %d of the nameless tenant, want 3", n)
	}
}

func TestTenantNamesAreCopied(t *testing.T) {
	g := newGate(t, policyOf(quota(1, 3)))
	name := []byte("acme")
	drain(g, epoch, view(name))
	copy(name, "XXXX") // the transport reuses its memory
	if admits(g, epoch, "acme", 1) {
		t.Error("the bucket was lost with the memory of the request that made it")
	}
	if !admits(g, epoch, "XXXX", 1) {
		t.Error("the bucket changed hands with the memory of the request that made it")
	}
}

func TestZeroQuotaRefusesEverythingAndPromisesNothing(t *testing.T) {
	for _, q := range []Quota{{}, quota(100, 0), quota(0, 0)} {
		g := newGate(t, policyOf(q))
		_, f, l := ask(g, epoch, "acme", 1)
		if f.Reason != admission.TenantLimit || f.RetryAfter != 0 {
			t.Errorf("%+v: refusal is %+v, want one without promise", q, f)
		}
		if l.Remaining != 0 || l.Quota != 0 {
			t.Errorf("%+v: limit is %+v", q, l)
		}
		if s := look(g, epoch, "acme"); !s.Never {
			t.Errorf("%+v: state is %+v, want never", q, s)
		}
	}
	// A burst that nothing refills can be spent once.
	g := newGate(t, policyOf(quota(0, 2)))
	if n := drain(g, epoch, "acme"); n != 2 {
		t.Errorf("drained %d, want 2", n)
	}
	if _, f, l := ask(g, at(time.Hour), "acme", 1); !f.Is() || f.RetryAfter != 0 || l.Window != 0 {
		t.Errorf("refusal is %+v with %+v, want one without promise or window", f, l)
	}
}

func TestUnlimitedTenantsReserveNothing(t *testing.T) {
	for name, o := range map[string]Options{
		"no limit": {MaxTenants: MinTenants},
		"infinite": policyOf(Quota{Rate: rate.Inf}),
	} {
		g := newGate(t, o)
		for range 1000 {
			if p, f, l := ask(g, epoch, "acme", 1); p.Ref != nil || f.Is() || l != (admission.Limit{}) {
				t.Fatalf("%s: got %+v, %+v, %+v, want nothing", name, p, f, l)
			}
		}
		if s := g.Stats(); s.Buckets != 0 {
			t.Errorf("%s: %d buckets, want none", name, s.Buckets)
		}
	}
}

func TestCostAboveTheBurstCountsAsTheBurst(t *testing.T) {
	g := newGate(t, policyOf(quota(1, 3)))
	p, f, _ := ask(g, epoch, "acme", 50)
	if f.Is() || p.Amount != 3 {
		t.Fatalf("got %+v, %+v, want 3 tokens taken", p, f)
	}
	_, f, _ = ask(g, epoch, "acme", 50)
	if !f.Is() {
		t.Fatal("admitted on an empty bucket")
	}
	if !admits(g, at(f.RetryAfter), "acme", 50) {
		t.Error("not admitted when told to come back")
	}
}

func TestRouteLimitReplacesTheTenantsBucket(t *testing.T) {
	o := policyOf(quota(1, 2))
	o.Routes = map[string]*Limit{"campaign": {Name: "campaign", Quota: quota(1, 5), Overrides: map[string]Quota{"big": quota(1, 7)}}}
	g := newGate(t, o)
	spend := func(tenant, route string) (n int, name string) {
		r := admission.Request{Tenant: tenant, Route: &admission.Route{ID: route, Cost: 1}}
		for {
			var d admission.Decision
			_, f := g.Reserve(epoch, &r, &d)
			if f.Is() {
				return n, d.Limit.Name
			}
			n++
		}
	}
	for _, c := range []struct {
		tenant, route, limit string
		want                 int
	}{
		{"acme", "campaign", "campaign", 5},
		{"acme", "orders", "tenant", 2}, // untouched by what was spent there
		{"acme", "reports", "tenant", 0},
		{"acme", "campaign", "campaign", 0},
		{"other", "campaign", "campaign", 5},
		{"big", "campaign", "campaign", 7},
		{"big", "orders", "tenant", 2},
	} {
		if n, name := spend(c.tenant, c.route); n != c.want || name != c.limit {
			t.Errorf("%s at %s: spent %d of limit %q, want %d of %q", c.tenant, c.route, n, name, c.want, c.limit)
		}
	}
}

// A refused request takes nothing, and what is given back is given back to the
// token, whatever happens in between.
func TestGiveBackIsExact(t *testing.T) {
	t.Run("in turn", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			burst := rapid.IntRange(1, 1000).Draw(t, "burst")
			g, err := New(policyOf(quota(0, burst)), epoch) // no refill to hide a loss
			if err != nil {
				t.Fatal(err)
			}
			left := int64(burst)
			var held []admission.Permit
			for range rapid.IntRange(1, 100).Draw(t, "operations") {
				now := at(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "now")))
				if len(held) > 0 && rapid.Bool().Draw(t, "give back") {
					i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
					g.GiveBack(now, held[i])
					left += held[i].Amount
					held = append(held[:i], held[i+1:]...)
				} else {
					cost := rapid.Int64Range(1, int64(burst)).Draw(t, "cost")
					p, f, _ := ask(g, now, "acme", cost)
					if f.Is() != (cost > left) {
						t.Fatalf("refused %v at cost %d with %d left", f.Is(), cost, left)
					}
					if !f.Is() {
						left -= cost
						held = append(held, p)
					}
				}
				if got := look(g, now, "acme").Tokens; got != float64(left) {
					t.Fatalf("%v tokens, want exactly %d", got, left)
				}
			}
		})
	})
	t.Run("at once", func(t *testing.T) {
		g := newGate(t, policyOf(quota(0, 100)))
		var wg sync.WaitGroup
		for worker := range 8 {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(1, uint64(worker)))
				for i := range 2000 {
					now := at(time.Duration(i) * time.Millisecond)
					if p, f, _ := ask(g, now, "acme", rnd.Int64N(30)+1); !f.Is() {
						g.GiveBack(now, p)
					}
				}
			})
		}
		wg.Wait()
		if got := look(g, epoch, "acme").Tokens; got != 100 {
			t.Errorf("%v tokens after everything was given back, want 100", got)
		}
	})
}

// A refund adds to what refilled meanwhile, and never above the burst.
func TestGiveBackStopsAtTheBurst(t *testing.T) {
	g := newGate(t, policyOf(quota(10, 5)))
	p, _, _ := ask(g, epoch, "acme", 3)
	g.GiveBack(at(time.Minute), p)
	if got := look(g, at(time.Minute), "acme").Tokens; got != 5 {
		t.Errorf("%v tokens, want 5", got)
	}
	if n := drain(g, at(time.Minute), "acme"); n != 5 {
		t.Errorf("drained %d, want 5", n)
	}
}

func TestEndLeavesTokensSpent(t *testing.T) {
	g := newGate(t, policyOf(quota(0, 2)))
	for _, o := range []admission.Outcome{admission.Answered, admission.Unknown} {
		p, f, _ := ask(g, epoch, "acme", 1)
		if f.Is() {
			t.Fatal("refused")
		}
		g.End(epoch, p, o)
	}
	if got := look(g, epoch, "acme").Tokens; got != 0 {
		t.Errorf("%v tokens, want 0", got)
	}
}

// Over any span of time no more than the burst and the refill is spent, also by
// a caller whose clock jumps back and forth.
func TestNoMoreIsSpentThanBurstAndRefill(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := quota(rate.Limit(rapid.Float64Range(0.01, 1000).Draw(t, "rate")), rapid.IntRange(1, 100).Draw(t, "burst"))
		g, err := New(policyOf(q), epoch)
		if err != nil {
			t.Fatal(err)
		}
		spent, first, latest := 0.0, math.NaN(), math.Inf(-1)
		for range rapid.IntRange(1, 300).Draw(t, "requests") {
			now := rapid.Float64Range(-5, 60).Draw(t, "now")
			if math.IsNaN(first) {
				first = now
			}
			latest = max(latest, now)
			p, f, _ := ask(g, at(time.Duration(now*float64(time.Second))), "acme", rapid.Int64Range(1, 10).Draw(t, "cost"))
			if f.Is() {
				continue
			}
			if rapid.IntRange(0, 3).Draw(t, "then") == 0 {
				g.GiveBack(at(time.Duration(now*float64(time.Second))), p)
				continue
			}
			spent += float64(p.Amount)
			if most := float64(q.Burst) + float64(q.Rate)*(latest-first); spent > most*(1+1e-9)+1e-6 {
				t.Fatalf("%v spent by %vs, want at most %v", spent, latest, most)
			}
		}
	})
}

func TestShadowReportsWhatEnforcingWouldRefuse(t *testing.T) {
	o := policyOf(quota(7, 10))
	enforced := newGate(t, o)
	o.Tenants.Mode = admission.Shadow
	shadow := newGate(t, o)
	rnd := rand.New(rand.NewPCG(2, 3))
	now, refused := epoch, 0
	for i := range 2000 {
		now = now.Add(time.Duration(rnd.Int64N(int64(200 * time.Millisecond))))
		cost := rnd.Int64N(4) + 1
		_, want, _ := ask(enforced, now, "acme", cost)
		p, got, l := ask(shadow, now, "acme", cost)
		if got.Reason != want.Reason {
			t.Fatalf("request %d: shadow says %v, enforcing %v", i, got.Reason, want.Reason)
		}
		if l != (admission.Limit{}) {
			t.Fatalf("request %d: clients are told of %+v, which is not enforced", i, l)
		}
		if got.Is() {
			refused++
			if got.Mode != admission.Shadow || p.Ref != nil {
				t.Fatalf("request %d: %+v with %+v, want a shadow refusal that holds nothing", i, got, p)
			}
		}
		if a, b := look(enforced, now, "acme").Tokens, look(shadow, now, "acme").Tokens; a != b {
			t.Fatalf("request %d: level is %v in shadow, %v enforced", i, b, a)
		}
	}
	if refused == 0 {
		t.Error("nothing was refused, so nothing was compared")
	}
}

func TestLookChangesNothing(t *testing.T) {
	o := policyOf(quota(3, 10))
	o.Tenants.Overrides = map[string]Quota{"vip": quota(1, 50), "free": {Rate: rate.Inf}}
	g := newGate(t, o)
	if s := look(g, epoch, "new"); s.Source != Fresh || s.Tokens != 10 || s.Wait != 0 || s.Cost != 1 {
		t.Errorf("unseen tenant: %+v", s)
	}
	if n := g.Stats().Buckets; n != 1 {
		t.Errorf("%d buckets, want that of the override alone", n)
	}
	if s := look(g, epoch, "free"); s.Source != Unlimited {
		t.Errorf("unlimited tenant: %+v", s)
	}
	if s := look(g, epoch, "vip"); s.Source != Override || s.Tokens != 50 || s.Quota != quota(1, 50) {
		t.Errorf("override: %+v", s)
	}
	drain(g, epoch, "new")
	for i := range 100 {
		// Looking ahead must not move the bucket's clock.
		look(g, at(time.Duration(i)*time.Hour), "new")
	}
	s := look(g, at(time.Second), "new")
	if s.Source != Own || s.Tokens != 3 || s.Wait != 0 {
		t.Errorf("own bucket after a second: %+v", s)
	}
	s = g.Look(at(time.Second), &admission.Request{Tenant: "new", Route: &admission.Route{Cost: 6}})
	if d := s.Wait - time.Second; d < 0 || d > time.Microsecond {
		t.Errorf("wait for 6 tokens is %v, want a second", s.Wait)
	}
	if fmt.Sprint(s.Source, Unlimited, Fresh, Override, Overflow) != "own unlimited fresh override overflow" {
		t.Error("sources do not print as their names")
	}
}
