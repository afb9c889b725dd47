package load

import (
	"bytes"
	"math"
	"testing"
)

func TestSharesOfClassesAndTenantsComeOut(t *testing.T) {
	const seed, n = 4, 100_000
	m := newMix(Options{Classes: []Class{
		{Name: "critical", Share: 1, Tenants: Tenants{Count: 4}},
		{Name: "bulk", Share: 3, Tenants: Tenants{Count: 10, Skew: 1, Heavy: "whale", HeavyShare: 0.4}},
	}}.withDefaults().Classes, seed)
	classes := map[int]float64{}
	tenants := map[string]float64{}
	for range n {
		r := m.request(arrival{})
		classes[r.class]++
		if r.class == 1 {
			tenants[m.classes[1].tenants[r.tenant]]++
		}
	}
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 0.01 {
			t.Errorf("seed %d: %s has a share of %.3f, wanted %.3f", seed, what, got, want)
		}
	}
	near("critical", classes[0]/n, 0.25)
	near("whale", tenants["whale"]/classes[1], 0.4)
	harmonic := 0.0
	for k := 1.0; k <= 10; k++ {
		harmonic += 1 / k
	}
	near("tenant-1", tenants["tenant-1"]/classes[1], 0.6/harmonic)
	near("tenant-10", tenants["tenant-10"]/classes[1], 0.06/harmonic)
}

// A repeat is the same request again; a conflict has the key of an earlier
// request and another body.
func TestRepeatsAndConflicts(t *testing.T) {
	const seed, n = 6, 20_000
	m := newMix(Options{Classes: []Class{{
		Name: "orders", Body: 200, Tenants: Tenants{Count: 5}, Keys: Keys{Use: true, Repeat: 0.2, Conflict: 0.1},
	}}}.withDefaults().Classes, seed)
	c := &m.classes[0]
	type first struct {
		body   []byte
		tenant int
	}
	firsts := map[uint64]first{}
	var repeats, conflicts float64
	for range n {
		r := m.request(arrival{})
		body := c.appendBody(nil, r.effect)
		if len(body) != 200 {
			t.Fatalf("a body of %d bytes, wanted 200", len(body))
		}
		old, known := firsts[r.key]
		switch {
		case r.repeat:
			repeats++
			if !known || !bytes.Equal(old.body, body) || old.tenant != r.tenant {
				t.Fatal("a repeat differs from the request that it repeats")
			}
		case r.conflict:
			conflicts++
			if !known || bytes.Equal(old.body, body) || old.tenant != r.tenant {
				t.Fatal("a conflict does not misuse an earlier key of its tenant")
			}
		case known:
			t.Fatal("a new request has a used key")
		default:
			firsts[r.key] = first{body, r.tenant}
		}
	}
	if math.Abs(repeats/n-0.2) > 0.01 || math.Abs(conflicts/n-0.1) > 0.01 {
		t.Errorf("seed %d: repeats %.3f and conflicts %.3f, wanted 0.2 and 0.1", seed, repeats/n, conflicts/n)
	}
}
