package simulation

import (
	"fmt"
	"slices"
	"strings"

	"sluice/shedding"
)

// Score is what a set of runs with different seeds came to: means, but for the
// ages, of which the worst counts.
type Score struct {
	Goodput            float64 // per cent of the ideal
	Critical, Standard float64 // per cent of the class done in time
	Bulk               float64
	MaxAge, OverLimit  float64 // seconds
	Flips              float64
	Peak               float64 // offered per second
	Attempts           float64
	Back, Kept         float64 // per cent: of all returners, and of those with a promise
	Promised           float64 // per cent of the refused
	RetryMedian        float64 // seconds
	Waiting, Hammering float64 // per cent of the least important class served
}

// Measure runs s with seeds 1 to n.
func Measure(s Setup, n int) Score {
	var sum Score
	var told []float64
	for i := range n {
		s.Seed = uint64(i + 1)
		r := Run(s)
		f := float64(n)
		sum.Goodput += percent(r.GoodInTime, r.Ideal) / f
		sum.Critical += percent(r.Good[0], r.Offered[0]) / f
		sum.Standard += percent(r.Good[1], r.Offered[1]) / f
		sum.Bulk += percent(r.Good[2], r.Offered[2]) / f
		sum.MaxAge = max(sum.MaxAge, r.MaxAge)
		sum.OverLimit += r.OverLimit / f
		sum.Flips += float64(r.Flips) / f
		sum.Peak = max(sum.Peak, r.Peak)
		sum.Attempts += r.Attempts / (r.Offered[0] + r.Offered[1] + r.Offered[2]) / f
		sum.Back += percent(r.Back, r.Returns) / f
		sum.Kept += percent(r.Kept, r.Redeemed) / f
		sum.Promised += percent(r.PromisedOf, r.RefusedOnce) / f
		sum.Waiting += percent(r.Waiting.Served[classes-1], r.Waiting.Clients[classes-1]) / f
		sum.Hammering += percent(r.Hammering.Served[classes-1], r.Hammering.Clients[classes-1]) / f
		told = append(told, r.RetryAfters...)
	}
	if len(told) > 0 {
		slices.Sort(told)
		sum.RetryMedian = told[len(told)/2]
	}
	return sum
}

func percent(a, b float64) float64 {
	if b == 0 {
		return 100
	}
	return 100 * a / b
}

// Lags are the periods and delays of the signal in the main table.
var Lags = []float64{1, 15, 60}

