// Package explain tells one decision step by step: what each part of the policy
// saw, what it said, which line of the configuration that stands on, and what
// would have changed it.
//
// The decision itself is made on the stage of package rehearse, by the code of
// the running gateway. What is told besides is read off the gates before they
// are asked.
package explain

import (
	"fmt"
	"time"

	"sluice/admission"
	"sluice/config"
	"sluice/config/value"
	"sluice/rehearse"
	"sluice/rehearse/spec"
)

// Question is what is to be explained. It is written as in policy tests.
type Question struct {
	// What is sent.
	Request spec.Request `yaml:"request" required:"true" example:"{method: POST, path: /v1/orders}" aka:"send"`
	// What the signals of queues read over time; see policy tests.
	Signals map[string][]spec.Reading `yaml:"signals" max:"1000" aka:"signal,queues"`
	// How the origin takes requests, those sent before.
	Origin spec.Origin `yaml:"origin"`
	// How often the same request has been sent just before.
	Already int `yaml:"already" default:"0" min:"0" max:"1000000"`
	// When it is sent. Signals are read from 0s on.
	At value.Duration `yaml:"at" default:"10s" max:"8760h"`
}

// Explanation is a decision, step by step.
type Explanation struct {
	Config  string `json:"config"`
	Hash    string `json:"hash"`
	Request string `json:"request"`
	Steps   []Step `json:"steps"`

	Verdict string `json:"verdict"`
	Reason  string `json:"reason"`
	// Shadow is why a policy in shadow mode would have refused it; "none": none
	// would have.
	Shadow string `json:"shadow"`
	// DecidedBy is the step that decided, and Where its place in the
	// configuration; of a request that nothing refused, its route.
	DecidedBy string `json:"decided_by"`
	Path      string `json:"path"`
	Where     string `json:"where"`
	Wire      Wire   `json:"wire"`
	// Otherwise lists what would have changed the decision, the nearest first.
	Otherwise []string `json:"otherwise"`
	// Recorded is the decision that was made again for this explanation; nil:
	// none was.
	Recorded *Recorded `json:"recorded,omitempty"`
}

// Recorded is a decision that a gateway has made.
type Recorded struct {
	ID         string    `json:"id"`
	Received   time.Time `json:"received"`
	Verdict    string    `json:"verdict"`
	Reason     string    `json:"reason"`
	Status     int       `json:"status"`
	RetryAfter int64     `json:"retry_after,omitempty"` // seconds
	Outcome    string    `json:"outcome"`
	Failure    string    `json:"failure,omitempty"`
	Detail     string    `json:"detail,omitempty"`
	// Saw is what it met, as far as that was recorded.
	Saw []Fact `json:"saw,omitempty"`
	// Differs says why the decision that is explained is another one; "": it is
	// the same.
	Differs string `json:"differs,omitempty"`
}

// Step is one part of the policy that a request meets.
type Step struct {
	Name    string `json:"step"`
	Outcome string `json:"outcome"` // what it found, or passed, refused, shadow
	Path    string `json:"path,omitempty"`
	Where   string `json:"where,omitempty"` // file:line
	Says    string `json:"says"`
	Saw     []Fact `json:"saw,omitempty"`
}

// Fact is something that a step saw.
type Fact struct {
	What  string `json:"what"`
	Value string `json:"value"`
}

// Wire is what the client gets. Of an admitted request that is the origin's
// answer, and Status is 0.
type Wire struct {
	Status int    `json:"status"`
	Fields []Fact `json:"fields,omitempty"`
	Title  string `json:"title,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// Outcomes of the steps that can refuse.
const (
	passed  = "passed"
	refused = "refused"
	shadow  = "shadow"
)

// Explain answers a question about a policy. seed is that of everything that a
// gateway draws at random.
func Explain(cfg *config.Config, q *Question, seed uint64) (*Explanation, error) {
	stage, err := rehearse.NewStage(cfg, rehearse.Given{
		Signals: spec.Timelines(q.Signals), Origin: q.Origin.Rehearsed(), Seed: seed,
	})
	if err != nil {
		return nil, err
	}
	defer stage.Close()
	if err := stage.Advance(time.Duration(q.At)); err != nil {
		return nil, err
	}
	for n := range q.Already {
		stage.Send(q.Request.Numbered(n+1), nil, func(*rehearse.Performance) {})
	}
	return Next(stage, q.Request.Numbered(q.Already+1)), nil
}

// Next explains what becomes of a request that is sent now, on a stage as it
// stands. If it gets in, it is at the origin until the end of the stage.
func Next(stage *rehearse.Stage, q *rehearse.Request) *Explanation {
	cfg := stage.Config
	t := &teller{Stage: stage, cfg: cfg, out: &Explanation{Config: cfg.Source.File, Hash: cfg.Source.Hash}}
	t.tell(q)
	return t.out
}

// teller puts an explanation together.
type teller struct {
	*rehearse.Stage
	cfg *config.Config
	out *Explanation
	p   *rehearse.Performance
	r   *admission.Request
	see seen
}

// tell leads the request past the steps.
func (t *teller) tell(q *rehearse.Request) {
	t.p = t.Classify(q)
	t.r = t.p.Request
	t.see = t.look()
	t.Decide(t.p)

	d := &t.p.Decision
	t.out.Request = t.summary()
	if t.route(); t.r.Route != nil && !t.ambiguous() {
		if t.tenant() {
			t.class()
			if t.key() {
				t.gates()
				t.record()
			}
		}
	}
	t.out.Verdict, t.out.Reason, t.out.Shadow = d.Verdict.String(), d.Reason.String(), d.Shadow.String()
	t.out.Path = t.Decider(t.p)
	switch {
	case d.Verdict == admission.Admit && t.r.Route != nil:
		t.out.DecidedBy, t.out.Path = "route", t.RoutePath(t.r.Route)
	case d.Verdict == admission.Admit:
		t.out.DecidedBy = "route"
	case d.KeyStatus != "":
		t.out.DecidedBy = "record"
	default:
		for _, s := range t.out.Steps {
			if s.Outcome == refused {
				t.out.DecidedBy = s.Name
			}
		}
	}
	t.out.Where = t.Where(t.out.Path)
	t.wire()
	t.otherwise()
}

func (t *teller) summary() string {
	s := t.r.Method + " " + t.r.Path
	if t.r.Query != "" {
		s += "?" + t.r.Query
	}
	if t.r.Tenant != "" {
		s += " of " + t.r.Tenant
	}
	return fmt.Sprintf("%s, %s after the beginning", s, span(t.p.At))
}

// step adds a step. path is "" where the configuration says nothing about it.
func (t *teller) step(name, outcome, path, says string, saw ...Fact) {
	s := Step{Name: name, Outcome: outcome, Path: path, Says: says, Saw: saw}
	if path != "" {
		s.Where = t.Where(path)
	}
	t.out.Steps = append(t.out.Steps, s)
}

// ambiguous reports whether the request was refused for its path.
func (t *teller) ambiguous() bool { return t.p.Early && t.r.Route == nil }
