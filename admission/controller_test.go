package admission

import (
	"slices"
	"testing"
	"time"
)

// steps notes in which order its parts are asked.
type steps struct {
	Keys
	taken []string
}

func (s *steps) note(step string) Refusal {
	s.taken = append(s.taken, step)
	return Refusal{}
}

func (s *steps) Route(r *Request) Refusal {
	r.Route = &Route{ID: "work"}
	return s.note("route")
}

func (s *steps) Identify(r *Request) Refusal {
	r.Tenant = "acme"
	return s.note("identify")
}

func (s *steps) Class(r *Request)         { s.note("class") }
func (s *steps) Check(r *Request) Refusal { return s.note("check") }

func (s *steps) Anticipate(r *Request) {
	if r.Route == nil || r.Tenant == "" {
		s.note("too early:")
	}
	s.note("anticipate")
}

func (s *steps) Reserve(time.Time, *Request, *Decision) (Permit, Refusal) {
	return Permit{Ref: s}, s.note("reserve")
}

func (s *steps) GiveBack(time.Time, Permit)     { s.note("give back") }
func (s *steps) End(time.Time, Permit, Outcome) { s.note("end") }

// Gates hear of a request as soon as it has a route and a tenant, before anything
// else is looked at: what they ask for is on its way meanwhile.
func TestStepsOfARequest(t *testing.T) {
	s := &steps{}
	c := Controller{Classifier: s, Identifier: s, Keys: s, Gates: []Gate{s, s}}
	var r Request
	var d Decision
	if f := c.Classify(&r); f.Is() {
		t.Fatal(f)
	}
	c.Admit(time.Time{}, &r, &d)
	c.End(time.Time{}, &r, Answered, Answer{})
	want := []string{"route", "identify", "anticipate", "anticipate", "class", "check", "reserve", "reserve", "end", "end"}
	if !slices.Equal(s.taken, want) {
		t.Errorf("steps are %q, want %q", s.taken, want)
	}
}
