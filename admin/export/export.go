// Package export makes what gateways are watched with: a Grafana dashboard and
// Prometheus rules. Both come from the catalogue of metrics, so they can only
// speak of what is emitted, and from two tables, of panels (panels.go) and of
// alerts (alerts.go).
//
// Neither names a class, a queue or a route of anybody's policy. The most
// important class is the one whose sluice_class_rank is 1; an objective is what
// sluice_queue_max_useful_age_seconds says. So what is shipped in deploy/ fits
// every policy, and stays right when it is reloaded.
//
// # Two objectives
//
// Acceptance: of the requests of the most important class that the gateway
// could have let through, so many are not refused for want of capacity. What a
// client did wrong, its own rate included, counts neither way.
//
// Completion: a queue's predicted wait is within its max_useful_age for so much
// of the time.
//
// Each has a budget: what its objective leaves. An alert is raised by the speed
// at which the budget is used up, over a long window, so that it matters, and
// a short one, so that it is still going on. 14.4 times the sustainable speed
// uses up 2 % of thirty days' budget in an hour, 6 times 5 % in six hours, and
// once 10 % in three days. (The Site Reliability Workbook, chapter 5.)
package export

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"sluice/admission"
)

// Options say what is made. The zero value makes what deploy/ ships.
type Options struct {
	// Acceptance and Completion are the objectives, as shares from 0 to 1; 0 is
	// [DefaultAcceptance] and [DefaultCompletion].
	Acceptance, Completion float64
	// Runbooks is where the runbooks are: a URL or path that the name of an
	// alert and ".md" are added to. "" is [DefaultRunbooks].
	Runbooks string
}

// Defaults of [Options].
const (
	DefaultAcceptance = 0.999
	DefaultCompletion = 0.99
	DefaultRunbooks   = "docs/runbooks"
)

// fastest is how many times faster than sustainable the fastest alert's budget
// burns. Above 1-1/fastest an objective leaves room for it.
const fastest = 14.4

// Limits of an objective, as shares.
const (
	LowestObjective  = 0.94
	HighestObjective = 0.99999
)

func (o Options) withDefaults() (Options, error) {
	for _, objective := range []struct {
		name     string
		share    *float64
		fallback float64
	}{{"acceptance", &o.Acceptance, DefaultAcceptance}, {"completion", &o.Completion, DefaultCompletion}} {
		if *objective.share == 0 {
			*objective.share = objective.fallback
		}
		*objective.share = tidy(*objective.share)
		if s := *objective.share; !(s >= LowestObjective && s <= HighestObjective) {
			return o, fmt.Errorf("%s: an objective of %s cannot be watched; give one from %s to %s",
				objective.name, percent(s), percent(LowestObjective), percent(HighestObjective))
		}
	}
	if o.Runbooks == "" {
		o.Runbooks = DefaultRunbooks
	}
	o.Runbooks = strings.TrimRight(o.Runbooks, "/")
	return o, nil
}

// runbook is where the page about an alert is.
func (o Options) runbook(alert string) string { return o.Runbooks + "/" + alert + ".md" }

// tidy takes the dust of binary fractions off a share.
func tidy(share float64) float64 { return math.Round(share*1e9) / 1e9 }

// budget is what an objective leaves.
func budget(objective float64) string {
	return strconv.FormatFloat(tidy(1-objective), 'f', -1, 64)
}

func percent(share float64) string {
	return strconv.FormatFloat(math.Round(share*1e9)/1e7, 'f', -1, 64) + "%"
}

// wantOfCapacity are the reasons for which the gateway refuses what it would
// let through if it, the origin and the queue were well. A drain is not among
// them: it comes before every stop, and the load balancer's turn is then.
var wantOfCapacity = names(admission.Deferred, admission.Shed, admission.OriginFull, admission.SignalLost,
	admission.StoreUnavailable, admission.Internal)

// countable are the reasons of decisions that an objective counts.
var countable = admission.None.String() + "|" + wantOfCapacity

func names(reasons ...admission.Reason) string {
	all := make([]string, len(reasons))
	for i, r := range reasons {
		all[i] = r.String()
	}
	return strings.Join(all, "|")
}
