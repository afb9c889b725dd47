package policytest

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"sluice/admission"
	"sluice/config/value"
	"sluice/rehearse"
)

// judge compares the n-th request of a step with what is expected.
func (r *stepRun) judge(s *Suite, stage *rehearse.Stage, n int, p *rehearse.Performance) {
	e := r.step.Expect
	if e == nil {
		return
	}
	if p.Decision.Verdict != admission.Refuse {
		r.let++
	}
	for _, f := range e.differ(stage, p) {
		i := slices.IndexFunc(r.fields, func(seen Field) bool { return seen.Name == f.Name })
		if i >= 0 {
			r.fields[i].Differ++
			continue
		}
		path := stage.Decider(p)
		f.Line = s.line(r.path + ".expect." + f.Name)
		f.Differ, f.First, f.At, f.DecidedBy = 1, n, seconds(p.At), stage.Where(path)+" "+path
		r.fields = append(r.fields, f)
	}
}

func seconds(d time.Duration) string { return value.Duration(d.Round(time.Millisecond)).String() }

// failure is what is wrong with the step; nil if nothing is.
func (r *stepRun) failure(s *Suite) *Failure {
	e := r.step.Expect
	if e == nil {
		return nil
	}
	n := r.step.Repeat
	if e.Admitted != nil && !e.Admitted.holds(r.let, n) {
		r.fields = append(r.fields, Field{
			Name: "admitted", Line: s.line(r.path + ".expect.admitted"), Want: e.Admitted.String(),
			Got: fmt.Sprintf("%.1f%% (%d of %d)", float64(r.let)/float64(n)*100, r.let, n),
		})
	}
	if len(r.fields) == 0 {
		return nil
	}
	q := &r.step.Request
	what := string(q.Method) + " " + q.Path
	if q.Tenant != "" {
		what += " of " + q.Tenant
	}
	return &Failure{
		File: s.File, Line: s.line(r.path + ".expect"), Step: r.index + 1, What: what, Requests: n, Fields: r.fields,
	}
}

// differ lists what is not as expected of one request, without lines.
func (e *Expect) differ(stage *rehearse.Stage, p *rehearse.Performance) (fields []Field) {
	compare := func(name, want, got string) {
		if want != "" && want != got {
			fields = append(fields, Field{Name: name, Want: want, Got: got})
		}
	}
	r, d := p.Request, &p.Decision
	compare("verdict", string(e.Verdict), d.Verdict.String())
	compare("route", e.Route, rehearse.RouteName(r.Route))
	compare("class", e.Class, stage.ClassName(r.Class))
	compare("rule", e.Rule, orNone(r.Rule))
	compare("tenant", e.Tenant, r.Tenant)
	compare("shadow", string(e.Shadow), d.Shadow.String())
	compare("key", string(e.Key), orNone(d.KeyStatus))
	if e.Admitted != nil && d.Verdict != admission.Refuse {
		return fields // the rest is about those that do not get in
	}
	compare("reason", string(e.Reason), d.Reason.String())
	if e.Status != 0 {
		compare("status", strconv.Itoa(e.Status), strconv.Itoa(p.Status))
	}
	if want := e.RetryAfter; want != nil {
		wait, told := p.RetryAfter()
		switch {
		case !told:
			compare("retry_after", want.String(), "none")
		case wait < time.Duration(want.Min) || wait > time.Duration(want.Max):
			compare("retry_after", want.String(), value.Duration(wait).String())
		}
	}
	return fields
}

func (r RetryAfter) String() string {
	if r.Max >= value.Duration(longest) {
		return "at least " + r.Min.String()
	}
	return r.Min.String() + " to " + r.Max.String()
}

// longest is the bound where none is given.
const longest = 8760 * time.Hour

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
