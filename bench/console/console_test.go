package console

import (
	"strings"
	"testing"
	"time"

	"sluice/bench/load"
	"sluice/bench/origin"
	"sluice/bench/result"
	"sluice/bench/run"
	"sluice/bench/scenario"
)

// progress after n seconds of 100 requests a second, a fifth of them shed.
func progress(n int) *run.Progress {
	k := int64(n)
	c := load.LiveClass{Name: "bulk", Offered: 100 * k, Reasons: map[string]int64{"shed": 20 * k}, Max: 12 * time.Millisecond}
	c.Endings[load.Admitted], c.Endings[load.Refused] = 80*k, 20*k
	return &run.Progress{
		Stage: &scenario.Stage{Name: "hold"}, Total: time.Minute, Done: 70 * k,
		Live:   load.Live{Elapsed: time.Duration(n) * time.Second, Offered: 100 * k, Classes: []load.LiveClass{c}},
		Signal: origin.Signal{OldestAge: 1500 * time.Millisecond},
	}
}

// Where there is no terminal, a line comes every five seconds, with the rates
// of those five.
func TestPlainLinesComeEveryFiveSeconds(t *testing.T) {
	var b strings.Builder
	c := New(&b)
	for n := 1; n <= 11; n++ {
		c.Progress(progress(n))
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	want := "10s hold         offered 100/s  admitted 80/s  refused 20/s (shed 100)  done 70/s  oldest 1.5s  bulk max 12ms"
	if len(lines) != 2 || strings.TrimSpace(lines[1]) != want {
		t.Errorf("lines\n%s\nwanted two, the second being\n%s", b.String(), want)
	}
	if strings.Contains(b.String(), "\x1b") {
		t.Error("terminal codes where there is no terminal")
	}
}

// On a terminal the view replaces itself, line for line.
func TestTheLiveViewReplacesItself(t *testing.T) {
	var b strings.Builder
	c := &Console{out: &b, live: true}
	c.Progress(progress(1))
	first := b.String()
	height := strings.Count(first, "\n")
	b.Reset()
	c.Progress(progress(2))
	if want := "\x1b[" + string(rune('0'+height)) + "A\x1b[J"; !strings.HasPrefix(b.String(), want) {
		t.Errorf("a view of %d lines is followed by %q", height, b.String()[:12])
	}
	b.Reset()
	c.Verdict(&result.Result{Verdict: result.Missed, Name: "x", Why: []string{"too slow"}}, "")
	if !strings.Contains(b.String(), "MISSED  x") || !strings.Contains(b.String(), "too slow") {
		t.Errorf("the verdict reads %q", b.String())
	}
}

// Runs beside each other are told apart by their scenario's name, and one that is
// no pass says why, and where more about it is.
func TestABoardTellsRunsApart(t *testing.T) {
	var b strings.Builder
	long := &scenario.Scenario{Name: "launch-burst"}
	board := NewBoard(&b, []*scenario.Scenario{{Name: "herd"}, long})
	board.Say(long, "starts: %v of load", 30*time.Second)
	board.Ends(&result.Result{Name: "herd", Verdict: result.Missed, Why: []string{"too slow"}, Total: result.Numbers{Offered: 200, AdmittedShare: 0.75, RefusedShare: 0.25}}, "out/herd")
	board.Sum([]result.Verdict{result.Missed}, 31*time.Second)
	want := `launch-burst  starts: 30s of load
herd          MISSED  200 offered, 75.0% admitted, 25.0% refused, 0.0% failed (1 of 2)
herd            too slow
herd            out/herd/report.html

2 scenarios in 31s: 1 missed, 1 not carried out
`
	if b.String() != want {
		t.Errorf("the board shows\n%s\nwanted\n%s", b.String(), want)
	}
}
