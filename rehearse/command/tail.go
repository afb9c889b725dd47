package command

import (
	"encoding/json"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"sluice/admission"
)

// tailed is a decision of the tail.
type tailed struct {
	N uint64 `json:"n"` // its place in the tail's order
	decision
	DoneUS int64 `json:"done_us"`
}

// which says what decisions are wanted; an empty list wants all.
type which struct{ verdicts, reasons, classes, tenants, routes []string }

func (w *which) add(c *cobra.Command) {
	f := c.Flags()
	f.StringSliceVar(&w.verdicts, "verdict", nil, "only these: admit, replay, refuse")
	f.StringSliceVar(&w.reasons, "reason", nil, "only what was refused, would be in shadow, or failed for these `reasons`")
	f.StringSliceVar(&w.classes, "class", nil, "only these `classes`")
	f.StringSliceVar(&w.tenants, "tenant", nil, "only these `tenants`")
	f.StringSliceVar(&w.routes, "route", nil, "only these `routes`")
	_ = c.RegisterFlagCompletionFunc("verdict", cobra.FixedCompletions([]string{"admit", "replay", "refuse"}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("reason", cobra.FixedCompletions(reasonNames(), cobra.ShellCompDirectiveNoFileComp))
}

func reasonNames() []string {
	var names []string
	for _, r := range admission.Reasons() {
		names = append(names, r.String())
	}
	return names
}

// check refuses words that no decision has: they would match nothing, quietly.
func (w *which) check() error {
	for _, v := range w.verdicts {
		if !slices.Contains([]string{"admit", "replay", "refuse"}, v) {
			return fmt.Errorf("--verdict: %q is none; write admit, replay or refuse", v)
		}
	}
	for _, r := range w.reasons {
		if !slices.Contains(reasonNames(), r) {
			return fmt.Errorf("--reason: %q is none; write one of %s", r, strings.Join(reasonNames(), ", "))
		}
	}
	return nil
}

func (w *which) wants(d *tailed) bool {
	of := func(list []string, values ...string) bool {
		return len(list) == 0 || slices.ContainsFunc(values, func(v string) bool { return v != "" && slices.Contains(list, v) })
	}
	return of(w.verdicts, d.Verdict) && of(w.reasons, d.Reason, d.Shadow, d.Failure) &&
		of(w.classes, d.Class) && of(w.tenants, d.Tenant) && of(w.routes, d.Route)
}

// Tail is "sluice tail".
func Tail() *cobra.Command {
	var a adminFlags
	var out format
	var w which
	var lines int
	var once bool
	c := &cobra.Command{
		Use:   "tail",
		Short: "Show the decisions of a running gateway as they are made",
		Long: `Show the decisions of a running gateway as they are made, the latest last: first the
last few that it remembers, then what comes. Of each reason the gateway keeps up to 20
a second, so a rare one is not lost among many; all of them are in its metrics, and
refusals in its decision log.

It goes on across restarts of the gateway, and tells on standard error when it lost
the gateway and what it missed. With --format json, a line is a JSON object.

Exit code 0: ended by Ctrl-C, or --once; 4: the gateway cannot be asked.`,
		Example: `  sluice tail --verdict refuse
  sluice tail --tenant acme --reason shed,deferred --format json
  sluice tail --once --lines 100`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := w.check(); err != nil {
				return usage(err)
			}
			t := &tailer{which: w, out: c.OutOrStdout(), notes: c.ErrOrStderr(), json: out.json(), first: max(lines, 0), address: a.address}
			if once {
				var s feedState
				if _, err := a.get(c.Context(), "/api/v1/state", &s); err != nil {
					return err
				}
				t.state(&s)
				return wrote(t.err)
			}
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			t.stop = stop // a reader that is gone, such as head, ends it
			err := a.follow(ctx, feed{state: t.state, tick: func(k *feedTick) { t.take(k.Tail) }, lost: t.lost})
			if err == nil {
				err = wrote(t.err)
			}
			return err
		},
	}
	a.add(c)
	out.add(c)
	w.add(c)
	c.Flags().IntVarP(&lines, "lines", "n", 10, "how `many` of the decisions remembered to show first")
	c.Flags().BoolVar(&once, "once", false, "show those, and do not wait for more")
	return c
}

// tailer writes the decisions that it is told of.
type tailer struct {
	which
	out, notes io.Writer
	json       bool
	first      int    // how many to show of those that are remembered at first
	address    string // of the gateway
	stop       func() // called where out fails
	err        error  // of out, or of what the gateway says

	instance string // of the gateway; "" before the first state
	seen     uint64 // the last decision's place in the order
	away     bool
}

func (t *tailer) note(format string, args ...any) {
	fmt.Fprintf(t.notes, "sluice: "+format+"\n", args...)
}

func (t *tailer) lost(error) {
	if !t.away {
		t.note("the gateway at %s does not answer; trying again", t.address)
	}
	t.away = true
}

// state takes what a gateway remembers: at first the last few that are wanted,
// after an interruption all that came meanwhile.
func (t *tailer) state(s *feedState) {
	switch {
	case t.instance == "":
		lines := t.read(s.Tail)
		if n := len(lines); n > 0 {
			t.seen = lines[n-1].N
		}
		lines = slices.DeleteFunc(lines, func(l line) bool { return !t.wants(&l.tailed) })
		for _, l := range lines[max(0, len(lines)-t.first):] {
			t.write(&l)
		}
	case t.instance != s.Instance:
		t.note("the gateway at %s was started anew; its last decisions before that may be missing here", t.address)
		t.seen = 0
		t.take(s.Tail)
	default:
		t.note("the gateway at %s answers again", t.address)
		t.take(s.Tail)
	}
	t.instance, t.away = s.Instance, false
}

// take writes those decisions that have not been seen and are wanted, and tells
// of a gap before them.
func (t *tailer) take(tail []json.RawMessage) {
	for _, l := range t.read(tail) {
		if l.N <= t.seen {
			continue
		}
		if missed := l.N - t.seen - 1; missed > 0 {
			t.note("%d decisions are missing here: the gateway no longer remembers them", missed)
		}
		t.seen = l.N
		if t.wants(&l.tailed) {
			t.write(&l)
		}
	}
}

// line is a decision, and how the gateway wrote it.
type line struct {
	tailed
	raw json.RawMessage
}

func (t *tailer) read(tail []json.RawMessage) []line {
	lines := make([]line, len(tail))
	for i, raw := range tail {
		lines[i].raw = raw
		if err := json.Unmarshal(raw, &lines[i].tailed); err != nil {
			t.fail(err)
		}
	}
	return lines
}

func (t *tailer) write(l *line) {
	text := string(l.raw)
	if !t.json {
		text = l.text()
	}
	if _, err := fmt.Fprintln(t.out, text); err != nil {
		t.fail(err)
	}
}

func (t *tailer) fail(err error) {
	if t.err == nil {
		t.err = err
	}
	if t.stop != nil {
		t.stop()
	}
}

// text is a decision in a line: when, what and why, whose, where, and what the
// client got.
func (d *tailed) text() string {
	tenant := printable(d.Tenant)
	if tenant == "" {
		tenant = "-"
	}
	answer := "-"
	if d.Status != 0 {
		answer = fmt.Sprint(d.Status)
	}
	if d.RetryAfter > 0 {
		answer += fmt.Sprintf(" retry after %ds", d.RetryAfter)
	}
	took := time.Duration(d.DoneUS) * time.Microsecond
	return fmt.Sprintf("%s  %-7s %-18s %-16s %-16s %-10s %s, %s, %s", d.Time.Local().Format("15:04:05.000"),
		d.Verdict, d.why(), tenant, d.Route, d.Class, d.ID, answer, took)
}

// why is the word that says most about a decision.
func (d *decision) why() string {
	switch {
	case d.Verdict == "refuse":
		return d.Reason
	case d.Failure != "":
		return d.Failure
	case d.Shadow != "":
		return "shadow:" + d.Shadow
	}
	return "-"
}
