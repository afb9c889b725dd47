package ratelimit

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"sluice/admission"
)

// A tenant that waits for as long as it was told, and spends nothing meanwhile,
// gets in; and it was not told to wait for longer than the formula says.
func TestRetryAfterComesTrue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := quota(rate.Limit(rapid.OneOf(
			rapid.Float64Range(1e-5, 1),
			rapid.Float64Range(1, 1e4),
			rapid.Float64Range(1e4, MaxRate),
		).Draw(t, "rate")), rapid.OneOf(rapid.IntRange(1, 20), rapid.IntRange(1, MaxBurst)).Draw(t, "burst"))
		g, err := New(policyOf(q), epoch)
		if err != nil {
			t.Fatal(err)
		}
		now := epoch
		for range rapid.IntRange(1, 40).Draw(t, "requests") {
			now = now.Add(time.Duration(rapid.Int64Range(-int64(time.Second), int64(10*time.Second)).Draw(t, "later")))
			cost := rapid.Int64Range(1, int64(q.Burst)).Draw(t, "cost")
			before := look(g, now, "acme")
			wait := q.until(float64(cost) - before.Tokens)
			_, f, _ := ask(g, now, "acme", cost)
			if !f.Is() {
				continue
			}
			if wait == never {
				if f.RetryAfter != 0 {
					t.Fatalf("told to wait %v for what takes more than a lifetime", f.RetryAfter)
				}
				continue
			}
			back := now.Add(f.RetryAfter)
			if rapid.Bool().Draw(t, "whole seconds") {
				back = now.Add(onTheWire(f.RetryAfter))
			}
			backwards := time.Second // how far behind the bucket now may be
			if most := wait + placeMax + spreadMax + 40*backwards; f.RetryAfter > most {
				t.Fatalf("told to wait %v, want at most %v", f.RetryAfter, most)
			}
			if !rapid.Bool().Draw(t, "returns") {
				continue // refusals cost nothing, so ignoring one changes nothing
			}
			if !admits(g, back, "acme", cost) {
				t.Fatalf("not admitted at a cost of %d after %v: %+v", cost, f.RetryAfter, look(g, back, "acme"))
			}
			now = back
		}
	})
}

// Many requests refused together are told to come back as the refill and the
// burst allow, and so they get in.
func TestRequestsRefusedTogetherReturnInTurn(t *testing.T) {
	for _, c := range []struct {
		rate           rate.Limit
		burst, waiting int
	}{
		{100, 200, 1000},
		{100, 100, 1000},
		{100, 20, 400}, // less than a second's refill: what returns in one second must fit the burst
		{2, 10, 50},
		{0.5, 1, 10},
	} {
		g := newGate(t, policyOf(quota(c.rate, c.burst)))
		for range c.burst {
			admits(g, epoch, "acme", 1)
		}
		returns := make(map[time.Duration]int)
		for range c.waiting {
			_, f, _ := ask(g, epoch, "acme", 1)
			if !f.Is() {
				t.Fatal("admitted on an empty bucket")
			}
			returns[onTheWire(f.RetryAfter)]++
		}
		in, last := 0, time.Duration(0)
		for told := time.Second; told <= time.Minute; told += time.Second {
			for range returns[told] {
				last = told
				if admits(g, at(told), "acme", 1) {
					in++
				}
			}
		}
		if in < c.waiting*95/100 {
			t.Errorf("%+v: %d got in when told, want at least 95 of 100", c, in)
		}
		each := min(float64(c.rate), float64(c.burst))
		least := time.Duration(float64(c.waiting) / each * float64(time.Second))
		if last < least-time.Second || last > least+8*time.Second {
			t.Errorf("%+v: the last is told to return after %v, want soon after %v", c, last, least)
		}
	}
}

// Hammering does not push the times that are told beyond the bound.
func TestPlacesStartOver(t *testing.T) {
	g := newGate(t, policyOf(quota(1, 1)))
	drain(g, epoch, "acme")
	var most time.Duration
	starts := 0
	for i := range 10_000 {
		now := time.Duration(i) * 50 * time.Microsecond // half a second in all
		_, f, _ := ask(g, at(now), "acme", 1)
		most = max(most, f.RetryAfter)
		if f.RetryAfter < time.Second-now+spreadMax {
			starts++
		}
	}
	if bound := time.Second + placeMax + spreadMax; most > bound {
		t.Errorf("told to wait %v, want at most %v", most, bound)
	}
	if starts < 100 {
		t.Errorf("%d told to come back among the first, want the places to start over", starts)
	}
}

