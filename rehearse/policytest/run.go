package policytest

import (
	"cmp"
	"container/heap"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"sluice/config/strict"
	"sluice/rehearse"
)

// Result is what came of one suite.
type Result struct {
	File   string       `json:"file"`
	Config string       `json:"config"`
	Tests  []TestResult `json:"tests"`
}

// TestResult is what came of one test.
type TestResult struct {
	Name     string        `json:"name"`
	Line     int           `json:"line"`
	Requests int           `json:"requests"`
	Took     time.Duration `json:"-"`
	Failures []Failure     `json:"failures,omitempty"`
}

// OK reports whether the test passed.
func (t *TestResult) OK() bool { return len(t.Failures) == 0 }

// Failure is one step of which not everything came true.
type Failure struct {
	File string `json:"file"`
	Line int    `json:"line"` // of the expectation
	Step int    `json:"step"` // from 1
	// What was sent, and how often.
	What     string `json:"what"`
	Requests int    `json:"requests"`
	// Fields that differ from what is expected.
	Fields []Field `json:"fields"`
}

// Field is one field of an expectation that did not come true.
type Field struct {
	Name string `json:"name"`
	Line int    `json:"line"`
	Want string `json:"want"`
	Got  string `json:"got"` // by the first request that differs
	// Differ is how many requests differ; the first of them was number First, sent
	// At, and decided about by DecidedBy. All are zero where the field is about
	// the requests together.
	Differ    int    `json:"differ,omitempty"`
	First     int    `json:"first,omitempty"`
	At        string `json:"at,omitempty"`
	DecidedBy string `json:"decided_by,omitempty"`
}

// Run runs the tests whose names match, all if match is nil, and adds what they
// exercise to cover, which may be nil.
func (s *Suite) Run(match *regexp.Regexp, cover *Coverage) (Result, error) {
	r := Result{File: s.File, Config: s.Policy.Source.File}
	if cover != nil {
		cover.add(s.Policy)
	}
	for i := range s.spec.Tests {
		t := &s.spec.Tests[i]
		if match != nil && !match.MatchString(t.Name) {
			continue
		}
		one, err := s.test(i, t, cover)
		if err != nil {
			return r, fmt.Errorf("%s:%d: %w", s.File, one.Line, err)
		}
		r.Tests = append(r.Tests, one)
	}
	return r, nil
}

// line is the line of a path of the file, or of the nearest one around it.
func (s *Suite) line(path string) int {
	for ; path != ""; path = path[:max(lastStep(path), 0)] {
		if line, ok := s.lines[path]; ok {
			return line
		}
	}
	return 1
}

func lastStep(path string) int {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '.' || path[i] == '[' {
			return i
		}
	}
	return 0
}

// test plays one test.
func (s *Suite) test(i int, t *Test, cover *Coverage) (TestResult, error) {
	at := strict.Index("tests", i)
	began := time.Now()
	out := TestResult{Name: t.Name, Line: s.line(at)}
	stage, err := rehearse.NewStage(s.Policy, s.given(t))
	if err != nil {
		return out, err
	}
	defer stage.Close()
	steps := make([]*stepRun, len(t.Steps))
	due := schedule{}
	end := time.Duration(0)
	for j := range t.Steps {
		step := &t.Steps[j]
		path := strict.Index(at+".steps", j)
		begin := time.Duration(step.At)
		if _, written := s.lines[path+".at"]; !written {
			begin = end
		}
		end = begin + time.Duration(step.Repeat-1)*time.Duration(step.Every)
		steps[j] = &stepRun{step: step, path: path, index: j, at: begin}
		if step.Origin != nil {
			o := step.Origin.Rehearsed()
			steps[j].origin = &o
		}
		due = append(due, steps[j])
	}
	heap.Init(&due)
	for len(due) > 0 {
		next := due[0]
		if err := stage.Advance(next.at); err != nil {
			return out, err
		}
		next.sent++
		n := next.sent
		stage.Send(next.step.Request.Numbered(n), next.origin, func(p *rehearse.Performance) {
			next.judge(s, stage, n, p)
			cover.note(stage, p)
		})
		out.Requests++
		if next.sent == next.step.Repeat {
			heap.Pop(&due)
			continue
		}
		next.at += time.Duration(next.step.Every)
		heap.Fix(&due, 0)
	}
	if err := stage.Finish(); err != nil {
		return out, err
	}
	for _, step := range steps {
		if f := step.failure(s); f != nil {
			out.Failures = append(out.Failures, *f)
		}
	}
	out.Took = time.Since(began)
	return out, nil
}

// stepRun is one step under way.
type stepRun struct {
	step   *Step
	path   string
	index  int
	at     time.Duration // of its next request
	sent   int
	origin *rehearse.Origin

	let    int     // requests that got in
	fields []Field // that were not as expected
}

// schedule is the steps that have requests to send, as a heap: the next first.
type schedule []*stepRun

func (h schedule) Len() int      { return len(h) }
func (h schedule) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h schedule) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].at, h[j].at), cmp.Compare(h[i].index, h[j].index)) < 0
}
func (h *schedule) Push(x any) { *h = append(*h, x.(*stepRun)) }
func (h *schedule) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
