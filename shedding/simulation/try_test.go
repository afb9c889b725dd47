package simulation

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"sluice/shedding"
)

func show(name string, r Result) {
	slices.Sort(r.RetryAfters)
	q := func(p float64) float64 {
		if len(r.RetryAfters) == 0 {
			return 0
		}
		return r.RetryAfters[int(p*float64(len(r.RetryAfters)-1))]
	}
	tot := func(v [classes]float64) float64 { return v[0] + v[1] + v[2] }
	f := func(f Fate) string {
		return fmt.Sprintf("%.1f/%.1f/%.1f att %.1f %.0fs", 100*f.Served[0]/max(1, f.Clients[0]), 100*f.Served[1]/max(1, f.Clients[1]), 100*f.Served[2]/max(1, f.Clients[2]), f.Attempts/max(1, tot(f.Served)), f.Delay/max(1, tot(f.Served)))
	}
	fmt.Printf("%-34s age %3.0f over %3.0f good/ideal %5.1f good/offered %5.1f crit %5.1f std %5.1f bulk %5.1f flips %d peak %4.0f attempts %.2f back %.1f%% kept %.1f%% promised %.1f%% RA p50 %.0f p99 %.0f | wait %s; hammer %s\n", name, r.MaxAge, r.OverLimit, 100*r.GoodInTime/r.Ideal, 100*tot(r.Good)/tot(r.Offered), 100*r.Good[0]/r.Offered[0], 100*r.Good[1]/r.Offered[1], 100*r.Good[2]/r.Offered[2], r.Flips, r.Peak, r.Attempts/tot(r.Offered), 100*r.Back/max(1, r.Returns), 100*r.Kept/max(1, r.Redeemed), 100*r.PromisedOf/max(1, r.RefusedOnce), q(.5), q(.99), f(r.Waiting), f(r.Hammering))
}

func TestTry(t *testing.T) {
	exp := os.Getenv("EXP")
	const sc = .25
	switch exp {
	case "main":
		for _, depth := range []bool{false, true} {
			for _, lag := range []float64{1, 15, 60} {
				line := fmt.Sprintf("depth=%v lag %2.0f ", depth, lag)
				mean := 0.0
				for _, sc := range Scenarios() {
					r := Run(Setup{Scenario: sc, Lag: lag, Depth: depth, Seed: 1})
					g := 100 * r.GoodInTime / r.Ideal
					mean += g / 4
					line += fmt.Sprintf("| %s age %3.0f good %5.1f crit %5.1f flips %d over %3.0f ", sc.Name, r.MaxAge, g, 100*r.Good[0]/r.Offered[0], r.Flips, r.OverLimit)
				}
				fmt.Println(line, "|", fmt.Sprintf("%.1f", mean))
			}
		}
	case "retry":
		for _, s := range Scenarios() {
			for _, lag := range []float64{15, 60} {
				for _, v := range []struct {
					n string
					s Setup
				}{{"forget", Setup{Forget: true, Return: .8}}, {"key", Setup{Return: .8}}, {"ticket x4", Setup{Return: .8, Tickets: true, Replicas: 4}}, {"hammer 20%", Setup{Return: .8, Hammer: .2}}, {"hammer 20% forget", Setup{Return: .8, Hammer: .2, Forget: true}}} {
					v.s.Scenario, v.s.Lag, v.s.Scale, v.s.Seed = s, lag, sc, 1
					show(fmt.Sprintf("%s lag %.0f %s", s.Name, lag, v.n), Run(v.s))
				}
			}
		}
	case "tune":
		{
			for _, s := range []Scenario{Overload, Bursts, Halved, Siege} {
				show("  "+s.Name, Run(Setup{Scenario: s, Lag: 15, Scale: sc, Seed: 1, Return: .8}))
			}
			for _, s := range []Scenario{Overload, Bursts, Halved} {
				for _, forget := range []bool{false, true} {
					show(fmt.Sprint("  hammer ", s.Name, forget), Run(Setup{Scenario: s, Lag: 15, Scale: sc, Seed: 1, Return: 1, Hammer: .2, Forget: forget}))
				}
			}
			show("  flood2", Run(Setup{Scenario: Healthy, Lag: 15, Scale: sc, Seed: 1, Return: .8, Flood: map[int]float64{2: 5}}))
			show("  flood1", Run(Setup{Scenario: Healthy, Lag: 15, Scale: sc, Seed: 1, Return: .8, Flood: map[int]float64{1: 5}}))
		}
	case "stale":
		for _, s := range []Scenario{Overload, Halved, Rising} {
			for _, pol := range []shedding.Loss{shedding.Hold, shedding.Cap, shedding.Open, shedding.Closed} {
				show(s.Name+" "+pol.String(), Run(Setup{Scenario: s, Lag: 15, Scale: sc, Seed: 1, OnLoss: pol, Lost: [2]float64{600, 1200}}))
			}
		}
	case "poison":
		for _, d := range []bool{false, true} {
			show(fmt.Sprint("stuck depth=", d), Run(Setup{Scenario: Healthy, Lag: 15, Scale: sc, Seed: 1, Depth: d, Stuck: [2]float64{300, 1200}}))
		}
	case "blind":
		for _, s := range Scenarios() {
			for _, d := range []bool{false, true} {
				show(fmt.Sprint(s.Name, " bypass depth=", d), Run(Setup{Scenario: s, Lag: 15, Scale: sc, Seed: 1, Depth: d, Bypass: .3}))
				show(fmt.Sprint(s.Name, " 4 replicas depth=", d), Run(Setup{Scenario: s, Lag: 15, Scale: sc, Seed: 1, Depth: d, Replicas: 4}))
				show(fmt.Sprint(s.Name, " restart depth=", d), Run(Setup{Scenario: s, Lag: 15, Scale: sc, Seed: 1, Depth: d, Restart: 600}))
			}
		}
	case "flood":
		for _, f := range []map[int]float64{nil, {2: 5}, {1: 5}, {0: 10}} {
			for _, forget := range []bool{false, true} {
				show(fmt.Sprint("flood ", f, forget), Run(Setup{Scenario: Healthy, Lag: 15, Scale: sc, Seed: 1, Return: .8, Flood: f, Forget: forget}))
			}
		}
	}
}
