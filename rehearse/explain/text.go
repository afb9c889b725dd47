package explain

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// WriteText writes the explanation for people.
func (e *Explanation) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nunder %s (%s)\n\n", e.Request, e.Config, e.Hash)
	e.Recorded.write(&b)
	name, outcome := 0, 0
	for _, s := range e.Steps {
		name, outcome = max(name, len(s.Name)), max(outcome, len(s.Outcome))
	}
	for i, s := range e.Steps {
		fmt.Fprintf(&b, "%d. %-*s  %-*s  %s\n", i+1, name, s.Name, outcome, s.Outcome, s.Says)
		indent := strings.Repeat(" ", 3+name+2+outcome+2)
		if s.Where != "" {
			fmt.Fprintf(&b, "%s%s %s\n", indent, s.Where, s.Path)
		}
		for _, f := range s.Saw {
			fmt.Fprintf(&b, "%s  %s: %s\n", indent, f.What, f.Value)
		}
	}
	fmt.Fprintf(&b, "\n%s", e.Verdict)
	if e.Reason != "none" {
		fmt.Fprintf(&b, ": %s", e.Reason)
	}
	if e.Verdict == "admit" {
		fmt.Fprintf(&b, ": nothing refuses it (%s %s)\n", e.Where, e.Path)
	} else {
		fmt.Fprintf(&b, ", decided by %s (%s %s)\n", e.DecidedBy, e.Where, e.Path)
	}
	if e.Shadow != "none" {
		fmt.Fprintf(&b, "in shadow it would have been refused: %s\n", e.Shadow)
	}
	if e.Wire.Status == 0 {
		b.WriteString("it goes to the origin, and the client gets what that answers\n")
	} else {
		fmt.Fprintf(&b, "the client gets %d", e.Wire.Status)
		if e.Wire.Title != "" {
			fmt.Fprintf(&b, " %s", e.Wire.Title)
		}
		b.WriteByte('\n')
		for _, f := range e.Wire.Fields {
			fmt.Fprintf(&b, "  %s: %s\n", f.What, f.Value)
		}
	}
	if len(e.Otherwise) > 0 {
		b.WriteString("\nwhat would have changed it, the nearest first:\n")
		for _, o := range e.Otherwise {
			fmt.Fprintf(&b, "- %s\n", o)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// write tells the recorded decision, if there is one.
func (r *Recorded) write(b *strings.Builder) {
	if r == nil {
		return
	}
	fmt.Fprintf(b, "recorded as %s, %s: %s", r.ID, r.Received.Format(time.RFC3339Nano), r.Verdict)
	if r.Reason != "none" {
		fmt.Fprintf(b, ": %s", r.Reason)
	}
	if r.Status != 0 {
		fmt.Fprintf(b, "; the client got %d", r.Status)
	}
	if r.RetryAfter > 0 {
		fmt.Fprintf(b, ", Retry-After: %d", r.RetryAfter)
	}
	b.WriteByte('\n')
	if r.Failure != "" {
		fmt.Fprintf(b, "  it failed: %s, outcome %s %s\n", r.Failure, r.Outcome, r.Detail)
	}
	for _, f := range r.Saw {
		fmt.Fprintf(b, "  %s: %s\n", f.What, f.Value)
	}
	if r.Differs != "" {
		fmt.Fprintf(b, "  what follows comes out otherwise: %s\n", r.Differs)
	}
	b.WriteByte('\n')
}

// WriteJSON writes the explanation for programs.
func (e *Explanation) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(e)
}
