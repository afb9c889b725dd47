package simulation

import "math"

// Scenario is half an hour of demand and capacity, both per second, for a
// queue whose workers do 400 a second when well.
type Scenario struct {
	Name     string
	Length   float64 // seconds
	Offered  func(t float64) float64
	Capacity func(t float64) float64
}

func between(t, from, to float64) bool { return t >= from && t < to }

func always(v float64) func(float64) float64 { return func(float64) float64 { return v } }

// The scenarios that every controller has to go through.
var (
	Overload = Scenario{"overload", 1800, func(t float64) float64 {
		if between(t, 120, 1320) {
			return 500
		}
		return 300
	}, always(400)}
	Bursts = Scenario{"bursts", 1800, func(t float64) float64 {
		if t >= 120 && math.Mod(t-120, 300) < 60 {
			return 900
		}
		return 300
	}, always(400)}
	Outage = Scenario{"outage", 1800, always(350), func(t float64) float64 {
		if between(t, 300, 480) {
			return 0
		}
		return 400
	}}
	Halved = Scenario{"halved", 1800, always(350), func(t float64) float64 {
		if between(t, 300, 900) {
			return 200
		}
		return 400
	}}
	// Siege is an overload that does not end.
	Siege = Scenario{"siege", 3600, func(t float64) float64 {
		if t > 120 {
			return 500
		}
		return 300
	}, always(400)}
	Healthy = Scenario{"healthy", 1800, always(300), always(400)}
	// Rising is healthy, with more and more to do while nobody can see it.
	Rising = Scenario{"rising", 1800, func(t float64) float64 {
		if t > 700 {
			return 370
		}
		return 300
	}, always(400)}
)

// Scenarios are the four of the main table.
func Scenarios() []Scenario { return []Scenario{Overload, Bursts, Outage, Halved} }
