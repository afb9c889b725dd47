package policytest

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/config/strict"
)

var update = flag.Bool("update", false, "write what the tests find instead of comparing with it")

// golden compares text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-file +got); run with -update if it is meant:\n%s", file, diff)
	}
}

func run(t *testing.T, file, match string, cover *Coverage) *Report {
	t.Helper()
	suite, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	var m *regexp.Regexp
	if match != "" {
		m = regexp.MustCompile(match)
	}
	result, err := suite.Run(m, cover)
	if err != nil {
		t.Fatal(err)
	}
	return &Report{Suites: []Result{result}}
}

// A field that is not as expected is told with both values, the line of the
// expectation and the line of the policy that decided.
func TestFailuresAreToldFieldByField(t *testing.T) {
	var cover Coverage
	r := run(t, "testdata/fails.test.yaml", "", &cover)
	r.Coverage = cover.Items()
	var text, js bytes.Buffer
	if err := errors.Join(r.WriteText(&text), r.WriteJSON(&js)); err != nil {
		t.Fatal(err)
	}
	golden(t, "fails.txt", text.String())
	golden(t, "fails.json", js.String())
	var read struct {
		Tests, Failed int
		Suites        []Result
	}
	if err := json.Unmarshal(js.Bytes(), &read); err != nil {
		t.Fatal(err)
	}
	if read.Tests != 4 || read.Failed != 3 {
		t.Errorf("JSON tells of %d failed tests in %d, want 3 in 4", read.Failed, read.Tests)
	}
	seen := map[string]bool{}
	for _, f := range r.Suites[0].Tests[0].Failures[0].Fields {
		seen[f.Name] = true
	}
	for _, field := range []string{"verdict", "reason", "status", "route", "class", "rule", "tenant", "shadow", "key", "retry_after"} {
		if !seen[field] {
			t.Errorf("that %s is not as expected was not noticed", field)
		}
	}
}

// Everything that is wrong with a file is said at once, each with its place.
func TestWrongFilesAreToldWithLines(t *testing.T) {
	_, err := Load("testdata/wrong.test.yaml")
	var problems strict.Problems
	if !errors.As(err, &problems) {
		t.Fatalf("want Problems, not %v", err)
	}
	golden(t, "wrong.txt", err.Error()+"\n")
}

func TestFilesThatCannotBeTests(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "the file is empty"},
		{"no tests", "config: policy.yaml\n", "tests: missing"},
		{"an empty list of tests", "config: policy.yaml\ntests: []\n", "tests: it is empty; write at least 1 item"},
		{"no config", "tests: [{name: a, steps: [{request: {path: /}, expect: {verdict: admit}}]}]\n", "config: missing"},
		{"a config that is not there", "config: nowhere.yaml\ntests: [{name: a, steps: [{request: {path: /}, expect: {verdict: admit}}]}]\n", "nowhere.yaml:1:1: the file cannot be read"},
		{"a misspelt key", "config: policy.yaml\ntest: []\n", "it is called tests here"},
	} {
		_, err := Parse("testdata/x.test.yaml", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want %q in the error, got: %v", c.name, c.want, err)
		}
	}
}

// JUnit counts what failed and names the place.
func TestJUnit(t *testing.T) {
	var out bytes.Buffer
	if err := run(t, "testdata/fails.test.yaml", "", nil).WriteJUnit(&out); err != nil {
		t.Fatal(err)
	}
	var read junitSuites
	if err := xml.Unmarshal(out.Bytes(), &read); err != nil {
		t.Fatal(err)
	}
	if read.Tests != 4 || read.Failures != 3 || len(read.Suites) != 1 || read.Suites[0].Failures != 3 || len(read.Suites[0].Cases) != 4 {
		t.Errorf("4 tests of which 3 fail are written as:\n%s", out.String())
	}
	if c := read.Suites[0].Cases[0]; c.Failure == nil || !strings.Contains(c.Failure.Text, "want admit") || c.Line != 3 {
		t.Errorf("the first test is written as %+v", c)
	}
	if c := read.Suites[0].Cases[3]; c.Failure != nil {
		t.Errorf("a test that passes is written as failed: %+v", c)
	}
}

func TestRunOnlyWhatMatches(t *testing.T) {
	if n, failed := run(t, "testdata/fails.test.yaml", "^this one", nil).Count(); n != 1 || failed != 0 {
		t.Errorf("%d tests ran and %d failed, want one that passes", n, failed)
	}
	if n, _ := run(t, "testdata/fails.test.yaml", "no such test", nil).Count(); n != 0 {
		t.Errorf("%d tests ran, want none", n)
	}
}

// A run gives the same results each time, and whether coverage is watched makes
// no difference.
func TestRunsRepeatExactly(t *testing.T) {
	text := func(cover *Coverage) string {
		var b strings.Builder
		for _, file := range []string{"testdata/fails.test.yaml", "../../examples/queue.test.yaml", "../../examples/public-api.test.yaml"} {
			if err := run(t, file, "", cover).WriteText(&b); err != nil {
				t.Fatal(err)
			}
		}
		return b.String()
	}
	first := text(nil)
	if diff := cmp.Diff(first, text(nil)); diff != "" {
		t.Errorf("two runs differ:\n%s", diff)
	}
	if diff := cmp.Diff(first, text(&Coverage{})); diff != "" {
		t.Errorf("watching coverage changes the results:\n%s", diff)
	}
}

// The policies that are shipped do what their tests say, and the tests make
// every part of them decide.
func TestShippedPolicies(t *testing.T) {
	files, err := Find([]string{"../../examples"})
	if err != nil {
		t.Fatal(err)
	}
	policies, err := filepath.Glob("../../examples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tested := map[string]bool{}
	var cover Coverage
	for _, file := range files {
		r := run(t, file, "", &cover)
		tested[filepath.Base(r.Suites[0].Config)] = true
		if _, failed := r.Count(); failed > 0 {
			var b strings.Builder
			_ = r.WriteText(&b)
			t.Errorf("%s", b.String())
		}
		suite, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range suite.Policy.Source.Warnings {
			t.Errorf("an example should not be warned of: %v", w)
		}
	}
	for _, p := range policies {
		if !strings.HasSuffix(p, Suffix) && !tested[filepath.Base(p)] {
			t.Errorf("%s has no tests", p)
		}
	}
	for _, i := range cover.Items() {
		if !i.Covered() && !strings.HasSuffix(i.File, "/config.yaml") {
			t.Errorf("%s:%d: the tests never make %s %s decide", i.File, i.Line, i.Kind, i.Name)
		}
	}
}

// Whatever a file holds, reading it gives problems or tests, and no panic.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"testdata/fails.test.yaml", "testdata/wrong.test.yaml", "../../examples/orders.test.yaml"} {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	policy, err := os.ReadFile("testdata/policy.yaml")
	if err != nil {
		f.Fatal(err)
	}
	dir := f.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "policy.yaml"), policy, 0o600); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if bytes.Contains(data, []byte("${file:")) || bytes.Contains(data, []byte("/dev/")) {
			t.Skip("it reads files of this machine")
		}
		s, err := Parse(filepath.Join(dir, "x.test.yaml"), data)
		if (s == nil) == (err == nil) {
			t.Fatalf("neither tests nor an error, or both: %v, %v", s, err)
		}
	})
}
