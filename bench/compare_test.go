package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/bench/compare"
)

// answering is a scenario whose origin takes that long to answer, in ms. Equal
// distances leave no chance in when requests are due.
func answering(t *testing.T, ms int, more string) string {
	t.Helper()
	return scenarioFile(t, fmt.Sprintf("load: {arrivals: uniform}\norigin: {answer: {fixed: %dms}}\n%s", ms, more))
}

// compared reads what a comparison has left.
func compared(t *testing.T, out string) map[string]compare.Row {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(out, "compare", "compare.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r compare.Report
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	rows := map[string]compare.Row{}
	for _, row := range r.Rows {
		rows[row.Metric] = row
	}
	return rows
}

// What is slower by a known amount is found to be, by that amount, and what is
// the same is not accused. Invalid runs are let pass: the machine may be busy.
func TestCompareFindsTheTruth(t *testing.T) {
	a, b := answering(t, 5, ""), answering(t, 45, "")
	out := t.TempDir()
	if got := bench(t, "compare", a, b, "--out", out, "--force"); got != 1 {
		t.Errorf("B is 40ms slower: exit code %d, wanted 1", got)
	}
	row := compared(t, out)["response_p50"]
	if row.Outcome != compare.Worse || row.Diff.Low > 0.044 || row.Diff.High < 0.036 {
		t.Errorf("B is 40ms slower: %s, by %.1f to %.1f ms", row.Outcome, 1000*row.Diff.Low, 1000*row.Diff.High)
	}
	if row := compared(t, out)["admitted_share"]; row.Outcome != compare.Same || row.Ratio.Low != 1 || row.Ratio.High != 1 {
		t.Errorf("both admit everything: %+v", row)
	}
	out = t.TempDir()
	if got := bench(t, "compare", a, a, "--out", out, "--force", "--tolerance", "50%"); got != 0 && got != 4 {
		t.Errorf("a scenario is worse than itself: exit code %d", got)
	}
	for _, row := range compared(t, out) {
		if row.Outcome == compare.Worse || row.Outcome != compare.Absent && (row.Ratio.Low > 1.5 || row.Ratio.High < 0.5) {
			t.Errorf("a scenario is worse than itself: %+v", row)
		}
	}
}

// B that admits nothing is worse than A, though it is fast and has no response
// times to hold against A's.
func TestCompareSeesWhatIsNotThere(t *testing.T) {
	a := scenarioFile(t, "")
	b := scenarioFile(t, "events: [{at: 0s, origin: {errors: 100%}}]")
	out := t.TempDir()
	if got := bench(t, "compare", a, b, "--out", out, "--force"); got != 1 {
		t.Errorf("exit code %d, wanted 1", got)
	}
	if row := compared(t, out)["goodput"]; row.Outcome != compare.Worse || row.Ratio.Value > 0.2 {
		t.Errorf("%+v", row)
	}
}

// Results of earlier runs can be compared where that makes sense; where not, the
// exit code and the message say why.
func TestCompareOfEarlierRuns(t *testing.T) {
	kept := func(file string) string {
		out := t.TempDir()
		bench(t, "run", file, "--counts-only", "--out", out)
		return filepath.Join(out, "direct")
	}
	// changed is a copy of a result with a piece of its text replaced.
	changed := func(dir, old, text string) string {
		data, err := os.ReadFile(filepath.Join(dir, "result.json"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(data, []byte(old)) {
			t.Fatalf("the result has no %s", old)
		}
		out := t.TempDir()
		if err := os.WriteFile(filepath.Join(out, "result.json"), bytes.Replace(data, []byte(old), []byte(text), 1), 0o644); err != nil {
			t.Fatal(err)
		}
		return out
	}
	a, other := kept(answering(t, 5, "")), kept(answering(t, 5, "seed: 9"))
	late := kept(scenarioFile(t, "load: {max_in_flight: 1}\norigin: {answer: {fixed: 200ms}}"))
	file := scenarioFile(t, "")
	for _, c := range []struct {
		name string
		a, b string
		args []string
		want int
		says string
	}{
		{"one pair proves nothing", a, a, nil, 4, ""},
		{"a file names a result, too", filepath.Join(a, "result.json"), a, nil, 4, ""},
		{"no such folder", a, "nowhere.json", nil, 2, "nowhere.json"},
		{"a scenario and a result", file, a, nil, 2, "name two of a kind"},
		{"no such scenario", file, "nowhere.yaml", nil, 2, "nowhere.yaml"},
		{"another scenario", a, other, nil, 2, "different scenarios"},
		{"another scenario, forced", a, other, []string{"--force"}, 4, ""},
		{"another format", a, changed(a, `"format": 1`, `"format": 99`), nil, 2, "has format 99; this program reads format 1"},
		{"another machine", a, changed(a, ` cores, `, ` other cores, `), nil, 2, "another machine"},
		{"no JSON", a, changed(a, `{`, `[`), nil, 2, "result.json"},
		{"counts that differ", a, changed(a, `"ok": true`, `"ok": false`), nil, 1, ""},
		{"an invalid run", late, late, nil, 3, "could not be sent"},
		{"an interrupted run", a, changed(a, `"seconds": 1,`, `"seconds": 1, "interrupted": 0.5,`), nil, 3, "interrupted"},
		{"no pairs", a, a, []string{"--pairs", "0"}, 2, "--pairs"},
		{"a tolerance that is none", a, a, []string{"--tolerance", "much"}, 2, "--tolerance"},
	} {
		var said bytes.Buffer
		args := append([]string{"compare", c.a, c.b, "--out", t.TempDir()}, c.args...)
		if got := execute(t.Context(), args, &said); got != c.want || !strings.Contains(said.String(), c.says) {
			t.Errorf("%s: exit code %d, wanted %d, saying %q:\n%s", c.name, got, c.want, c.says, &said)
		}
	}
}

// What cannot be measured is told by the exit code before anything is started.
func TestPeersRefusesUnknownWords(t *testing.T) {
	for _, flag := range []string{"--only=ngnix", "--work=forwrad", "--rounds=-1"} {
		var said bytes.Buffer
		args := []string{"peers", "--pin=false", "--sluice", os.Args[0], "--out", t.TempDir(), flag}
		if got := execute(t.Context(), args, &said); got != 2 {
			t.Errorf("%s: exit code %d, wanted 2: %s", flag, got, &said)
		}
	}
}
