package simulation

import (
	"math"
	"os"
	"testing"

	"sluice/admission"
	"sluice/shedding"
)

// small is the scale of the test runs: 30 to 90 requests a second instead of
// 300 to 900. SLUICE_SIMULATION=full runs them at full size, and the report at half.
const small = 0.1

func measure(t *testing.T, s Setup) Score {
	t.Helper()
	if s.Scale == 0 {
		s.Scale = small
	}
	n := 1
	if full() {
		s.Scale, n = 1, 5
	}
	m := Measure(s, n)
	t.Logf("%s, lag %v s, seeds 1 to %d: %+v", s.Scenario.Name, s.Lag, n, m)
	return m
}

func full() bool { return os.Getenv("SLUICE_SIMULATION") == "full" }

// want checks figures against the reference controller's.
type want struct {
	goodput, critical float64 // at least
	age, flips        float64 // at most
}

func (w want) check(t *testing.T, m Score) {
	t.Helper()
	if m.Goodput < w.goodput {
		t.Errorf("goodput is %.1f %% of ideal, want at least %.1f", m.Goodput, w.goodput)
	}
	if m.Critical < w.critical {
		t.Errorf("%.1f %% of critical work was done in time, want at least %.1f", m.Critical, w.critical)
	}
	if m.MaxAge > w.age {
		t.Errorf("the oldest age was %.0f s, want at most %.0f", m.MaxAge, w.age)
	}
	if m.Flips > w.flips {
		t.Errorf("classes flipped %.0f times, want at most %.0f", m.Flips, w.flips)
	}
}

// The figures of the law are at least those that chose it.
func TestGoodputAgeAndFlipsInEveryScenario(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		scenario Scenario
		lag      float64
		want     want
	}{
		{Overload, 1, want{95.7, 99.9, 60, 0}},
		{Overload, 15, want{95.7, 99.9, 60, 0}},
		{Overload, 60, want{95.7, 99.9, 60, 0}},
		{Bursts, 1, want{97.5, 99.9, 66, 0}},
		{Bursts, 15, want{97.5, 99.9, 70, 0}},
		{Bursts, 60, want{96.7, 99.5, 76, 4}},
		{Outage, 1, want{92.4, 89.0, 181, 6}},
		{Outage, 15, want{91.0, 87.5, 181, 6}},
		{Outage, 60, want{85.8, 82.5, 181, 6}},
		{Halved, 1, want{94.5, 99.9, 87, 2}},
		{Halved, 15, want{94.0, 99.5, 87, 2}},
		{Halved, 60, want{90.5, 96.0, 145, 6}},
	} {
		c.want.check(t, measure(t, Setup{Scenario: c.scenario, Lag: c.lag}))
		if c.lag == 15 {
			c.want.check(t, measure(t, Setup{Scenario: c.scenario, Lag: c.lag, Depth: true}))
		}
	}
}

// Property 8: predicted wait stays below the limit whenever arrivals can be
// refused, if the limit is at least twice as long as a sample is old.
func TestLimitHoldsAtSlowSignals(t *testing.T) {
	t.Parallel()
	for _, sc := range []Scenario{Overload, Bursts, Halved} {
		m := measure(t, Setup{Scenario: sc, Lag: 60, Limit: 240})
		if m.OverLimit > 0 {
			t.Errorf("%s: the queue was over its limit for %.0f s", sc.Name, m.OverLimit)
		}
	}
}

// Property 5: who returns when told gets in, at no cost to higher classes.
func TestPromisesAreKept(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		scenario          Scenario
		lag               float64
		tickets           bool
		kept, back, stand float64
	}{
		{Overload, 15, false, 99, 98, 99.5},
		{Bursts, 15, true, 98, 98, 99.5},
		{Halved, 15, false, 95, 95, 98},
		// Nobody is let in before the end of an outage shows.
		{Outage, 60, false, 97, 97, 89},
		// Endless: promises that cannot be kept are not made.
		{Siege, 15, false, 97, 0, 99.5},
	} {
		s := Setup{Scenario: c.scenario, Lag: c.lag, Return: .8, Tickets: c.tickets}
		if c.tickets {
			s.Replicas = 4
		}
		m := measure(t, s)
		if m.Kept < c.kept || m.Back < c.back {
			t.Errorf("%s: %.1f %% of promises were kept and %.1f %% of returners admitted, want %.0f and %.0f", c.scenario.Name, m.Kept, m.Back, c.kept, c.back)
		}
		if m.Standard < c.stand || m.Critical < c.stand {
			t.Errorf("%s: critical %.1f %%, standard %.1f %%, want at least %.1f", c.scenario.Name, m.Critical, m.Standard, c.stand)
		}
	}
}

// Property 5: waiting beats hammering.
func TestWaitingBeatsHammering(t *testing.T) {
	t.Parallel()
	for _, sc := range []Scenario{Overload} {
		// Who hammers makes fifty times the requests: a smaller scale will do.
		m := measure(t, Setup{Scenario: Calm(sc), Lag: 15, Return: 1, Hammer: .2, Scale: small / 4, Tenants: 100})
		if m.Hammering >= m.Waiting {
			t.Errorf("%s: %.1f %% of those who hammer were served, %.1f %% of those who wait", sc.Name, m.Hammering, m.Waiting)
		}
	}
}

func TestFloodCollectsNothing(t *testing.T) {
	t.Parallel()
	m := measure(t, Setup{Scenario: Healthy, Lag: 15, Return: .8, Flood: map[int]float64{2: 5}})
	if m.Critical < 99.9 || m.Standard < 99.5 {
		t.Errorf("a flood of bulk work cost critical %.1f %% and standard %.1f %%", 100-m.Critical, 100-m.Standard)
	}
	if m.Promised > 5 {
		t.Errorf("%.1f %% of the flood was promised something", m.Promised)
	}
}

