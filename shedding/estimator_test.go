package shedding

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// tank is a queue for estimators: work goes in and out at given rates.
type tank struct {
	e           *estimator
	now         float64
	depth, done float64
	owed        float64
}

func newTank() *tank { return &tank{e: newEstimator(newAdmissions(0, 120))} }

// run lets seconds pass, with own and foreign arrivals and completions per
// second, and a sample every period of what tell says.
func (k *tank) run(seconds, own, foreign, service, period float64, tell func(*tank) reading) {
	const step = 0.05
	next := k.now + period
	for end := k.now + seconds; k.now < end-1e-9; {
		k.now += step
		k.e.log.roll(k.now)
		k.owed += own * step
		for ; k.owed >= 1; k.owed-- {
			k.e.log.add(1)
		}
		k.depth += (own + foreign) * step
		out := min(k.depth, service*step)
		k.depth -= out
		k.done += out
		if k.now >= next-1e-9 {
			next += period
			k.e.observe(tell(k), k.now)
		}
	}
}

func counted1(k *tank) reading {
	return reading{at: k.now, depth: Known(k.depth), done: Known(k.done)}
}

func between(t *testing.T, what string, got, lo, hi float64) {
	t.Helper()
	if !(got >= lo && got <= hi) {
		t.Errorf("%s is %.3f, want %v to %v", what, got, lo, hi)
	}
}

func TestServiceRateAndWait(t *testing.T) {
	k := newTank()
	k.run(60, 150, 0, 100, 1, counted1)
	between(t, "rate", k.e.rate, 97, 103)
	between(t, "wait", k.e.wait(k.now).v, k.depth/100*.97, k.depth/100*1.03)
	if !k.e.measured {
		t.Error("the rate was not measured under a backlog")
	}
}

func TestWaitFollowsOwnAdmissionsBetweenSamples(t *testing.T) {
	k := newTank()
	k.run(60, 150, 0, 100, 1, counted1)
	w := k.e.wait(k.now).v
	k.e.log.roll(k.now + .5)
	k.e.log.add(1000)
	k.e.log.roll(k.now + 1)
	between(t, "wait after 1000 more", k.e.wait(k.now+1).v, w+8.5, w+9.5)
	between(t, "wait five seconds later", k.e.wait(k.now+6).v, w+3.5, w+4.5)
}

func TestForeignWorkIsSeen(t *testing.T) {
	k := newTank()
	k.run(60, 80, 70, 100, 1, counted1)
	between(t, "foreign", k.e.foreign, 65, 75)
	between(t, "yield", k.e.yield, .99, 1)
	// Without a counter, from age and depth together.
	k = newTank()
	k.run(120, 80, 70, 100, 1, func(k *tank) reading {
		return reading{at: k.now, depth: Known(k.depth), age: Known(k.depth / 150)}
	})
	between(t, "foreign by age and depth", k.e.foreign, 60, 80)
	between(t, "rate by age and depth", k.e.rate, 90, 110)
}

func TestAdmissionsThatPutNothingOnTheQueueAreSeen(t *testing.T) {
	k := newTank()
	// 300 a second are admitted, half of them leave work.
	k.run(60, 300, -150, 100, 1, counted1)
	between(t, "yield", k.e.yield, .47, .53)
	between(t, "foreign", k.e.foreign, 0, 5)
}

func TestIdleQueueShowsALowerBoundOnly(t *testing.T) {
	k := newTank()
	k.run(60, 1, 0, 100, 1, counted1) // the night
	if k.e.measured {
		t.Error("an idle queue's throughput was taken for its rate")
	}
	k.e.log.add(200) // the first rush
	between(t, "wait", k.e.wait(k.now).v, 0, 2)
}

func TestStandstillRunsItsOwnClock(t *testing.T) {
	k := newTank()
	tell := func(k *tank) reading { r := counted1(k); r.age = Known(k.depth / 100); return r }
	k.run(60, 90, 0, 100, 1, tell)
	k.run(20, 90, 0, 0, 1, tell)
	between(t, "stall", k.e.stall, 17, 21)
	between(t, "rate", k.e.rate, 80, 105)
	between(t, "wait", k.e.wait(k.now).v, 34, 44) // 18 s of work, and as long again
	k.run(3, 90, 0, 100, 1, tell)
	between(t, "stall after work resumed", k.e.stall, 0, 0)
}

func TestSlowQueueIsNotMeasuredByTheSample(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	k := newTank()
	e := k.e
	depth, done := 50.0, 0.0
	worst := 0.0
	for now := 1.0; now <= 1800; now++ { // one in ten seconds, read every second
		e.log.roll(now)
		if r.Float64() < .1 {
			depth, done = depth-1, done+1
		}
		if r.Float64() < .1 {
			depth++
			e.log.add(1)
		}
		depth = max(depth, 20)
		e.observe(reading{at: now, depth: Known(depth), done: Known(done)}, now)
		if now > 900 {
			worst = max(worst, e.rate)
		}
	}
	between(t, "rate of a queue that does one in ten seconds", e.rate, .06, .18)
	between(t, "highest rate", worst, .08, .25)
}

func TestCounterThatStartsAgainIsNoNegativeRate(t *testing.T) {
	k := newTank()
	k.run(60, 150, 0, 100, 1, counted1)
	k.done = 0
	before := k.e.rate
	k.run(1, 150, 0, 100, 1, counted1)
	between(t, "rate after the counter fell to zero", k.e.rate, before*.98, before*1.02)
	k.run(20, 150, 0, 100, 1, counted1)
	between(t, "rate", k.e.rate, 97, 103)
}

