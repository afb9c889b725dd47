package ratelimit

import (
	"math"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"sluice/admission"
)

func reconfigure(t *testing.T, g *Gate, o Options, now time.Time) Report {
	t.Helper()
	r, err := g.Reconfigure(o, now)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, math.Abs(a), math.Abs(b)) }

// A level survives as its share of the burst; what refilled before the reload
// did so at the old rate, what refills after it at the new one.
func TestReloadKeepsLevels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) Quota {
			return quota(rate.Limit(rapid.Float64Range(0.01, 100).Draw(t, name+" rate")), rapid.IntRange(1, 1000).Draw(t, name+" burst"))
		}
		before, after := draw("old"), draw("new")
		if rapid.Bool().Draw(t, "same burst") {
			after.Burst = before.Burst
		}
		g, err := New(policyOf(before), epoch)
		if err != nil {
			t.Fatal(err)
		}
		spent := rapid.Int64Range(1, int64(before.Burst)).Draw(t, "spent")
		ask(g, epoch, "acme", spent)
		seconds := func(name string) float64 {
			return float64(rapid.Int64Range(0, 20_000).Draw(t, name)) / 1000
		}
		old, since := seconds("old for"), seconds("new for")
		reload := at(time.Duration(old * float64(time.Second)))
		if _, err := g.Reconfigure(policyOf(after), reload); err != nil {
			t.Fatal(err)
		}
		now := reload.Add(time.Duration(since * float64(time.Second)))

		level := min(float64(before.Burst)-float64(spent)+old*float64(before.Rate), float64(before.Burst))
		level *= float64(after.Burst) / float64(before.Burst)
		level = min(level+since*float64(after.Rate), float64(after.Burst))
		looked := look(g, now, "acme").Tokens
		if !near(looked, level) {
			t.Fatalf("explained as %v tokens, want %v", looked, level)
		}
		ask(g, now, "acme", 1) // brings the bucket to its new quota
		if level >= 1 {
			level--
		}
		if got := look(g, now, "acme").Tokens; !near(got, level) {
			t.Fatalf("%v tokens, want %v", got, level)
		}
	})
}

func TestReloadWithoutChangeChangesNothing(t *testing.T) {
	o := policyOf(quota(3, 10))
	o.Tenants.Overrides = map[string]Quota{"vip": quota(1, 50)}
	g := newGate(t, o)
	ask(g, epoch, "acme", 7)
	ask(g, epoch, "vip", 20)
	now := at(time.Second)
	acme, vip := look(g, now, "acme"), look(g, now, "vip")
	for range 3 {
		if r := reconfigure(t, g, o, now); r != (Report{Kept: 2}) {
			t.Errorf("report is %+v, want 2 kept", r)
		}
	}
	if a, v := look(g, now, "acme"), look(g, now, "vip"); a != acme || v != vip {
		t.Errorf("got %+v and %+v, want %+v and %+v", a, v, acme, vip)
	}
}

func TestReloadOfOverrides(t *testing.T) {
	o := policyOf(quota(0, 100))
	o.Tenants.Overrides = map[string]Quota{"leaves": quota(0, 1000), "stays": quota(0, 500), "grows": quota(0, 10), "free": {Rate: rate.Inf}}
	g := newGate(t, o)
	ask(g, epoch, "leaves", 400)
	ask(g, epoch, "stays", 100)
	ask(g, epoch, "grows", 5)
	ask(g, epoch, "joins", 25)
	ask(g, epoch, "plain", 10)

	o.Tenants.Overrides = map[string]Quota{"joins": quota(0, 1000), "stays": quota(0, 500), "grows": quota(0, 100), "free": quota(0, 7)}
	r := reconfigure(t, g, o, at(time.Second))
	// Kept: stays and plain. Rescaled: leaves, grows and joins. New: free.
	if r != (Report{Kept: 2, Rescaled: 3}) {
		t.Errorf("report is %+v", r)
	}
	check := func(want map[string]float64) {
		t.Helper()
		for tenant, tokens := range want {
			if got := look(g, at(time.Minute), tenant).Tokens; !near(got, tokens) {
				t.Errorf("%s has %v tokens, want %v", tenant, got, tokens)
			}
		}
	}
	check(map[string]float64{"leaves": 60, "stays": 400, "grows": 50, "joins": 750, "plain": 90, "free": 7})
	if s := look(g, epoch, "leaves"); s.Source != Own {
		t.Errorf("the tenant without override finds %+v", s)
	}

	// And back, with levels moved on in between.
	ask(g, at(time.Minute), "joins", 250)
	ask(g, at(time.Minute), "leaves", 30)
	o.Tenants.Overrides = map[string]Quota{"leaves": quota(0, 1000)}
	reconfigure(t, g, o, at(time.Minute))
	check(map[string]float64{"leaves": 300, "stays": 80, "grows": 50, "joins": 50, "plain": 90, "free": 100})
}

