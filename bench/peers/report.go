package peers

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"strings"
	"time"

	"sluice/bench/stats"
)

// titles of the kinds of work.
var titles = map[Work]string{
	Forward: "Forwarding a request that is within its tenant's limit",
	Refuse:  "Refusing a request that is over its tenant's limit",
	Replay:  "Replaying the answer to a key that has been answered before",
	Keyed:   "Requests with a new key, recorded in Redis (compared with Sluice)",
}

func estimate(e stats.Estimate, digits int) string {
	return fmt.Sprintf("%.*f (%.*f–%.*f)", digits, e.Value, digits, e.Low, digits, e.High)
}

// Markdown is the comparison as tables.
func (r *Result) Markdown() string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("%s", r.provenance())
	for _, w := range Works() {
		rows := r.of(w)
		if len(rows) == 0 {
			continue
		}
		p("\n### %s\n", titles[w])
		p("| program | CPU µs a request | against %[1]s | at full speed µs | against %[1]s | requests/s on one core | p50 µs | p99 µs | MiB |", bases[w])
		p("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
		for _, f := range rows {
			p("| %s | %s | %s | %s | %s | %s | %.0f | %s | %d |", f.Program, estimate(f.CPU, 1), ratio(f.CPURatio), estimate(f.Busy, 1), ratio(f.BusyRatio),
				estimate(f.Throughput, 0), f.P50.Value, estimate(f.P99, 0), f.Memory>>20)
		}
	}
	p("\nVersions:")
	seen := map[string]bool{}
	for _, f := range r.Figures {
		if !seen[f.Program] {
			seen[f.Program] = true
			p("%s %s;", f.Program, strings.TrimSpace(f.Version))
		}
	}
	for _, m := range r.Missing {
		p("not measured: %s.", m)
	}
	return b.String()
}

func ratio(e stats.Estimate) string {
	if e.Value == 0 {
		return "–"
	}
	return estimate(e, 2)
}

func (r *Result) of(w Work) (rows []*Figure) {
	for _, f := range r.Figures {
		if f.Work == w {
			rows = append(rows, f)
		}
	}
	return rows
}

func (r *Result) provenance() string {
	where := "not bound to a core"
	if r.CPU != "" {
		where = "bound to core " + r.CPU + ", load and origin to the others"
	}
	return fmt.Sprintf("Medians of %d rounds of %s each, with 95%% intervals. CPU and response times at %.0f requests/s in an open loop; the program measured was %s. Requests were sent %.0f µs late at p99. The generator itself gets %.0f requests a second answered by a target that does nothing; throughputs near that are its own. %s, on %s, %s.",
		r.Rounds, r.Span, r.Rate, where, r.Lag, r.Ceiling, r.Started.UTC().Format(time.RFC3339), r.Machine, r.Go)
}

//go:embed peers.tmpl.html
var page string

// bar is one row of a plot, in percent of the plot's width.
type bar struct {
	Name, Text       string
	Width, Low, Span float64
	Ours             bool
}

type plot struct {
	Title, Note string
	Bars        []bar
}

type section struct {
	Title string
	Plots []plot
}

// HTML is the comparison as plots and a table, in one page.
func (r *Result) HTML() ([]byte, error) {
	var sections []section
	for _, w := range Works() {
		rows := r.of(w)
		if len(rows) == 0 {
			continue
		}
		sections = append(sections, section{titles[w], []plot{
			plotOf(rows, "CPU for one request", "µs; shorter is better", func(f *Figure) stats.Estimate { return f.CPU }, "%.1f µs"),
			plotOf(rows, "Requests a second on one core", "longer is better", func(f *Figure) stats.Estimate { return f.Throughput }, "%.0f/s"),
			plotOf(rows, "Response time, 99th percentile", "µs; shorter is better", func(f *Figure) stats.Estimate { return f.P99 }, "%.0f µs"),
		}})
	}
	t, err := template.New("peers").Parse(page)
	if err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, map[string]any{"Sections": sections, "Provenance": r.provenance(), "Figures": r.Figures, "Missing": r.Missing}); err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	return b.Bytes(), nil
}

func plotOf(rows []*Figure, title, note string, get func(*Figure) stats.Estimate, format string) plot {
	most := 0.0
	for _, f := range rows {
		most = max(most, get(f).High, get(f).Value)
	}
	p := plot{Title: title, Note: note}
	for _, f := range rows {
		e := get(f)
		p.Bars = append(p.Bars, bar{
			Name: f.Program, Text: fmt.Sprintf(format, e.Value), Ours: f.Program == "sluice",
			Width: 100 * e.Value / most, Low: 100 * e.Low / most, Span: 100 * (e.High - e.Low) / most,
		})
	}
	return p
}
