// Package console shows a run while it goes on: a view that redraws itself on a
// terminal, a line every few seconds elsewhere. Runs beside each other share a
// [Board].
package console

import (
	"fmt"
	"io"
	"sort"
	"strings"
	"sync"
	"time"

	"sluice/bench/load"
	"sluice/bench/result"
	"sluice/bench/run"
)

// Console writes to one place. Its methods may be called at once.
type Console struct {
	mu    sync.Mutex
	out   io.Writer
	live  bool
	ink   ink
	lines int // of the view on screen
	last  run.Progress
	have  bool
	shown time.Duration // when the last plain line was written
}

// plainEvery is the distance of plain lines.
const plainEvery = 5 * time.Second

// New shows on w: plain lines, where that is no terminal.
func New(w io.Writer) *Console {
	live, color := terminal(w)
	return &Console{out: w, live: live, ink: color}
}

// Note says what happens.
func (c *Console) Note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
	fmt.Fprintf(c.out, "%s\n", c.ink.paint("2", "· "+fmt.Sprintf(format, args...)))
}

// Progress shows how far the run is.
func (c *Console) Progress(p *run.Progress) {
	c.mu.Lock()
	defer c.mu.Unlock()
	prev := c.last
	if !c.have {
		prev = run.Progress{}
	}
	if !c.live {
		if p.Live.Elapsed-c.shown < plainEvery-100*time.Millisecond {
			return
		}
		c.shown = p.Live.Elapsed
		fmt.Fprintln(c.out, line(p, &prev))
		c.last, c.have = *p, true
		return
	}
	c.clear()
	view := c.view(p, &prev)
	// Lines do not wrap meanwhile, so that a narrow terminal has as many of them
	// as are cleared.
	fmt.Fprint(c.out, "\x1b[?7l"+view+"\x1b[?7h")
	c.lines = strings.Count(view, "\n")
	c.last, c.have = *p, true
}

// clear removes the view from the screen.
func (c *Console) clear() {
	if c.lines > 0 {
		fmt.Fprintf(c.out, "\x1b[%dA\x1b[J", c.lines)
		c.lines = 0
	}
}

// Done ends the view.
func (c *Console) Done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
}

// rates of what happened between two readings.
type rates struct {
	span                              float64
	offered, admitted, refused, other float64
	done                              float64
}

func ratesOf(p, prev *run.Progress) rates {
	r := rates{span: max((p.Live.Elapsed - prev.Live.Elapsed).Seconds(), 0.001)}
	per := func(n int64) float64 { return float64(n) / r.span }
	ended := func(es ...load.Ending) (n int64) {
		for _, e := range es {
			n += p.Live.Ended(e) - prev.Live.Ended(e)
		}
		return n
	}
	r.offered = per(p.Live.Offered - prev.Live.Offered)
	r.admitted = per(ended(load.Admitted, load.Replayed))
	r.refused = per(ended(load.Refused))
	r.other = per(ended(load.Conflicted, load.Failed, load.TimedOut, load.Broken, load.Unsent))
	r.done = per(p.Done - prev.Done)
	return r
}

// line is the progress in one line.
func line(p, prev *run.Progress) string {
	r := ratesOf(p, prev)
	var b strings.Builder
	fmt.Fprintf(&b, "%4.0fs %-12s offered %.0f/s  admitted %.0f/s  refused %.0f/s", p.Live.Elapsed.Seconds(), p.Stage.Name, r.offered, r.admitted, r.refused)
	if why := reasons(p, prev); why != "" {
		fmt.Fprintf(&b, " (%s)", why)
	}
	if r.other > 0 {
		fmt.Fprintf(&b, "  other %.0f/s", r.other)
	}
	fmt.Fprintf(&b, "  done %.0f/s  oldest %s", r.done, short(p.Signal.OldestAge))
	for _, cl := range p.Live.Classes {
		fmt.Fprintf(&b, "  %s %s", cl.Name, latency(&cl))
	}
	return b.String()
}

