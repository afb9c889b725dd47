package result

import (
	"maps"
	"slices"
	"sort"

	"sluice/bench/scenario"
)

// judge holds one threshold against the figures.
func (r *Result) judge(s *scenario.Scenario, t scenario.Threshold) Threshold {
	unit := t.Metric.Unit()
	bound, atLeast := t.AtMost, false
	if t.AtLeast != "" {
		bound, atLeast = t.AtLeast, true
	}
	out := Threshold{What: describeThreshold(t), Bound: "at most " + bound, Invariant: t.Metric.Invariant()}
	if atLeast {
		out.Bound = "at least " + bound
	}
	limit, err := unit.Bound(bound)
	if err != nil { // the scenario's check has seen to it
		out.Result, out.Why = "unknown", err.Error()
		return out
	}
	v, why := r.measure(s, t)
	if r.Interrupted > 0 {
		out.Result, out.Why, out.Value = "not_judged", "the run was interrupted", "–"
		return out
	}
	if !r.Generator.Timed && slices.Contains([]scenario.Metric{"response_p50", "response_p99", "refusal_p99", "response_p50_growth"}, t.Metric) {
		out.Result, out.Why, out.Value = "not_judged", "times are not judged in this run", "–"
		if v != nil {
			out.Value = unit.Format(*v)
		}
		return out
	}
	if v == nil && t.Metric == "recovery" {
		out.Result, out.Value, out.Why = "missed", "never", why
		return out
	}
	if v == nil {
		out.Result, out.Why, out.Value = "unknown", why, "–"
		return out
	}
	out.Value = unit.Format(*v)
	switch {
	case atLeast && *v >= limit, !atLeast && *v <= limit:
		out.Result = "met"
	default:
		out.Result = "missed"
	}
	return out
}

func describeThreshold(t scenario.Threshold) string {
	w := string(t.Metric)
	if t.Class != "" {
		w += ", class " + string(t.Class)
	}
	if t.Stage != "" {
		w += ", stage " + string(t.Stage)
	}
	if t.Since != "" {
		w += " since " + string(t.Since)
	}
	return w
}

// measure finds the figure that a threshold is about; nil, and why, where there
// is none.
func (r *Result) measure(s *scenario.Scenario, t scenario.Threshold) (*float64, string) {
	n := &r.Total
	var stage *Stage
	if t.Stage != "" {
		stage = &r.Stages[s.StageIndex(t.Stage)]
		n = &stage.Numbers
	}
	if t.Class != "" {
		i := s.ClassIndex(t.Class)
		n = &r.Classes[i]
		if stage != nil {
			n = &stage.Classes[i]
		}
	}
	val := func(v float64) (*float64, string) { return &v, "" }
	share := func(part, whole int64, none string) (*float64, string) {
		if whole == 0 {
			return nil, none
		}
		return val(float64(part) / float64(whole))
	}
	const few = "fewer than ten samples lie beyond it"
	switch t.Metric {
	case "admitted_share", "refused_share", "failed_share":
		if n.Offered == 0 {
			return nil, "nothing was offered"
		}
		return val(map[scenario.Metric]float64{"admitted_share": n.AdmittedShare, "refused_share": n.RefusedShare, "failed_share": n.FailedShare}[t.Metric])
	case "done_in_time_share":
		return share(n.InTime, n.Accepted, "nothing was accepted")
	case "goodput":
		return val(n.Goodput)
	case "response_p50":
		return n.Response.P50, few
	case "response_p99":
		return n.Response.P99, few
	case "refusal_p99":
		return n.Refusal.P99, few
	case "duplicates":
		return val(float64(n.Duplicates))
	case "lost":
		return val(float64(n.Lost))
	case "promises_kept_share":
		return share(n.Kept, n.Obeyed, "nobody came back")
	case "recovery":
		return stage.Recovery, "the stage ended before everything was admitted"
	case "queue_age_max":
		if stage != nil {
			return val(stage.QueueAgeMax)
		}
		age := 0.0
		for _, st := range r.Stages {
			age = max(age, st.QueueAgeMax)
		}
		return val(age)
	case "memory_growth", "heap_growth", "goroutines_growth", "descriptors_growth":
		return r.growth(t.Metric, &r.Stages[s.StageIndex(t.Since)], stage)
	case "response_p50_growth":
		before := &r.Stages[s.StageIndex(t.Since)].Numbers
		if t.Class != "" {
			before = &r.Stages[s.StageIndex(t.Since)].Classes[s.ClassIndex(t.Class)]
		}
		if before.Response.P50 == nil || n.Response.P50 == nil {
			return nil, few
		}
		return val(*n.Response.P50 / *before.Response.P50 - 1)
	case "inversions":
		seconds := map[int]bool{}
		for _, i := range r.Inversions {
			if t.Stage == "" || i.Stage == string(t.Stage) {
				seconds[i.Second] = true
			}
		}
		return val(float64(len(seconds)))
	case "light_admitted_share":
		return r.light(string(t.Class))
	}
	return nil, "no such metric"
}

// light is the share let in of all tenants but the heaviest.
func (r *Result) light(class string) (*float64, string) {
	byName := map[string]*Tenant{}
	for _, t := range r.Tenants {
		if class != "" && t.Class != class {
			continue
		}
		if byName[t.Name] == nil {
			byName[t.Name] = &Tenant{Name: t.Name}
		}
		byName[t.Name].Offered += t.Offered
		byName[t.Name].LetIn += t.LetIn
	}
	all := slices.Collect(maps.Values(byName))
	if len(all) < 2 {
		return nil, "there is only one tenant"
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Offered > all[j].Offered })
	var offered, letIn int64
	for _, t := range all[1:] {
		offered += t.Offered
		letIn += t.LetIn
	}
	v := float64(letIn) / float64(offered)
	return &v, ""
}
