package policytest

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// Report is what came of a run over several files.
type Report struct {
	Suites   []Result `json:"suites"`
	Coverage []Item   `json:"coverage,omitempty"`
}

// Count returns how many tests ran, and how many of them failed.
func (r *Report) Count() (tests, failed int) {
	for _, s := range r.Suites {
		for i := range s.Tests {
			tests++
			if !s.Tests[i].OK() {
				failed++
			}
		}
	}
	return tests, failed
}

// WriteText writes the report for people: a line for each test, and for a test
// that failed what differs, with the line of the expectation.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, s := range r.Suites {
		if len(s.Tests) == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s, of %s\n", s.File, s.Config)
		for i := range s.Tests {
			t := &s.Tests[i]
			if t.OK() {
				fmt.Fprintf(&b, "  ok    %s (%s)\n", t.Name, count(t.Requests, "request"))
				continue
			}
			fmt.Fprintf(&b, "  FAIL  %s\n", t.Name)
			for j := range t.Failures {
				t.Failures[j].write(&b)
			}
		}
	}
	tests, failed := r.Count()
	if failed > 0 {
		fmt.Fprintf(&b, "%d of %s failed\n", failed, count(tests, "test"))
	} else {
		fmt.Fprintf(&b, "%s passed\n", count(tests, "test"))
	}
	r.writeCoverage(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (f *Failure) write(b *strings.Builder) {
	fmt.Fprintf(b, "        %s:%d: step %d: %s", f.File, f.Line, f.Step, f.What)
	if f.Requests > 1 {
		fmt.Fprintf(b, ", %d times", f.Requests)
	}
	b.WriteByte('\n')
	name, want := 0, 0
	for _, d := range f.Fields {
		name, want = max(name, len(d.Name)), max(want, len(d.Want))
	}
	for i, d := range f.Fields {
		fmt.Fprintf(b, "          line %d: %-*s  want %-*s  got %s\n", d.Line, name, d.Name, want, d.Want, d.Got)
		if next := i + 1; next < len(f.Fields) && f.Fields[next].sameRequests(d) {
			continue
		}
		if d.DecidedBy == "" {
			continue
		}
		fmt.Fprintf(b, "            at %s", d.At)
		if f.Requests > 1 {
			fmt.Fprintf(b, ", request %d, and so %d of %d", d.First, d.Differ, f.Requests)
		}
		fmt.Fprintf(b, "; decided by %s\n", d.DecidedBy)
	}
}

// sameRequests reports whether two fields differ from what is expected in as many
// requests, from the same one on.
func (f Field) sameRequests(g Field) bool { return f.First == g.First && f.Differ == g.Differ }

func (r *Report) writeCoverage(b *strings.Builder) {
	if len(r.Coverage) == 0 {
		return
	}
	covered, kind, name := 0, 0, 0
	for _, i := range r.Coverage {
		if i.Covered() {
			covered++
		}
		kind, name = max(kind, len(i.Kind)), max(name, len(i.Name))
	}
	fmt.Fprintf(b, "\ncoverage: %d of %d parts have decided about a request\n", covered, len(r.Coverage))
	for _, i := range r.Coverage {
		mark, state := "ok", fmt.Sprintf("decided %d of %d", i.Decided, i.Met)
		switch {
		case i.Covered():
		case i.Met > 0:
			mark, state = "part", fmt.Sprintf("never refused; met by %s", count(i.Met, "request"))
		default:
			mark, state = "none", "never met"
		}
		fmt.Fprintf(b, "  %-4s  %s:%-4d %-*s  %-*s  %s\n", mark, i.File, i.Line, kind, i.Kind, name, i.Name, state)
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// WriteJSON writes the report for programs.
func (r *Report) WriteJSON(w io.Writer) error {
	tests, failed := r.Count()
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(struct {
		Tests  int `json:"tests"`
		Failed int `json:"failed"`
		*Report
	}{tests, failed, r})
}

// The part of the JUnit format that its readers agree on.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Time     string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		File    string        `xml:"file,attr"`
		Line    int           `xml:"line,attr"`
		Time    string        `xml:"time,attr"`
		Failure *junitFailure `xml:"failure"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// WriteJUnit writes the report for build servers.
func (r *Report) WriteJUnit(w io.Writer) error {
	all := junitSuites{}
	all.Tests, all.Failures = r.Count()
	for _, s := range r.Suites {
		suite := junitSuite{Name: s.File, Tests: len(s.Tests)}
		took := 0.0
		for i := range s.Tests {
			t := &s.Tests[i]
			c := junitCase{Class: s.File, Name: t.Name, File: s.File, Line: t.Line, Time: fmt.Sprintf("%.3f", t.Took.Seconds())}
			took += t.Took.Seconds()
			if !t.OK() {
				suite.Failures++
				var text strings.Builder
				for j := range t.Failures {
					t.Failures[j].write(&text)
				}
				first := t.Failures[0]
				c.Failure = &junitFailure{Message: fmt.Sprintf("%s:%d: step %d: %s", first.File, first.Line, first.Step, first.What), Text: text.String()}
			}
			suite.Cases = append(suite.Cases, c)
		}
		suite.Time = fmt.Sprintf("%.3f", took)
		all.Suites = append(all.Suites, suite)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(all); err != nil {
		return fmt.Errorf("JUnit report: %w", err)
	}
	_, err := io.WriteString(w, "\n")
	return err
}