func reasons(p, prev *run.Progress) string {
	now, then := p.Live.Reasons(), prev.Live.Reasons()
	var parts []string
	for k, n := range now {
		if d := n - then[k]; d > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", k, d))
		}
	}
	sort.Strings(parts)
	return strings.Join(parts, ", ")
}

func latency(c *load.LiveClass) string {
	switch {
	case c.P99 > 0:
		return "p99 " + short(c.P99)
	case c.Max > 0:
		return "max " + short(c.Max)
	}
	return "–"
}

func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%dms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1fms", float64(d.Microseconds())/1000)
}

// view is the progress as a block of lines.
func (c *Console) view(p, prev *run.Progress) string {
	r := ratesOf(p, prev)
	var b strings.Builder
	const width = 30
	full := min(width, int(width*p.Live.Elapsed/max(p.Total, 1)))
	fmt.Fprintf(&b, "\n%s  %s%s  %.0f of %.0f s\n", c.ink.paint("1", fmt.Sprintf("%-14s", p.Stage.Name)),
		c.ink.paint("36", strings.Repeat("━", full)), c.ink.paint("2", strings.Repeat("─", width-full)), p.Live.Elapsed.Seconds(), p.Total.Seconds())
	fmt.Fprintf(&b, "offered %7.0f/s   admitted %7.0f/s   refused %7.0f/s   other %5.0f/s   done %7.0f/s\n", r.offered, r.admitted, r.refused, r.other, r.done)
	fmt.Fprintf(&b, "oldest work %s   waiting %d   under way %d   will come back %d\n", short(p.Signal.OldestAge), p.Signal.Depth, p.Live.InFlight, p.Live.Waiting)
	if why := reasons(p, prev); why != "" {
		fmt.Fprintf(&b, "%s\n", c.ink.paint("33", why))
	}
	for i, cl := range p.Live.Classes {
		var old load.LiveClass
		if i < len(prev.Live.Classes) {
			old = prev.Live.Classes[i]
		}
		offered := float64(cl.Offered-old.Offered) / r.span
		in := float64(cl.Endings[load.Admitted]+cl.Endings[load.Replayed]-old.Endings[load.Admitted]-old.Endings[load.Replayed]) / r.span
		fmt.Fprintf(&b, "  %-14s %7.0f/s offered %7.0f/s admitted   %s\n", cl.Name, offered, in, latency(&cl))
	}
	return b.String()
}

// Verdict shows how the run ended.
func (c *Console) Verdict(r *result.Result, dir string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
	fmt.Fprintf(c.out, "\n%s  %s\n", c.ink.verdict(r.Verdict), r.Name)
	for _, w := range r.Why {
		fmt.Fprintf(c.out, "  %s\n", w)
	}
	fmt.Fprintf(c.out, "\n  %-12s %9s %9s %9s %9s %10s %10s\n", "class", "offered", "admitted", "refused", "in time", "p50", "p99")
	for _, n := range append(append([]result.Numbers{}, r.Classes...), r.Total) {
		inTime := "–"
		if n.Accepted > 0 {
			inTime = fmt.Sprintf("%.1f%%", 100*float64(n.InTime)/float64(n.Accepted))
		}
		fmt.Fprintf(c.out, "  %-12s %9d %8.1f%% %8.1f%% %9s %10s %10s\n", n.Name, n.Offered, 100*n.AdmittedShare, 100*n.RefusedShare, inTime, maybe(n.Response.P50), maybe(n.Response.P99))
	}
	for _, t := range r.Thresholds {
		mark := map[string]string{"met": c.ink.paint("32", "✓"), "missed": c.ink.paint("31", "✗")}[t.Result]
		if mark == "" {
			mark = c.ink.paint("33", "?")
		}
		fmt.Fprintf(c.out, "  %s %s: %s, wanted %s\n", mark, t.What, t.Value, t.Bound)
	}
	if dir != "" {
		fmt.Fprintf(c.out, "\n  %s/report.html\n", dir)
	}
}

func maybe(v *float64) string {
	if v == nil {
		return "–"
	}
	return short(time.Duration(*v * float64(time.Second)))
}