func TestRetryAfterIsSpreadOverTenants(t *testing.T) {
	g := newGate(t, policyOf(quota(0.1, 1))) // the wait is 10 s
	seconds := make(map[time.Duration]int)
	for i := range 1000 {
		tenant := fmt.Sprint("tenant-", i)
		admits(g, epoch, tenant, 1)
		_, f, _ := ask(g, epoch, tenant, 1)
		_, again, _ := ask(g, epoch, tenant, 1)
		if f.RetryAfter < 10*time.Second || f.RetryAfter > 12500*time.Millisecond+time.Microsecond {
			t.Fatalf("told to wait %v, want 10 to 12.5 s", f.RetryAfter)
		}
		if again.RetryAfter < f.RetryAfter {
			t.Fatalf("the second request is told %v, before the first, told %v", again.RetryAfter, f.RetryAfter)
		}
		seconds[onTheWire(f.RetryAfter)]++
	}
	for s, want := range map[time.Duration]int{11 * time.Second: 400, 12 * time.Second: 400, 13 * time.Second: 200} {
		if n := seconds[s]; n < want/2 || n > want*2 {
			t.Errorf("%d of 1000 tenants return after %v, want about %d", n, s, want)
		}
	}
}

// The caller's clock may be behind the bucket's; the wait is the caller's.
func TestRetryAfterCountsFromTheCallersClock(t *testing.T) {
	g := newGate(t, policyOf(quota(1, 1)))
	if !admits(g, at(10*time.Second), "acme", 1) {
		t.Fatal("refused")
	}
	_, f, _ := ask(g, at(4*time.Second), "acme", 1)
	if f.RetryAfter < 7*time.Second {
		t.Errorf("told to wait %v at 4 s for a token that is there at 11 s", f.RetryAfter)
	}
	if !admits(g, at(4*time.Second+f.RetryAfter), "acme", 1) {
		t.Error("not admitted when told to come back")
	}
}

func TestCost(t *testing.T) {
	plain := &admission.Route{Cost: 5}
	by := &admission.Route{Cost: 5, CostBy: "X-Cost", CostCap: 100}
	cases := []struct {
		name   string
		route  *admission.Route
		header fields
		want   int64
	}{
		{"no route", nil, nil, 1},
		{"route without cost", &admission.Route{}, nil, 1},
		{"route", plain, nil, 5},
		{"header of a route that reads none", plain, fields{{"X-Cost", "50"}}, 5},
		{"no header", by, nil, 5},
		{"raised", by, fields{{"x-cost", "50"}}, 50},
		{"at the cap", by, fields{{"X-Cost", "100"}}, 100},
		{"above the cap", by, fields{{"X-Cost", "101"}}, 100},
		{"far above the cap", by, fields{{"X-Cost", "99999999999999999999999999"}}, 100},
		{"below the base", by, fields{{"X-Cost", "1"}}, 5},
		{"zero", by, fields{{"X-Cost", "0"}}, 5},
		{"leading zeros", by, fields{{"X-Cost", "00000000000000000000000050"}}, 50},
		// What is not a number counts as the cap: see the package comment.
		{"empty", by, fields{{"X-Cost", ""}}, 100},
		{"negative", by, fields{{"X-Cost", "-1"}}, 100},
		{"sign", by, fields{{"X-Cost", "+1"}}, 100},
		{"space", by, fields{{"X-Cost", " 1"}}, 100},
		{"fraction", by, fields{{"X-Cost", "1.5"}}, 100},
		{"hexadecimal", by, fields{{"X-Cost", "0x1"}}, 100},
		{"list", by, fields{{"X-Cost", "1,2"}}, 100},
		{"digits of another script", by, fields{{"X-Cost", "١"}}, 100},
		{"large and then junk", by, fields{{"X-Cost", "999x"}}, 100},
		{"repeated", by, fields{{"X-Cost", "6"}, {"X-Cost", "6"}}, 100},
		{"cap below the base", &admission.Route{Cost: 5, CostBy: "X-Cost", CostCap: 2}, fields{{"X-Cost", "50"}}, 5},
	}
	for _, c := range cases {
		r := admission.Request{Route: c.route, Header: c.header}
		if got := cost(&r); got != c.want {
			t.Errorf("%s: costs %d, want %d", c.name, got, c.want)
		}
	}
}

// Whatever a header holds, the cost is between the base and the cap.
func FuzzParseCost(f *testing.F) {
	for _, s := range []string{"", "0", "7", "100", "101", "9223372036854775807", "9223372036854775808", "-1", "1e3", "\x00"} {
		f.Add(s, int64(100))
	}
	f.Add("9223372036854775807", int64(9223372036854775807))
	f.Fuzz(func(t *testing.T, s string, limit int64) {
		if limit < 1 {
			t.Skip()
		}
		got := parseCost(s, limit)
		if got < 0 || got > limit {
			t.Fatalf("parseCost(%q, %d) = %d", s, limit, got)
		}
		var n int64
		if _, err := fmt.Sscanf(s, "%d", &n); err == nil && fmt.Sprint(n) == s && n >= 0 && got != min(n, limit) {
			t.Fatalf("parseCost(%q, %d) = %d, want %d", s, limit, got, min(n, limit))
		}
	})
}
