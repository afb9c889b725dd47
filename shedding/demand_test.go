package shedding

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// The level admits the share asked for, to each tenant up to itself.
func TestWaterLevel(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		var s spread
		var tenants []float64
		sum := 0.0
		for range 1 + r.IntN(40) {
			d := math.Exp(r.Float64() * 8)
			tenants = append(tenants, d)
			sum += d
			for range int(d) {
				s.add(float32(d))
			}
		}
		s.roll(0, 10)
		p := r.Float64()
		level := s.level(p)
		got := 0.0
		for _, d := range tenants {
			got += min(d, level)
		}
		if got/sum < p*0.85-0.02 || got/sum > p*1.15+0.02 {
			t.Errorf("seed %d: level %v admits %.3f, want %.3f", seed, level, got/sum, p)
		}
	}
}

func TestWaterLevelRisesWithTheShare(t *testing.T) {
	var s spread
	r := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		s.add(float32(1 + r.ExpFloat64()*50))
	}
	s.roll(0, 10)
	last := 0.0
	for p := 0.001; p <= 1; p += 0.001 {
		l := s.level(p)
		if l < last {
			t.Fatalf("level falls from %v to %v at share %v", last, l, p)
		}
		last = l
	}
}

func TestDemandIsNeverTooLowAndFades(t *testing.T) {
	d := newDemand(1024, 10)
	r := rand.New(rand.NewPCG(3, 3))
	true1 := map[uint64]float64{}
	var est float32
	for range 20000 {
		h := mix(uint64(r.IntN(500)))
		true1[h]++
		est = d.add(h, 1)
		if float64(est) < true1[h]-0.01 {
			t.Fatalf("demand of %v is estimated as %v", true1[h], est)
		}
	}
	over := 0
	for h, n := range true1 {
		if float64(d.add(h, 1)) > n*1.2+3 {
			over++
		}
	}
	if over > 5 {
		t.Errorf("%d of 500 tenants are estimated far too high", over)
	}
	h := mix(1)
	before := d.add(h, 1)
	if after := d.add(h, 11); after > before/2 || after < before/4 {
		t.Errorf("demand went from %v to %v in one time constant", before, after)
	}
	if after := d.add(h, 1000); after != 1 {
		t.Errorf("demand is %v long after, want 1", after)
	}
}

// Property 7: a tenant below its fair share is not shed while a heavier one of
// the same class passes above it. With many tenants and a few heavy ones.
func TestHeaviestTenantsAreRefusedFirst(t *testing.T) {
	for seed := range uint64(3) {
		g := newTestGate(t, QueueOptions{}, func(o *Options) { o.Seed = seed + 1 })
		r := rand.New(rand.NewPCG(seed, 9))
		offered, admitted := map[string]float64{}, map[string]float64{}
		now := start
		done := 0.0
		for step := range 6000 { // 60 s, 300 requests a second
			now = now.Add(10 * time.Millisecond)
			if step%100 == 0 {
				done += 100
				if _, err := g.Observe(now, "q", "s", Sample{Depth: Known(4500), Done: Known(done)}); err != nil {
					t.Fatal(err)
				}
			}
			for range 3 {
				tenant := "heavy"
				switch x := r.Float64(); {
				case x < .3:
					tenant = fmt.Sprint("light-", r.IntN(100)) // 0.9 a second each
				case x < .5:
					tenant = fmt.Sprint("middle-", r.IntN(4)) // 15 a second each
				}
				a := reserve(g, now, tenant, 2, nil)
				if step < 3000 {
					continue // until rates are learned
				}
				offered[tenant]++
				if !a.refusal.Is() {
					admitted[tenant]++
				}
			}
		}
		lightRefused, all, in := 0.0, 0.0, 0.0
		for tenant, n := range offered {
			all += n
			in += admitted[tenant]
			if tenant[0] == 'l' {
				lightRefused += n - admitted[tenant]
			}
		}
		share := g.State(now)[0].Classes[2].Share
		if got := in / all; math.Abs(got-share) > .08 {
			t.Errorf("seed %d: %.2f of requests were admitted, the law says %.2f", seed, got, share)
		}
		if lightRefused > 0 {
			t.Errorf("seed %d: %v requests of light tenants were refused", seed, lightRefused)
		}
		for i := range 4 {
			m := fmt.Sprint("middle-", i)
			if admitted[m] > admitted["heavy"]*1.2 {
				t.Errorf("seed %d: %s got %v in, the heaviest %v", seed, m, admitted[m], admitted["heavy"])
			}
			if admitted[m] < offered[m]*.8 && admitted["heavy"] > admitted[m]*1.5 {
				t.Errorf("seed %d: %s got %v of %v in, while the heaviest got %v", seed, m, admitted[m], offered[m], admitted["heavy"])
			}
		}
	}
}

// A million tenants take no more memory than one.
func TestAMillionTenants(t *testing.T) {
	g := newTestGate(t, QueueOptions{})
	now := strain(t, g, start, 50)
	heavyIn, heavy, lightIn, light := 0.0, 0.0, 0.0, 0.0
	for i := range 200000 {
		at := now.Add(time.Duration(i) * 60 * time.Microsecond)
		if i%33333 == 0 {
			if _, err := g.Observe(at, "q", "s", Sample{Depth: Known(5000), Done: Known(1900 + float64(i)*6/1000)}); err != nil {
				t.Fatal(err)
			}
		}
		name := fmt.Sprint("light-", i*5)
		if i%10 == 0 {
			name = "heavy"
		}
		a := reserve(g, at, name, 2, nil)
		if i < 100000 {
			continue
		}
		if name == "heavy" {
			heavy++
			if !a.refusal.Is() {
				heavyIn++
			}
		} else {
			light++
			if !a.refusal.Is() {
				lightIn++
			}
		}
	}
	if heavyIn/heavy > .1*lightIn/light {
		t.Errorf("the heaviest tenant got %.3f in, a million light ones %.3f", heavyIn/heavy, lightIn/light)
	}
	if n := len(g.queues[0].demand.lines); n != defaultTenants {
		t.Errorf("the sketch has %d lines", n)
	}
}