// Report runs everything with n seeds each at the given scale and writes the
// tables in Markdown.
func Report(n int, scale float64) string {
	var b strings.Builder
	measure := func(s Setup) Score { s.Scale = scale; return Measure(s, n) }

	b.WriteString("### The four scenarios\n\nCells: on-time goodput as % of ideal / critical work done in time, % / oldest age, s / flips.\n\n")
	b.WriteString("| signal | lag | overload | bursts | outage | halved | mean goodput | flips |\n|---|---|---|---|---|---|---|---|\n")
	for _, depth := range []bool{false, true} {
		for _, lag := range Lags {
			name := "age"
			if depth {
				name = "age, depth, completions"
			}
			fmt.Fprintf(&b, "| %s | %.0f s ", name, lag)
			mean, flips := 0.0, 0.0
			for _, sc := range Scenarios() {
				m := measure(Setup{Scenario: sc, Lag: lag, Depth: depth})
				fmt.Fprintf(&b, "| %.1f / %.1f / %.0f / %.0f ", m.Goodput, m.Critical, m.MaxAge, m.Flips)
				mean += m.Goodput / 4
				flips += m.Flips
			}
			fmt.Fprintf(&b, "| %.1f | %.0f |\n", mean, flips)
		}
	}

	b.WriteString("\n### Retry-After, and the promise kept\n\n80 % of the refused come back when told.\n\n")
	b.WriteString("| scenario | lag | known again by | oldest age | critical | standard | bulk | peak offered/s | attempts | told (median) | promised | promises kept | all returners admitted |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, lag := range []float64{15, 60} {
		for _, sc := range append(Scenarios(), Siege) {
			for _, v := range []struct {
				name string
				s    Setup
			}{{"nothing", Setup{Forget: true}}, {"key", Setup{}}, {"ticket, 4 replicas", Setup{Tickets: true, Replicas: 4}}} {
				v.s.Scenario, v.s.Lag, v.s.Return = sc, lag, .8
				m := measure(v.s)
				promised, kept := fmt.Sprintf("%.0f %%", m.Promised), fmt.Sprintf("%.1f %%", m.Kept)
				if v.s.Forget {
					promised, kept = "–", "–"
				}
				fmt.Fprintf(&b, "| %s | %.0f s | %s | %.0f s | %.1f %% | %.1f %% | %.1f %% | %.0f | %.2f | %.0f s | %s | %s | %.1f %% |\n", sc.Name, lag, v.name, m.MaxAge, m.Critical, m.Standard, m.Bulk, m.Peak, m.Attempts, m.RetryMedian, promised, kept, m.Back)
			}
		}
	}

	b.WriteString("\n### Hammering and flooding\n\nA fifth of the tenants send again every second instead of waiting; the others wait as told. Share of bulk requests served in the end:\n\n")
	b.WriteString("| scenario | who waits | who hammers |\n|---|---|---|\n")
	for _, sc := range []Scenario{Overload, Halved} {
		m := measure(Setup{Scenario: Calm(sc), Lag: 15, Return: 1, Hammer: .2})
		fmt.Fprintf(&b, "| %s | %.1f %% | %.1f %% |\n", sc.Name, m.Waiting, m.Hammering)
	}
	b.WriteString("\nOne tenant floods a healthy queue with five times what all others ask of that class:\n\n| flooded class | critical | standard | refusals promised anything | oldest age |\n|---|---|---|---|---|\n")
	for c, name := range map[int]string{2: "bulk"} {
		m := measure(Setup{Scenario: Healthy, Lag: 15, Return: .8, Flood: map[int]float64{c: 5}})
		fmt.Fprintf(&b, "| %s | %.1f %% | %.1f %% | %.1f %% | %.0f s |\n", name, m.Critical, m.Standard, m.Promised, m.MaxAge)
	}

	b.WriteString("\n### The signal is lost from 600 s to 1200 s\n\nLag 15 s. Cells: goodput, % of ideal / critical, % / oldest age, s / seconds over the limit.\n\n| on_loss | overload | halved | healthy, demand rising |\n|---|---|---|---|\n")
	for _, loss := range []shedding.Loss{shedding.Hold, shedding.Cap, shedding.Open, shedding.Closed} {
		fmt.Fprintf(&b, "| %s ", loss)
		for _, sc := range []Scenario{Overload, Halved, Rising} {
			m := measure(Setup{Scenario: sc, Lag: 15, OnLoss: loss, Lost: [2]float64{600, 1200}})
			fmt.Fprintf(&b, "| %.1f / %.1f / %.0f / %.0f ", m.Goodput, m.Critical, m.MaxAge, m.OverLimit)
		}
		b.WriteString("|\n")
	}

	b.WriteString("\n### What else goes wrong\n\nLag 15 s. Cells: goodput, % of ideal / critical, % / oldest age, s / flips.\n\n| | signal | overload | bursts | outage | halved |\n|---|---|---|---|---|---|\n")
	for _, v := range []struct {
		name string
		s    Setup
	}{{"four replicas", Setup{Replicas: 4}}, {"30 % bypass the gateway", Setup{Bypass: .3}}, {"restart at 600 s", Setup{Restart: 600}}} {
		for _, depth := range []bool{false, true} {
			name := "age"
			if depth {
				name = "age, depth, completions"
			}
			fmt.Fprintf(&b, "| %s | %s ", v.name, name)
			for _, sc := range Scenarios() {
				v.s.Scenario, v.s.Lag, v.s.Depth = sc, 15, depth
				m := measure(v.s)
				fmt.Fprintf(&b, "| %.1f / %.1f / %.0f / %.0f ", m.Goodput, m.Critical, m.MaxAge, m.Flips)
			}
			b.WriteString("|\n")
		}
	}
	b.WriteString("\nOne piece of work stuck at the head from 300 s to 1200 s, workers healthy: ")
	for _, depth := range []bool{false, true} {
		m := measure(Setup{Scenario: Healthy, Lag: 15, Depth: depth, Stuck: [2]float64{300, 1200}})
		if depth {
			fmt.Fprintf(&b, " with depth and completions %.1f %%.\n", m.Goodput)
		} else {
			fmt.Fprintf(&b, "goodput by age alone %.1f %%,", m.Goodput)
		}
	}
	return b.String()
}

// Calm is s with a quiet half hour after it, so that all who were refused are
// back before it ends.
func Calm(s Scenario) Scenario {
	length, offered := s.Length, s.Offered
	s.Offered = func(t float64) float64 {
		if t >= length {
			return 200
		}
		return offered(t)
	}
	s.Length += 1800
	return s
}
