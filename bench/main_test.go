package main

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/bench/report"
	"sluice/bench/result"
)

// bench carries out one command line.
func bench(t *testing.T, args ...string) int {
	t.Helper()
	return execute(t.Context(), args, t.Output())
}

// scenarioFile writes a scenario whose load goes straight to the origin.
func scenarioFile(t *testing.T, more string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "direct.yaml")
	text := `
version: 1
name: direct
rehearses: The program itself.
healthy: It says what is so.
classes: [{name: only, share: 100%, path: /x}]
stages: [{name: hold, rate: 100/s, for: 1s}]
` + more
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// The exit code says what happened, so that a script need not read.
func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		name string
		more string
		args []string
		want int
	}{
		{"a pass", "thresholds: [{metric: admitted_share, at_least: 100%}]", nil, 0},
		{"a threshold missed", "thresholds: [{metric: refused_share, at_least: 50%}]", nil, 1},
		{"a mistake in the scenario", "stage: []", nil, 2},
		{"an unknown flag", "", []string{"--fast"}, 2},
		{"a generator that cannot keep up", "load: {max_in_flight: 1}\norigin: {answer: {fixed: 200ms}}", nil, 3},
		{"a figure that cannot be known", "thresholds: [{metric: promises_kept_share, at_least: 1%}]", nil, 4},
	} {
		out := t.TempDir()
		args := append([]string{"run", scenarioFile(t, c.more), "--counts-only", "--out", out}, c.args...)
		if got := bench(t, args...); got != c.want {
			t.Errorf("%s: exit code %d, wanted %d", c.name, got, c.want)
		}
		if c.want == 2 {
			continue
		}
		r, err := report.Read(filepath.Join(out, "direct"))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if r.Verdict.ExitCode() != c.want {
			t.Errorf("%s: the result says %s", c.name, r.Verdict)
		}
		for _, f := range []string{"report.html", "summary.md", "intervals.ndjson", "latency.hlog", "junit.xml"} {
			if _, err := os.Stat(filepath.Join(out, "direct", f)); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
}

// A target that is not there is a mistake of the command line, not a bad result.
func TestTheTargetHasToBeThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	args := []string{"run", scenarioFile(t, ""), "--counts-only", "--out", t.TempDir(), "--target", "http://" + l.Addr().String(), "--origin", "127.0.0.1:0"}
	var said bytes.Buffer
	if got := execute(t.Context(), args, &said); got != 2 || !strings.Contains(said.String(), "nothing answers at the target") {
		t.Errorf("exit code %d, wanted 2: %s", got, &said)
	}
}

// What a folder cannot hold is told, and the verdict all the same.
func TestResultsThatCannotBeWritten(t *testing.T) {
	out := t.TempDir()
	if err := os.MkdirAll(filepath.Join(out, "direct", "report.html", "in-the-way"), 0o755); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	args := []string{"run", scenarioFile(t, ""), "--counts-only", "--out", out}
	if got := execute(t.Context(), args, &said); got != 2 || !strings.Contains(said.String(), "report.html: is a directory") {
		t.Errorf("exit code %d, wanted 2: %s", got, &said)
	}
	if _, err := report.Read(filepath.Join(out, "direct")); err != nil {
		t.Errorf("the other files are not written: %v", err)
	}
	file := filepath.Join(out, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := execute(t.Context(), []string{"run", scenarioFile(t, ""), "--counts-only", "--out", file}, &said); got != 2 {
		t.Errorf("a file as the folder: exit code %d, wanted 2", got)
	}
}

// Load goes to other machines only when that is said.
func TestRemoteTargetsNeedAFlag(t *testing.T) {
	args := []string{"run", scenarioFile(t, ""), "--counts-only", "--out", t.TempDir(), "--target", "http://192.0.2.1:80"}
	if got := bench(t, args...); got != 2 {
		t.Errorf("exit code %d, wanted 2", got)
	}
}

func TestTheWorstVerdictCounts(t *testing.T) {
	order := []result.Verdict{result.Pass, result.Inconclusive, result.Invalid, result.Missed}
	for i, a := range order {
		for j, b := range order {
			if got := worse(a, b); got != order[max(i, j)] {
				t.Errorf("of %s and %s the worse is said to be %s", a, b, got)
			}
		}
	}
}
