package scenario

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"sluice/bench/load"
	"sluice/config/strict"
)

// check adds what the tags cannot say.
func (s *Scenario) check(d *strict.Document) {
	s.checkTarget(d)
	for path, dist := range map[string]*Duration{"origin.answer": s.Origin.Answer, "origin.work": s.Origin.Work} {
		if dist == nil || d.FailedWithin(path) {
			continue
		}
		if err := dist.Distribution().Check(); err != nil {
			d.Problem(path, "%s", strings.TrimPrefix(err.Error(), "dist: "))
		}
	}
	seen := map[Name]int{}
	for i, c := range s.Classes {
		at := strict.Index("classes", i)
		if first, twice := seen[c.Name]; twice && c.Name != "" {
			d.Problem(strict.Key(at, "name"), "the class %s stands here twice, first as classes[%d]; rename one", c.Name, first)
		}
		seen[c.Name] = i
		if c.Path != "" && c.Path[0] != '/' {
			d.Problem(strict.Key(at, "path"), "%s does not start with a slash; write /%s", d.Written(strict.Key(at, "path")), c.Path)
		}
		if k := c.Keys; k != nil && k.Repeat+k.Conflict > 100 {
			d.Problem(strict.Key(at, "keys"), "repeat and conflict are shares of all requests and add up to at most 100%%, not %v%%", float64(k.Repeat+k.Conflict))
		}
	}
	seen = map[Name]int{}
	for i, st := range s.Stages {
		at := strict.Index("stages", i)
		if first, twice := seen[st.Name]; twice && st.Name != "" {
			d.Problem(strict.Key(at, "name"), "the stage %s stands here twice, first as stages[%d]; rename one", st.Name, first)
		}
		seen[st.Name] = i
		if time.Duration(st.For)%time.Second != 0 {
			d.Problem(strict.Key(at, "for"), "%v is not a whole number of seconds, which is what figures are kept by; write %v", st.For, (time.Duration(st.For) + time.Second - 1).Truncate(time.Second))
		}
		if (st.To != nil) != (st.Kind == "ramp") && st.Kind != "" {
			d.Problem(at, "only a ramp, and every ramp, says which rate it goes to; write kind: ramp together with to: %v", st.Rate)
		}
	}
	s.checkEvents(d)
	for i, t := range s.Thresholds {
		s.checkThreshold(d, strict.Index("thresholds", i), t)
	}
}

func (s *Scenario) checkTarget(d *strict.Document) {
	if s.Target.Config != "" && s.Target.URL != "" {
		d.Problem("target.url", "config and url exclude each other: the bench starts a gateway, or uses one that runs; keep one of them")
	}
	if s.Target.Config != "" {
		if _, err := os.Stat(d.Relative(s.Target.Config)); err != nil {
			d.Problem("target.config", "%v", err)
		}
	}
	if s.Target.Redis && s.Target.Config == "" {
		d.Problem("target.redis", "Redis is started for a gateway that the bench starts; write target.config")
	}
	if s.Origin.RedisStream != nil && !s.Target.Redis {
		d.Problem("origin.redis_stream", "there is no Redis in this scenario; write target.redis: true")
	}
	for path, u := range map[string]string{"target.url": s.Target.URL, "target.admin": s.Target.Admin} {
		if u == "" {
			continue
		}
		if err := load.CheckTarget(u, true); err != nil {
			d.Problem(path, "%s", strings.TrimPrefix(err.Error(), "load: target "))
		}
	}
}

func (s *Scenario) checkEvents(d *strict.Document) {
	for i, e := range s.Events {
		at := strict.Index("events", i)
		if len(s.Stages) > 0 && !d.FailedWithin("stages") && time.Duration(e.At) >= s.Length() {
			d.Problem(strict.Key(at, "at"), "%v is after the last stage, which ends at %v", e.At, s.Length())
		}
		if e.Gateway != nil {
			if s.Target.Config == "" {
				d.Problem(strict.Key(at, "gateway"), "only a gateway that the bench has started can be reloaded or restarted; write target.config")
			}
			if e.Gateway.Reload != "" {
				if _, err := os.Stat(d.Relative(e.Gateway.Reload)); err != nil {
					d.Problem(strict.Key(at, "gateway.reload"), "%v", err)
				}
			}
		}
		if e.Redis != nil && !s.Target.Redis {
			d.Problem(strict.Key(at, "redis"), "there is no Redis in this scenario; write target.redis: true")
		}
		if o := e.Origin; o != nil && o.Errors+o.Resets+o.Lost > 100 {
			d.Problem(strict.Key(at, "origin"), "errors, resets and lost are shares of all requests and add up to at most 100%%, not %v%%", float64(o.Errors+o.Resets+o.Lost))
		}
	}
}

