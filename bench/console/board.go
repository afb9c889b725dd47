package console

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"sluice/bench/result"
	"sluice/bench/scenario"
)

// Board tells of several runs that go on beside each other: a line when one
// starts, one when it ends, and below that why, where it is not a pass. Each line
// begins with the name of its scenario. Its methods may be called at once.
type Board struct {
	mu    sync.Mutex
	out   io.Writer
	ink   ink
	width int // of the longest name
	ended int
	of    int
}

// NewBoard shows the runs of the scenarios on w.
func NewBoard(w io.Writer, all []*scenario.Scenario) *Board {
	_, color := terminal(w)
	b := &Board{out: w, ink: color, of: len(all)}
	for _, s := range all {
		b.width = max(b.width, len(s.Name))
	}
	return b
}

// Note says what happens to all of them.
func (b *Board) Note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fmt.Fprintln(b.out, b.ink.paint("2", "· "+fmt.Sprintf(format, args...)))
}

// Say says what happens to one.
func (b *Board) Say(s *scenario.Scenario, format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.line(string(s.Name), b.ink.paint("2", fmt.Sprintf(format, args...)))
}

func (b *Board) line(name, text string) { fmt.Fprintf(b.out, "%-*s  %s\n", b.width, name, text) }

// Ends says how a run ended whose files are in dir.
func (b *Board) Ends(r *result.Result, dir string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = min(b.ended+1, b.of) // one that is carried out again ends twice
	n := &r.Total
	b.line(r.Name, fmt.Sprintf("%s  %d offered, %.1f%% admitted, %.1f%% refused, %.1f%% failed (%d of %d)",
		b.ink.verdict(r.Verdict), n.Offered, 100*n.AdmittedShare, 100*n.RefusedShare, 100*n.FailedShare, b.ended, b.of))
	if r.Verdict == result.Pass {
		return
	}
	for _, w := range r.Why {
		b.line(r.Name, "  "+w)
	}
	b.line(r.Name, "  "+dir+"/report.html")
}

// Sum says what came of all of them, how often each verdict.
func (b *Board) Sum(verdicts []result.Verdict, took time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	count := map[result.Verdict]int{}
	for _, v := range verdicts {
		count[v]++
	}
	var parts []string
	for _, v := range []result.Verdict{result.Pass, result.Inconclusive, result.Invalid, result.Missed} {
		if count[v] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[v], v))
		}
	}
	if n := b.of - len(verdicts); n > 0 {
		parts = append(parts, fmt.Sprintf("%d not carried out", n))
	}
	fmt.Fprintf(b.out, "\n%d scenarios in %v: %s\n", b.of, took.Round(time.Second), strings.Join(parts, ", "))
}
