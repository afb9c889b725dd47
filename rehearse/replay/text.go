package replay

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	b := &strings.Builder{}
	s := &r.Recording
	fmt.Fprintf(b, "recorded   %d decisions and %d readings in %s, from %s\n", s.Decisions, s.Readings,
		s.To.Sub(s.From).Round(time.Second), s.From.Format("2006-01-02 15:04:05 MST"))
	for _, p := range s.Policies {
		fmt.Fprintf(b, "under      %s (%s)\n", p.File, p.Hash)
	}
	completeness := "complete"
	if !s.Complete {
		completeness = "not complete; see the warnings"
	}
	fmt.Fprintf(b, "recording  %s\n", completeness)
	same := ""
	if r.Same {
		same = ", the policy that was recorded: a check of itself"
	}
	fmt.Fprintf(b, "replayed   under %s (%s)%s\n", r.Candidate.File, r.Candidate.Hash, same)
	for _, text := range r.Warnings {
		fmt.Fprintf(b, "warning    %s\n", text)
	}
	fmt.Fprintf(b, "\n%d of %d decisions change", r.Changed, r.Compared)
	if r.Compared > 0 {
		fmt.Fprintf(b, " (%s)", percent(r.Changed, r.Compared))
	}
	b.WriteString("\n")
	for _, n := range r.Taken {
		fmt.Fprintf(b, "%d more are taken as recorded: %s\n", n.Count, n.What)
	}
	if r.Reclassed > 0 {
		fmt.Fprintf(b, "%d have another class\n", r.Reclassed)
	}
	r.outcomes(b)
	r.groups(b, "class", r.Classes, false)
	r.groups(b, "tenant", r.Tenants, true)
	r.groups(b, "route", r.Routes, true)
	r.changes(b)
	r.curve(b)
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteJSON writes the report for programs.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

func percent(n, of int) string {
	if of == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f%%", 100*float64(n)/float64(of))
}

func (r *Report) outcomes(b *strings.Builder) {
	words := map[string]bool{}
	for word := range r.Recorded {
		words[word] = true
	}
	for word := range r.Replayed {
		words[word] = true
	}
	if len(words) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%-26s %9s %9s\n", "outcome", "recorded", "replayed")
	for _, word := range slices.Sorted(maps.Keys(words)) {
		fmt.Fprintf(b, "%-26s %9d %9d\n", word, r.Recorded[word], r.Replayed[word])
	}
}

// groups writes what is admitted of each; of those that changed only, if there
// are many.
func (r *Report) groups(b *strings.Builder, what string, groups []Group, changed bool) {
	if changed {
		groups = slices.DeleteFunc(slices.Clone(groups), func(g Group) bool { return g.Changed == 0 })
	}
	if len(groups) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%-26s %9s %9s %9s %9s\n", what, "requests", "admitted", "replayed", "changed")
	for _, g := range groups {
		name := g.Name
		if name == "" {
			name = "(not identified)"
		}
		fmt.Fprintf(b, "%-26s %9d %9s %9s %9d\n", name, g.Requests, percent(g.Recorded, g.Requests), percent(g.Replayed, g.Requests), g.Changed)
	}
}

// shownChanges is how many kinds of change are written.
const shownChanges = 12

func (r *Report) changes(b *strings.Builder) {
	if len(r.Changes) == 0 {
		return
	}
	fmt.Fprintf(b, "\nchanges, the most common first; look at one with: sluice explain --log FILE --id ID\n")
	for _, c := range r.Changes[:min(len(r.Changes), shownChanges)] {
		fmt.Fprintf(b, "%7d  %s -> %s  %s, %s; such as %s of %s\n", c.Count, c.From, c.To, c.Class, c.Route, c.Example, c.Tenant)
	}
	if more := len(r.Changes) - shownChanges; more > 0 {
		fmt.Fprintf(b, "         and %d more kinds\n", more)
	}
}

// bars are eighths of a share.
var bars = []rune("▁▂▃▄▅▆▇█")

func (r *Report) curve(b *strings.Builder) {
	longest, width := 0, 5
	for _, c := range r.Curve.Classes {
		longest, width = max(longest, len(c.Points)), max(width, len(c.Class))
	}
	if longest < 2 {
		return
	}
	fmt.Fprintf(b, "\nshare admitted over time, %s a column; %c none, %c all, · no requests\n", r.Curve.Every, bars[0], bars[len(bars)-1])
	for _, c := range r.Curve.Classes {
		row := func(name, what string, let func(Point) int) {
			fmt.Fprintf(b, "%-*s  %s  ", width, name, what)
			for _, p := range c.Points {
				if p.Requests == 0 {
					b.WriteRune('·')
					continue
				}
				b.WriteRune(bars[let(p)*(len(bars)-1)/p.Requests])
			}
			b.WriteByte('\n')
		}
		row(c.Class, "recorded", func(p Point) int { return p.Recorded })
		row("", "replayed", func(p Point) int { return p.Replayed })
	}
}