func TestReloadOfRouteLimits(t *testing.T) {
	o := policyOf(quota(0, 10))
	o.Routes = map[string]*Limit{
		"a": {Name: "a", Quota: quota(0, 10)},
		"b": {Name: "b", Quota: quota(0, 10), Overrides: map[string]Quota{"vip": quota(0, 5)}},
	}
	g := newGate(t, o)
	take := func(tenant, route string, cost int64) bool {
		var d admission.Decision
		_, f := g.Reserve(epoch, &admission.Request{Tenant: tenant, Route: &admission.Route{ID: route, Cost: cost}}, &d)
		return !f.Is()
	}
	take("acme", "a", 6)
	take("acme", "b", 6)
	take("acme", "c", 6)
	o.Routes = map[string]*Limit{"a": {Name: "a", Quota: quota(0, 10)}, "c": {Name: "c", Quota: quota(0, 3)}}
	if r := reconfigure(t, g, o, epoch); r != (Report{Kept: 2, Dropped: 2}) {
		t.Errorf("report is %+v, want 2 kept and the two of route b dropped", r)
	}
	if take("acme", "a", 5) || !take("acme", "a", 4) {
		t.Error("route a lost its level")
	}
	if take("acme", "b", 5) || !take("acme", "b", 4) {
		t.Error("route b is not limited by the tenant's bucket")
	}
	if !take("acme", "c", 3) {
		t.Error("route c did not get a bucket of its own")
	}
}

// What was taken under the old policy is given back at its worth.
func TestGiveBackAfterReload(t *testing.T) {
	cases := []struct {
		name          string
		before, after Quota
		taken         int64
		want          float64
	}{
		{"same", quota(0, 100), quota(0, 100), 30, 100},
		{"rate alone", quota(0, 100), quota(1e-9, 100), 30, 100},
		{"larger", quota(0, 100), quota(1e-9, 1000), 30, 1000},
		{"smaller", quota(1e-9, 1000), quota(1e-9, 100), 30, 100},
		{"to a fraction of a token", quota(1, 1000), quota(1e-3, 1), 300, 1},
		{"to nothing", quota(0, 100), quota(0, 0), 30, 0},
		{"to no limit", quota(0, 100), Quota{Rate: rate.Inf}, 30, 100},
	}
	for _, c := range cases {
		for _, used := range []bool{false, true} {
			g := newGate(t, policyOf(c.before))
			p, _, _ := ask(g, epoch, "acme", c.taken)
			reconfigure(t, g, policyOf(c.after), epoch)
			if used { // bring the bucket to its new quota before the permit ends
				if q, f, _ := ask(g, epoch, "acme", 1); !f.Is() && q.Ref != nil {
					g.GiveBack(epoch, q)
				}
			}
			g.GiveBack(epoch, p)
			g.End(epoch, p, admission.Answered)
			s := look(g, epoch, "acme")
			if s.Source == Unlimited {
				reconfigure(t, g, policyOf(c.before), epoch)
				s = look(g, epoch, "acme")
			}
			if !near(s.Tokens, c.want) {
				t.Errorf("%s, used %v: %v tokens, want %v", c.name, used, s.Tokens, c.want)
			}
		}
	}
}

func TestBadPolicyChangesNothing(t *testing.T) {
	o := policyOf(quota(0, 10))
	g := newGate(t, o)
	ask(g, epoch, "acme", 4)
	bad := Options{
		MaxTenants: 10,
		Tenants:    &Limit{Quota: quota(-1, 5), Overrides: map[string]Quota{"acme": quota(1, -1)}},
		Routes: map[string]*Limit{
			"none": nil,
			"nan":  {Name: "nan", Quota: quota(rate.Limit(math.NaN()), MaxBurst+1)},
		},
	}
	_, err := g.Reconfigure(bad, epoch)
	if err == nil {
		t.Fatal("no error")
	}
	want := `ratelimit: max tenants is 10, want at least 1000
tenants: limit has no name, want the one that clients are to see
tenants: rate is -1 a second, want 0 to 1e+09 or infinite
tenants: override of "acme": burst is -1, want 0 to 4294967296
route "nan": rate is NaN a second, want 0 to 1e+09 or infinite
route "nan": burst is 4294967297, want 0 to 4294967296
route "none": limit is nil, want one or no entry`
	if err.Error() != want {
		t.Errorf("error is\n%s\nwant\n%s", err, want)
	}
	if got := look(g, epoch, "acme"); got.Tokens != 6 || got.Quota != quota(0, 10) {
		t.Errorf("state is %+v, want the level and quota of before", got)
	}
	if _, err := New(bad, epoch); err == nil || !strings.HasPrefix(err.Error(), "ratelimit: ") {
		t.Errorf("New says %v", err)
	}
}

// A table whose bound was lowered shrinks as new tenants come.
func TestLoweredBoundIsReached(t *testing.T) {
	o := policyOf(quota(1000, 2))
	o.MaxTenants = 3 * MinTenants
	g := newGate(t, o)
	names := func(prefix string, n int, now time.Time) {
		for i := range n {
			ask(g, now.Add(time.Duration(i)*time.Second), prefix+string(rune('a'+i%26))+time.Duration(i).String(), 1)
		}
	}
	names("old-", 3*MinTenants, epoch)
	o.MaxTenants = MinTenants
	reconfigure(t, g, o, at(3*MinTenants*time.Second))
	names("new-", 3*MinTenants, at(3*MinTenants*time.Second))
	if n := g.Stats().Buckets; n > MinTenants {
		t.Errorf("%d buckets, want at most %d", n, MinTenants)
	}
}
