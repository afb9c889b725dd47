package export

import (
	"fmt"
	"strconv"
	"strings"
)

// Alerts returns a file of Prometheus rules: what is recorded, and the alerts.
func Alerts(o Options) ([]byte, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, `# Rules for Prometheus to watch Sluice by, made by "sluice export alerts".
# Objectives: %s of the most important class's requests are accepted; queues are
# within their max_useful_age for %s of the time. No class, queue or job is named
# here: the gateways' own metrics say which class matters most and how long work
# may wait. severity is page or ticket.

groups:
  - name: sluice
    rules:
`, percent(o.Acceptance), percent(o.Completion))
	for _, r := range records() {
		fmt.Fprintf(&b, "      - record: %s\n", r.Name)
		writeExpr(&b, r.Expr)
	}
	b.WriteString("\n")
	for _, a := range alerts(o) {
		fmt.Fprintf(&b, "      - alert: %s\n", a.Name)
		writeExpr(&b, a.Expr)
		if a.For != "0s" {
			fmt.Fprintf(&b, "        for: %s\n", a.For)
		}
		fmt.Fprintf(&b, "        labels:\n          severity: %s\n", a.Severity)
		for _, l := range a.Labels {
			fmt.Fprintf(&b, "          %s: %s\n", l[0], l[1])
		}
		fmt.Fprintf(&b, "        annotations:\n          summary: %s\n          description: %s\n          runbook_url: %s\n",
			strconv.Quote(a.Summary), strconv.Quote(a.About), strconv.Quote(o.runbook(a.Name)))
	}
	return []byte(b.String()), nil
}

// writeExpr writes an expression as it reads best: on lines of its own.
func writeExpr(b *strings.Builder, expr string) {
	if !strings.Contains(expr, "\n") {
		fmt.Fprintf(b, "        expr: %s\n", expr)
		return
	}
	b.WriteString("        expr: |\n")
	for line := range strings.SplitSeq(expr, "\n") {
		fmt.Fprintf(b, "          %s\n", line)
	}
}