func (s *Scenario) checkThreshold(d *strict.Document, at string, t Threshold) {
	if (t.AtLeast == "") == (t.AtMost == "") && !d.FailedWithin(at) {
		d.Problem(at, "a threshold has one bound; write at_least or at_most")
	}
	unit := t.Metric.Unit()
	for key, text := range map[string]string{"at_least": t.AtLeast, "at_most": t.AtMost} {
		if text == "" || t.Metric == "" {
			continue
		}
		if _, err := unit.Bound(text); err != nil {
			d.Problem(strict.Key(at, key), "%v", err)
		}
	}
	for _, m := range metrics {
		if m.name != t.Metric {
			continue
		}
		if t.Class != "" && !m.class {
			d.Problem(strict.Key(at, "class"), "%s is a figure of all classes together; leave class out", m.name)
		}
		if t.Stage != "" && !m.stage {
			d.Problem(strict.Key(at, "stage"), "%s is a figure of the whole run; leave stage out", m.name)
		}
	}
	if t.Class != "" && s.ClassIndex(t.Class) < 0 && !d.FailedWithin("classes") {
		d.Problem(strict.Key(at, "class"), "there is no class %s; the classes are %s", t.Class, names(s.Classes, func(c Class) Name { return c.Name }))
	}
	i := s.StageIndex(t.Stage)
	switch {
	case t.Stage != "" && i < 0 && !d.FailedWithin("stages"):
		d.Problem(strict.Key(at, "stage"), "there is no stage %s; the stages are %s", t.Stage, names(s.Stages, func(s Stage) Name { return s.Name }))
	case t.Metric.Growth():
		j := s.StageIndex(t.Since)
		switch {
		case d.FailedWithin("stages"):
		case t.Stage == "" || t.Since == "":
			d.Problem(at, "%s holds one stage against an earlier one; name them with stage and since", t.Metric)
		case j < 0:
			d.Problem(strict.Key(at, "since"), "there is no stage %s; the stages are %s", t.Since, names(s.Stages, func(s Stage) Name { return s.Name }))
		case j >= i:
			d.Problem(strict.Key(at, "since"), "the stage %s is not before %s", t.Since, t.Stage)
		}
	case t.Since != "":
		d.Problem(strict.Key(at, "since"), "%s is no growth; leave since out", t.Metric)
	case t.Metric == "recovery" && (i < 0 || s.Stages[i].Kind != Recover):
		d.Problem(at, "recovery is a figure of a stage of kind recover; name one with stage")
	}
}

// Watches reports whether a threshold is about what the gateway holds.
func (s *Scenario) Watches() bool {
	return slices.ContainsFunc(s.Thresholds, func(t Threshold) bool { return t.Metric.Held() })
}

func names[T any](all []T, name func(T) Name) string {
	var s []string
	for _, x := range all {
		s = append(s, string(name(x)))
	}
	return strings.Join(s, ", ")
}

// What says in words what happens.
func (e *Event) What() string {
	var w []string
	add := func(format string, args ...any) { w = append(w, fmt.Sprintf(format, args...)) }
	switch o := e.Origin; {
	case o != nil:
		if o.Pause {
			add("workers stop")
		}
		if o.Workers != nil {
			add("%d workers", *o.Workers)
		}
		if o.Poison > 0 {
			add("%d stuck at the head", o.Poison)
		}
		if o.Latency > 0 {
			add("answers %v later", o.Latency)
		}
		if o.Errors > 0 {
			add("%v answered 503", o.Errors)
		}
		if o.Resets > 0 {
			add("%v of connections reset", o.Resets)
		}
		if o.Lost > 0 {
			add("%v of answers lost", o.Lost)
		}
		if o.Stall {
			add("no answers")
		}
		return "origin: " + strings.Join(w, ", ")
	case e.Redis != nil:
		r := e.Redis
		if r.Down {
			add("down")
		}
		if r.Stall {
			add("no replies")
		}
		if r.Latency > 0 {
			add("replies %v later", r.Latency)
		}
		if r.Lose > 0 {
			add("%d replies lost", r.Lose)
		}
		return "Redis: " + strings.Join(w, ", ")
	case e.Signal != "":
		return "signal " + string(e.Signal)
	case e.Gateway != nil && e.Gateway.Reload != "":
		return "gateway reloads"
	case e.Gateway != nil && e.Gateway.Kill:
		return "gateway killed"
	}
	return "gateway restarts"
}
