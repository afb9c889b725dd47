package shedding

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
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

// Where more share a line than it has places, the least gives way, and whoever
// takes over takes over its count as well: an estimate is never too low, and who
// asks for most is known to a little.
func TestDemandOfACrowdedLine(t *testing.T) {
	const memory, tags = 10.0, 300
	for seed := range uint64(5) {
		r := rand.New(rand.NewPCG(seed, 1))
		d := newDemand(1, memory)
		d.lines = d.lines[:1]
		var asked, at [tags]float64
		var est float64
		now := 0.0
		add := func(tag int) {
			now += 0.001
			asked[tag], at[tag] = asked[tag]*math.Exp((at[tag]-now)/memory)+1, now
			est = float64(d.add(uint64(tag)<<(64-tagBits), now))
			// Counts fade in steps of a sixteenth of the memory.
			if least := asked[tag] * math.Exp(-1.0/demandTicks); est < least {
				t.Fatalf("seed %d: demand of %.2f is estimated as %.2f", seed, asked[tag], est)
			}
		}
		for i := range 20000 {
			if i%4 == 0 {
				add(0)
			} else {
				add(1 + r.IntN(tags-1))
			}
		}
		if add(0); est > asked[0]*1.1+1 {
			t.Errorf("seed %d: who asked for %.0f is estimated at %.0f", seed, asked[0], est)
		}
	}
}

// Who was asked first may come last: a request that waited for its place, or a
// candidate that is asked after the policy in force. Nothing fades twice for that.
func TestDemandOfLateRequests(t *testing.T) {
	const memory, rate = 10.0, 1000.0
	for _, c := range []struct{ late, back float64 }{{0, 0}, {.5, 0}, {0, .1}, {.5, .2}, {3, .1}} {
		r := rand.New(rand.NewPCG(9, 9))
		d := newDemand(1, memory)
		est, now := 0.0, memory
		for ; now < 10*memory; now += 1 / rate {
			at := now
			if r.IntN(2) == 0 {
				at -= r.Float64() * c.late
			}
			est = float64(d.add(42, at))
			if r.Float64() < c.back {
				d.take(42, at)
			}
		}
		if want := rate * memory * (1 - c.back); est < want*.93 || est > want*1.08 {
			t.Errorf("up to %v s late, and %v given back: demand of %.0f is estimated as %.0f", c.late, c.back, want, est)
		}
	}
}

// Ticks come round again: who was away for as long is taken for somebody who has
// just been there in hardly any case.
func TestDemandAfterALongTime(t *testing.T) {
	const memory, round = 10.0, 10.0 / demandTicks * (tickMask + 1)
	wrong := 0
	for i := range 5000 {
		d := newDemand(1, memory)
		for range 100 {
			d.add(42, 1)
		}
		if d.add(42, 1+17*memory+float64(i)/5000*3*round) > 1 {
			wrong++
		}
	}
	if wrong > 5 {
		t.Errorf("%d of 5000 were taken for somebody who had just been there", wrong)
	}
	d := newDemand(1, memory)
	d.add(42, 2*memory)
	if got := d.add(42, 1.9*memory); got != 2 {
		t.Errorf("with a clock a little behind, demand is %v, want 2", got)
	}
}

func TestDemandHasABound(t *testing.T) {
	d := newDemand(1, 10)
	d.line(42)[0].Store(pack(0, d.tick(1), mostDemand-one/2))
	for range 3 {
		if got := d.add(42, 1); got != float32(mostDemand)/one {
			t.Errorf("demand is %v, want no more than %v", got, float32(mostDemand)/one)
		}
	}
}

// What many count at once is counted.
func TestDemandIsCountedConcurrently(t *testing.T) {
	d := newDemand(16, 10)
	d.lines = d.lines[:1]
	const each, keys = 2000, 6
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range each * keys {
				key := uint64(i%keys) << (64 - tagBits)
				d.add(key, 1)
				if i%2 == 0 {
					d.take(key, 1)
					d.add(key, 1)
				}
			}
		})
	}
	wg.Wait()
	for k := range uint64(keys) {
		if got := d.add(k<<(64-tagBits), 1); got != 4*each+1 {
			t.Errorf("demand of %v, want %v", got, 4*each+1)
		}
	}
}

// Each number that newcomers draw by is used once, and each newcomer is counted.
func TestSpreadNumbersNewcomers(t *testing.T) {
	const newcomers = 20000
	var s spread
	r, seen := rand.New(rand.NewPCG(5, 5)), map[uint64]bool{}
	for i := range newcomers {
		seen[s.add(float32(1+r.ExpFloat64()*1e5))] = true
		if i%100 == 0 {
			s.roll(0, 10)
		}
	}
	if len(seen) != newcomers {
		t.Errorf("%d newcomers got %d numbers", newcomers, len(seen))
	}
	if s.roll(0, 10); s.total != newcomers {
		t.Errorf("%v newcomers are in the histogram, want %d", s.total, newcomers)
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
	if n := len(g.queues[0].demand.lines); n*demandPlaces != 2*defaultTenants {
		t.Errorf("the sketch has %d lines", n)
	}
}
