package report

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/go-cmp/cmp"

	"sluice/bench/load"
	"sluice/bench/result"
	"sluice/bench/scenario"
)

const hostile = `</script><script>alert("1")</script><img src=x onerror=alert(1)>&`

// sample is a run as results describe it, with texts that must not be believed.
func sample() *result.Result {
	p99 := 0.012
	n := result.Numbers{
		Name: "critical", Offered: 1000, Endings: map[string]int64{"admitted": 900, "refused": 100}, Reasons: map[string]int64{"shed": 100},
		AdmittedShare: 0.9, RefusedShare: 0.1, Accepted: 900, InTime: 899,
		Response: result.Latency{Count: 900, P50: &p99, P99: &p99, Max: 0.05, Spectrum: [][2]float64{{0, 0.001}, {0.99, 0.012}}},
	}
	return &result.Result{
		Format: result.Format, Name: "sample", Rehearses: hostile, Healthy: "h", Started: time.Unix(1e9, 0).UTC(), Seconds: 2,
		Verdict: result.Missed, Why: []string{"goodput is low", hostile},
		Total: n, Classes: []result.Numbers{n}, Stages: []result.Stage{{Numbers: n, Kind: "hold", From: 500, To: 500}},
		Tenants: []result.Tenant{{Name: hostile, Class: "critical", Offered: 10, LetIn: 9}, {Name: "b", Offered: 1}},
		Checks:  []result.Check{{Name: "all counts agree", OK: false, Detail: "they differ"}, {Name: "fine", OK: true}},
		Counts:  []result.Count{{What: "received", Client: 1234567, Gateway: 10, Origin: -1}},
		Thresholds: []result.Threshold{
			{What: "goodput", Value: "1/s", Bound: "at least 2/s", Result: "missed"},
			{What: "p99", Value: "–", Bound: "at most 2s", Result: "unknown", Why: "few"},
			{What: "p50", Value: "1s", Bound: "at most 2s", Result: "not_judged", Why: "busy"},
		},
		Inversions: []result.Inversion{}, Events: []result.Event{},
		Intervals: []result.Second{{T: 0, Stage: "hold", Offered: 500, Endings: n.Endings, Heat: make([]int64, 49),
			Classes: []result.ClassSecond{{Name: "critical", Offered: 500}}}},
	}
}

// The page needs nothing but itself, and nothing in a result can add to it.
func TestThePageStandsAlone(t *testing.T) {
	html, err := HTML(sample())
	if err != nil {
		t.Fatal(err)
	}
	page := string(html)
	if strings.Contains(page, "<img src=x") || strings.Contains(page, `alert("1")</script>`) {
		t.Error("a text of the result became part of the page")
	}
	for _, pattern := range []string{`(?i)<[a-z]+\s[^>]*(src|href)\s*=`, `@import`, `url\(`, `(?i)fetch\(|XMLHttpRequest|WebSocket`} {
		if m := regexp.MustCompile(pattern).FindString(page); m != "" {
			t.Errorf("the page may reach for something else: %q", m)
		}
	}
	if n := strings.Count(page, "<script"); n != 3 {
		t.Errorf("the page has %d scripts, wanted the data, the plotter and its own", n)
	}
	for _, want := range []string{"1,234,567", "99.9%", "What was protected", "goodput is low", "Copyright (c) 2022 Leon Sorokin"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// What is vendored is what was published.
func TestVendoredFilesAreUnchanged(t *testing.T) {
	sums, err := os.ReadFile("assets/uplot/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for line := range strings.Lines(string(sums)) {
		want, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		data, err := os.ReadFile(filepath.Join("assets/uplot", name))
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s is not the file that was published", name)
		}
		files++
	}
	if files != 3 {
		t.Errorf("%d files are vouched for, wanted 3", files)
	}
}

func TestWhatIsWrittenCanBeReadBack(t *testing.T) {
	dir := t.TempDir()
	want := sample()
	if err := Write(dir, want); err != nil {
		t.Fatal(err)
	}
	got, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if err := os.WriteFile(filepath.Join(dir, "result.json"), []byte(`{"format": 99}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), "format 99") {
		t.Errorf("a result of another format reads: %v", err)
	}
}

// CI's tools see the failures, the unknowns and the skipped as such.
func TestJUnitSaysWhatFailed(t *testing.T) {
	b, err := JUnit(sample())
	if err != nil {
		t.Fatal(err)
	}
	var s suite
	if err := xml.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	if s.Tests != 6 || s.Failures != 2 || s.Errors != 1 || s.Skipped != 1 || len(s.Cases) != 6 {
		t.Errorf("%+v", s)
	}
	r := sample()
	r.Verdict = result.Invalid
	if b, err = JUnit(r); err != nil {
		t.Fatal(err)
	}
	var invalid suite
	if err := xml.Unmarshal(b, &invalid); err != nil || invalid.Cases[0].Error == nil {
		t.Errorf("an invalid run passes for valid: %s", b)
	}
}

func TestTheSummaryNamesWhatMatters(t *testing.T) {
	text := Summary(sample())
	for _, want := range []string{"# sample: missed", "| critical | 1,000 | 90.0% | 10.0% |", "| goodput | 1/s | at least 2/s | missed |", "**differ**", "Reasons: shed 100."} {
		if !strings.Contains(text, want) {
			t.Errorf("the summary does not say %q:\n%s", want, text)
		}
	}
}

// Other tools read the latency log: what it holds is what was measured.
func TestTheLatencyLogHoldsTheHistograms(t *testing.T) {
	dir := t.TempDir()
	s := &scenario.Scenario{Name: "x", Classes: []scenario.Class{{Name: "a"}}}
	l, err := NewLog(dir, s)
	if err != nil {
		t.Fatal(err)
	}
	h := load.NewHistogram()
	for v := int64(1); v <= 5000; v++ {
		_ = h.RecordValue(v)
	}
	i := &load.Interval{Start: 3 * time.Second, Classes: make([]load.ClassInterval, 1)}
	i.Classes[0].Response[load.Admitted] = h
	l.Interval(i)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, "latency.hlog"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var last string
	for in := bufio.NewScanner(f); in.Scan(); {
		last = in.Text()
	}
	part := strings.Split(last, ",")
	if len(part) != 5 || part[0] != "Tag=a:admitted" || part[1] != "3.000" || part[2] != "1.000" {
		t.Fatalf("line %q", last)
	}
	back, err := hdrhistogram.Decode([]byte(part[4]))
	if err != nil {
		t.Fatal(err)
	}
	if back.TotalCount() != 5000 || back.ValueAtQuantile(99) != h.ValueAtQuantile(99) {
		t.Errorf("%d samples with p99 %d come back, wanted 5000 with %d", back.TotalCount(), back.ValueAtQuantile(99), h.ValueAtQuantile(99))
	}
}
