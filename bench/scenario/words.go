package scenario

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"sluice/bench/load"
	"sluice/config/value"
)

// Name is a short name: lower-case words joined by hyphens or underscores.
type Name string

const namePattern = `^[a-z0-9]+([-_][a-z0-9]+)*$`

var nameSyntax = regexp.MustCompile(namePattern)

// UnmarshalText reads a name.
func (n *Name) UnmarshalText(text []byte) error {
	if len(text) > 64 || !nameSyntax.Match(text) {
		return fmt.Errorf("%q is not a name; write lower-case words joined by hyphens, such as launch-burst", text)
	}
	*n = Name(text)
	return nil
}

// Grammar describes a name.
func (Name) Grammar() (what, pattern string) {
	return "a name such as launch-burst", namePattern
}

// Arrivals says how requests are spread over time.
type Arrivals string

// The ways of spreading.
const (
	ArrivalsPoisson Arrivals = "poisson"
	ArrivalsUniform Arrivals = "uniform"
)

// Values lists the words.
func (Arrivals) Values() []string { return []string{"poisson", "uniform"} }

// OnRefusal is what a client does when it is refused.
type OnRefusal string

// Values lists the words.
func (OnRefusal) Values() []string { return []string{"give_up", "obey", "ignore"} }

func (o OnRefusal) load() load.OnRefusal {
	switch o {
	case "obey":
		return load.Obey
	case "ignore":
		return load.Ignore
	}
	return load.GiveUp
}

// StageKind is what a stage is for.
type StageKind string

// The kinds that the statistics treat in their own ways.
const (
	WarmUp  StageKind = "warmup"
	Recover StageKind = "recover"
)

// Values lists the words.
func (StageKind) Values() []string {
	return []string{"warmup", "hold", "ramp", "spike", "outage", "recover"}
}

// SignalEvent is what happens to the queue's signal.
type SignalEvent string

// Values lists the words.
func (SignalEvent) Values() []string { return []string{"frozen", "absent", "mute", "zero"} }

// Metric is a figure that a threshold may bound.
type Metric string

// Unit of a metric.
type Unit uint8

// The units.
const (
	UnitCount Unit = iota
	UnitShare
	UnitRate
	UnitDuration
)

// metrics, their units and meanings. What each one is per class or stage is up
// to package result.
var metrics = []struct {
	name    Metric
	unit    Unit
	class   bool // may be asked for one class
	stage   bool // may be asked for one stage
	meaning string
}{
	{"admitted_share", UnitShare, true, true, "requests admitted or replayed, of those offered"},
	{"refused_share", UnitShare, true, true, "requests refused, of those offered"},
	{"failed_share", UnitShare, true, true, "requests that failed, timed out or broke, of those offered"},
	{"done_in_time_share", UnitShare, true, true, "effects done within their deadline, of those that a client was told are accepted"},
	{"goodput", UnitRate, true, true, "distinct effects done within their deadline, a second"},
	{"response_p50", UnitDuration, true, true, "median response time of admitted requests"},
	{"response_p99", UnitDuration, true, true, "99th percentile of the response time of admitted requests"},
	{"refusal_p99", UnitDuration, true, true, "99th percentile of the response time of refused requests"},
	{"queue_age_max", UnitDuration, false, true, "oldest age that the queue reached"},
	{"duplicates", UnitCount, true, false, "effects under a key recorded by the origin more than once"},
	{"lost", UnitCount, true, false, "effects that a client was told are accepted and that the origin never recorded"},
	{"inversions", UnitCount, false, true, "seconds in which a class was refused more often than a less important one"},
	{"promises_kept_share", UnitShare, true, false, "clients let in when they came back as told by Retry-After"},
	{"light_admitted_share", UnitShare, true, false, "requests admitted or replayed, of those of all tenants but the heaviest"},
	{"memory_growth", UnitShare, false, true, "memory resident at the gateway, against the stage since (medians of their last thirds)"},
	{"heap_growth", UnitShare, false, true, "the gateway's live heap, against the stage since (least of their last thirds)"},
	{"goroutines_growth", UnitShare, false, true, "the gateway's goroutines, against the stage since (medians of their last thirds)"},
	{"descriptors_growth", UnitShare, false, true, "files and connections that the gateway holds open, against the stage since (medians of their last thirds)"},
	{"response_p50_growth", UnitShare, true, true, "median response time, against the stage since"},
	{"recovery", UnitDuration, false, true, "from the start of a recover stage until everything offered is admitted again"},
}

// Values lists the words.
func (Metric) Values() []string {
	all := make([]string, len(metrics))
	for i, m := range metrics {
		all[i] = string(m.name)
	}
	return all
}

// Invariant reports whether the metric is about what a gateway promises under any
// load: nothing is lost, and nothing done twice.
func (m Metric) Invariant() bool { return m == "lost" || m == "duplicates" }

// Growth reports whether the metric holds a stage against an earlier one.
func (m Metric) Growth() bool { return strings.HasSuffix(string(m), "_growth") }

// Held reports whether the metric is about what the gateway holds, which has to
// be watched during the run.
func (m Metric) Held() bool { return m.Growth() && m != "response_p50_growth" }

// Unit in which the metric is bounded.
func (m Metric) Unit() Unit {
	for _, x := range metrics {
		if x.name == m {
			return x.unit
		}
	}
	return UnitCount
}

// Meaning of the metric in words.
func (m Metric) Meaning() string {
	for _, x := range metrics {
		if x.name == m {
			return x.meaning
		}
	}
	return ""
}

// Bound reads a bound in the unit: a count, a share as a part of one, requests a
// second, or seconds.
func (u Unit) Bound(text string) (float64, error) {
	switch u {
	case UnitShare:
		var p value.Percent
		err := p.UnmarshalText([]byte(text))
		return p.Fraction(), err
	case UnitRate:
		var r value.Rate
		err := r.UnmarshalText([]byte(text))
		return float64(r), err
	case UnitDuration:
		var d value.Duration
		err := d.UnmarshalText([]byte(text))
		return time.Duration(d).Seconds(), err
	}
	if text == "none" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%q is not a count; write none, or a number in quotes", text)
	}
	return float64(n), nil
}

// Format writes v in the unit, as it is read.
func (u Unit) Format(v float64) string {
	switch u {
	case UnitShare:
		return strconv.FormatFloat(100*v, 'f', 1, 64) + "%"
	case UnitRate:
		return strconv.FormatFloat(v, 'f', 1, 64) + "/s"
	case UnitDuration:
		return formatSeconds(v)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// formatSeconds writes a time with three digits that count.
func formatSeconds(v float64) string {
	scale, unit := 1.0, "s"
	switch {
	case v == 0:
		return "0s"
	case v < 1e-3:
		return strconv.FormatFloat(v*1e6, 'f', 0, 64) + "µs"
	case v < 1:
		scale, unit = 1e3, "ms"
	case v >= 600:
		return time.Duration(v * float64(time.Second)).Round(time.Second).String()
	}
	v *= scale
	digits := 0
	for x := v; x < 100 && digits < 2; x *= 10 {
		digits++
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	if digits > 0 {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text + unit
}