func TestRawAgeUntilTheLogReachesBack(t *testing.T) {
	k := newTank()
	tell := func(k *tank) reading { return reading{at: k.now, age: Known(30)} }
	k.run(10, 100, 0, 100, 1, tell)
	if !k.e.blind.known {
		t.Error("the log is taken to reach back further than it does")
	}
	between(t, "wait", k.e.wait(k.now).v, 30, 30)
	k.run(40, 100, 0, 100, 1, tell)
	if k.e.blind.known {
		t.Error("the log reaches back, but the raw age is used still")
	}
	between(t, "wait", k.e.wait(k.now).v, 28, 32)
}

func TestLogKnowsWhatWasAdmittedWhen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := newAdmissions(5, rapid.Float64Range(1, 1000).Draw(t, "limit"))
		now, total := 5.0, 0.0
		type mark struct{ at, total float64 }
		var marks []mark
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += rapid.Float64Range(0, 20*log.width).Draw(t, "pause")
			log.roll(now)
			marks = append(marks, mark{now, total})
			n := rapid.Int64Range(0, 5).Draw(t, "n")
			log.add(n)
			total += float64(n)
		}
		last := -1.0
		for _, m := range marks {
			got := log.at(m.at, now)
			if got < last-1e-9 {
				t.Fatalf("the log falls from %v to %v", last, got)
			}
			last = got
			if !log.reaches(m.at) {
				continue
			}
			// No further off than what came in within one entry.
			lo, hi := log.at(m.at-log.width, now), log.at(m.at+log.width, now)
			if m.total < lo-5-1e-9 || m.total > hi+5+1e-9 {
				t.Fatalf("at %v: %v were admitted, the log says %v (%v to %v)", m.at, m.total, got, lo, hi)
			}
		}
		if log.at(now+1, now) != total {
			t.Fatalf("the log says %v in all, want %v", log.at(now+1, now), total)
		}
	})
}

func TestLogForgetsWhatIsLongAgo(t *testing.T) {
	log := newAdmissions(0, 120)
	for now := 0.0; now < 2000; now++ {
		log.roll(now)
		log.add(10)
	}
	if log.reaches(100) || !log.reaches(1800) {
		t.Error("the reach of the log is wrong")
	}
	between(t, "admitted by 1800 s", log.at(1800, 1999.5), 17990, 18010)
	other := newAdmissions(0, 300)
	other.adopt(log, 1999.5)
	between(t, "the same after a reload with another limit", other.at(1800, 1999.5), 17980, 18020)
	other.roll(2010)
	between(t, "total", other.at(2010, 2010), 20000, 20000)
}

// Property 6, for any bands whatever.
func TestSharesFallWithStrainAndClass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "classes")
		bands := make([]Band, n)
		for i := range bands {
			from := rapid.Float64Range(0, 1.2).Draw(t, "from")
			bands[i] = Band{
				From: from, Full: from + rapid.SampledFrom([]float64{0, 0, .01, .3}).Draw(t, "width"),
				MinAdmit: rapid.SampledFrom([]float64{0, .05, 1}).Draw(t, "min"), cut: rapid.SampledFrom([]float64{0, .1}).Draw(t, "cut"),
			}
		}
		fresh, back := make([]float64, n), make([]float64, n)
		last := make([]float64, n)
		for i := range last {
			last[i] = 1
		}
		for x := 0.0; x < 1.5; x += 0.01 {
			shares(bands, x, fresh, back)
			for i := range fresh {
				switch {
				case !(fresh[i] > 0 && back[i] >= fresh[i] && back[i] <= 1):
					t.Fatalf("at %v class %d gets %v, returners %v", x, i, fresh[i], back[i])
				case i > 0 && (fresh[i] > fresh[i-1] || back[i] > back[i-1]):
					t.Fatalf("at %v class %d gets %v, the one above %v", x, i, fresh[i], fresh[i-1])
				case fresh[i] > last[i]:
					t.Fatalf("at %v class %d gets %v, more than before, %v", x, i, fresh[i], last[i])
				case x > 1 && fresh[i] > probe:
					t.Fatalf("above the limit class %d gets %v", i, fresh[i])
				}
			}
			copy(last, fresh)
		}
		offered := make([]float64, n)
		for i := range offered {
			offered[i] = rapid.Float64Range(0, 100).Draw(t, "offered")
		}
		for i := range fresh {
			fresh[i] = 1
			bands[i].MinAdmit = 0
		}
		rate := rapid.Float64Range(1, 200).Draw(t, "rate")
		capShares(bands, rate, offered, fresh)
		sum := 0.0
		for i := range fresh {
			sum += offered[i] * fresh[i]
			if i > 0 && fresh[i] > fresh[i-1] {
				t.Fatalf("under a cap class %d gets %v, the one above %v", i, fresh[i], fresh[i-1])
			}
		}
		if sum > rate+float64(n)*100*probe+1e-6 {
			t.Fatalf("a cap of %v lets %v in", rate, sum)
		}
	})
}

func TestBandsOfEqualEndsAreSteps(t *testing.T) {
	b := Band{From: .5, Full: .5, MinAdmit: .1}
	for x, want := range map[float64]float64{.49: 1, .5: .1, .9: .1, 1.01: probe} {
		if got := b.share(x); got != want {
			t.Errorf("at %v the share is %v, want %v", x, got, want)
		}
	}
}
