package report

import (
	"fmt"
	"sort"
	"strings"

	"sluice/bench/result"
)

// story answers the three questions of somebody who has not read the scenario:
// what was protected, who was refused, and what it cost.
type story struct{ Parts []part }

// part of the story: one big figure, what it is, and sentences.
type part struct {
	Title, Big, Of string
	Text           []string
}

func tell(r *result.Result) story {
	return story{[]part{protected(r), refused(r), cost(r)}}
}

func protected(r *result.Result) part {
	t := &r.Total
	p := part{Title: "What was protected", Big: "–", Of: "nothing was accepted"}
	if t.Accepted > 0 {
		p.Big, p.Of = percent(float64(t.InTime)/float64(t.Accepted)), "of accepted work was done in time"
	}
	if len(r.Classes) > 1 {
		c := r.Classes[0]
		p.Text = append(p.Text, fmt.Sprintf("Of %s, the class that matters most, %s of %s requests were let in.", c.Name, percent(c.AdmittedShare), number(c.Offered)))
	} else {
		p.Text = append(p.Text, fmt.Sprintf("%s of %s requests were let in.", percent(t.AdmittedShare), number(t.Offered)))
	}
	age := 0.0
	for _, s := range r.Stages {
		age = max(age, s.QueueAgeMax)
	}
	if age > 0 {
		p.Text = append(p.Text, fmt.Sprintf("The oldest work in the queue waited %s.", seconds(age)))
	} else {
		p.Text = append(p.Text, "No work ever waited in the queue.")
	}
	switch n := len(r.Inversions); {
	case n > 0:
		i := r.Inversions[0]
		p.Text = append(p.Text, fmt.Sprintf("In %d seconds a class was refused for lack of capacity more often than a less important one, first in second %d: %s of %s against %s of %s.",
			n, i.Second, percent(i.HigherShare), i.Higher, percent(i.LowerShare), i.Lower))
	case len(r.Classes) > 1 && result.CapacityRefusals(t) > 0:
		p.Text = append(p.Text, "In no second was a class refused for lack of capacity more often than a less important one.")
	}
	return p
}

func refused(r *result.Result) part {
	t := &r.Total
	p := part{Title: "Who was refused", Big: percent(t.RefusedShare), Of: "of requests were refused"}
	if t.Endings["refused"] == 0 {
		p.Text = append(p.Text, "Nobody was refused.")
	}
	for i := len(r.Classes) - 1; i >= 0; i-- {
		c := &r.Classes[i]
		if c.Endings["refused"] == 0 {
			continue
		}
		p.Text = append(p.Text, fmt.Sprintf("%s: %s of %s requests (%s).", c.Name, percent(c.RefusedShare), number(c.Offered), reasonsOf(c)))
	}
	if t.Obeyed > 0 {
		p.Text = append(p.Text, fmt.Sprintf("Of %s returns at the time that Retry-After gave, %s were let in (%s).", number(t.Obeyed), number(t.Kept), percent(float64(t.Kept)/float64(t.Obeyed))))
	}
	if n := t.Endings["failed"] + t.Endings["timed_out"] + t.Endings["broken"]; n > 0 {
		p.Text = append(p.Text, fmt.Sprintf("%s requests failed: %s answered with an error, %s timed out, %s lost their connection.",
			number(n), number(t.Endings["failed"]), number(t.Endings["timed_out"]), number(t.Endings["broken"])))
	}
	return p
}

// reasonsOf lists the reasons of refusals, commonest first.
func reasonsOf(n *result.Numbers) string {
	var names []string
	for k := range n.Reasons {
		if !strings.HasPrefix(k, "origin_") || k == "origin_full" {
			names = append(names, k)
		}
	}
	sort.Slice(names, func(i, j int) bool { return n.Reasons[names[i]] > n.Reasons[names[j]] })
	for i, k := range names {
		names[i] = k + " " + number(n.Reasons[k])
	}
	return strings.Join(names, ", ")
}

func cost(r *result.Result) part {
	t := &r.Total
	p := part{Title: "What it cost", Big: maybe(t.Response.P99), Of: "at p99 to admit a request"}
	if t.Response.P99 == nil {
		p.Big, p.Of = seconds(t.Response.Max), "at most to admit a request"
	}
	if t.Response.Count == 0 {
		p.Big, p.Of = "–", "nothing was admitted"
	}
	if t.Response.P50 != nil {
		p.Text = append(p.Text, fmt.Sprintf("Half of the admitted requests were answered within %s, the origin's own time included.", seconds(*t.Response.P50)))
	}
	if t.Refusal.P50 != nil {
		text := fmt.Sprintf("A refusal took %s at the median", seconds(*t.Refusal.P50))
		if t.Refusal.P99 != nil {
			text += fmt.Sprintf(", %s at p99", seconds(*t.Refusal.P99))
		}
		p.Text = append(p.Text, text+".")
	}
	switch {
	case r.Target.CPUSeconds > 0:
		p.Text = append(p.Text, fmt.Sprintf("The gateway used %.0f µs of CPU a request and at most %d MiB of memory.", r.Target.CPUPerRequest*1e6, r.Target.PeakMemory>>20))
	case r.Target.Kind == "origin":
		p.Text = append(p.Text, "The load went straight to the origin: no gateway stood in front of it.")
	}
	return p
}