// Property 9: no signal never reads as healthy.
func TestLostSignal(t *testing.T) {
	t.Parallel()
	lost := [2]float64{600, 1200}
	for _, c := range []struct {
		scenario Scenario
		loss     shedding.Loss
		want     want
		over     float64
	}{
		{Overload, shedding.Hold, want{94.5, 97, 100, 6}, 0},
		{Overload, shedding.Cap, want{94, 99.9, 60, 0}, 0},
		{Overload, shedding.Closed, want{65, 63, 60, 12}, 0},
		{Halved, shedding.Hold, want{85, 99, 90, 6}, 0},
		{Halved, shedding.Cap, want{91.5, 96, 137, 6}, 90},
		{Rising, shedding.Hold, want{99.5, 99.9, 5, 0}, 0},
	} {
		m := measure(t, Setup{Scenario: c.scenario, Lag: 15, OnLoss: c.loss, Lost: lost})
		c.want.check(t, m)
		if m.OverLimit > c.over {
			t.Errorf("%s, %v: %.0f s over the limit, want at most %.0f", c.scenario.Name, c.loss, m.OverLimit, c.over)
		}
	}
}

func TestStuckHeadSteersByDepth(t *testing.T) {
	t.Parallel()
	stuck := false
	s := Setup{Scenario: Healthy, Lag: 15, Depth: true, Stuck: [2]float64{300, 1200}}
	s.Watch = func(_, _ float64, s shedding.State) { stuck = stuck || s.Signals[0].Stuck }
	want{99.9, 99.9, 5, 0}.check(t, measure(t, s))
	if !stuck {
		t.Error("the stuck head was not reported")
	}
}

func TestReplicasThatDoNotKnowOfEachOther(t *testing.T) {
	t.Parallel()
	want{95.5, 99.9, 62, 0}.check(t, measure(t, Setup{Scenario: Overload, Lag: 15, Replicas: 4}))
	want{95.5, 99.9, 66, 0}.check(t, measure(t, Setup{Scenario: Overload, Lag: 60, Replicas: 4}))
	want{94, 98, 84, 4}.check(t, measure(t, Setup{Scenario: Halved, Lag: 15, Replicas: 4, Depth: true}))
}

func TestWorkThatBypassesTheGateway(t *testing.T) {
	t.Parallel()
	want{95.5, 99.9, 70, 0}.check(t, measure(t, Setup{Scenario: Overload, Lag: 15, Bypass: .3, Scale: 3 * small}))
	want{94.5, 97.5, 116, 4}.check(t, measure(t, Setup{Scenario: Halved, Lag: 15, Bypass: .3, Scale: 3 * small}))
	want{94.5, 98, 112, 4}.check(t, measure(t, Setup{Scenario: Halved, Lag: 15, Bypass: .3, Depth: true}))
}

func TestRestartDoesNotOpenTheGates(t *testing.T) {
	t.Parallel()
	for _, depth := range []bool{false, true} {
		want{95.5, 99.9, 60, 2}.check(t, measure(t, Setup{Scenario: Overload, Lag: 15, Restart: 600, Depth: depth}))
	}
}

// Property 6: no class is refused while a lower one is admitted at a higher
// share. And what recovers, recovers without a surge: shares move little from
// step to step while samples come in.
func TestClassesGiveWayInOrder(t *testing.T) {
	t.Parallel()
	for _, sc := range Scenarios() {
		s := Setup{Scenario: sc, Lag: 1, Scale: small, Return: .8, Seed: 1}
		s.Watch = func(now, _ float64, s shedding.State) {
			for i := 1; i < classes; i++ {
				if s.Classes[i].Share > s.Classes[i-1].Share || s.Classes[i].BackShare > s.Classes[i-1].BackShare {
					t.Fatalf("%s at %v s: class %d gets %v, class %d gets %v", sc.Name, now, i, s.Classes[i].Share, i-1, s.Classes[i-1].Share)
				}
				if s.Classes[i].BackShare < s.Classes[i].Share {
					t.Fatalf("%s at %v s: class %d: returners get less than newcomers", sc.Name, now, i)
				}
			}
			for i, c := range s.Classes {
				if c.Share < 1 && c.Reason != []admission.Reason{admission.Shed, admission.Shed, admission.Deferred}[i] {
					t.Fatalf("%s: class %d is refused with %v", sc.Name, i, c.Reason)
				}
			}
		}
		Run(s)
	}
}

// Property 8: recovery has no surge, even if 80 % of the refused come back.
func TestRecoveryHasNoSurge(t *testing.T) {
	t.Parallel()
	var during, after float64
	s := Setup{Scenario: Halved, Lag: 1, Scale: 2 * small, Return: .8, Seed: 1}
	s.Watch = func(now, _ float64, s shedding.State) {
		if now < 900 {
			during = math.Max(during, s.Wait.Or(0))
		} else {
			after = math.Max(after, s.Wait.Or(0))
		}
	}
	r := Run(s)
	if during < 60 || after > during+6 {
		t.Errorf("the wait was up to %.0f s while workers were at half speed, and %.0f s after", during, after)
	}
	if r.OverLimit > 0 {
		t.Errorf("%.0f s over the limit", r.OverLimit)
	}
}

// SLUICE_SIMULATION=full go test -run Report -v -timeout 1h prints the tables
// of docs/shedding.md.
func TestReport(t *testing.T) {
	t.Parallel()
	if !full() {
		t.Skip("SLUICE_SIMULATION=full prints the report")
	}
	t.Log("\n" + Report(3, 0.5))
}
