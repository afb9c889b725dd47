//go:build unix

package chaos

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// compareCounts holds what the gateways have counted against what clients were
// told and what the ledger says. It needs a world in which none has ended.
func (w *world) compareCounts() {
	sent, admitted := 0, len(w.origin.snapshot())
	told, results := map[string]int{}, map[string]int{}
	hungUp := 0
	for _, ops := range w.byRecord {
		for _, o := range ops {
			sent++
			switch {
			case o.fate == "hung up":
				hungUp++ // each of them has arrived: see plan
			case o.fate != "answered":
				w.violate("%v: nobody ended, and still it was not answered", o)
			case o.replayed:
				told["replay"]++
				results[o.keyStatus]++
			case o.reason == "store_unavailable":
				told[o.reason]++
				results[o.reason]++
			default:
				told[o.reason]++
				results[o.keyStatus]++
				if (o.reason == "origin_unreachable" || o.reason == "origin_full") && w.origin.entryFor(o.id) == nil {
					admitted++
				}
			}
		}
	}
	sum := func(name string, labels ...string) (n int) {
		for _, g := range w.all {
			m, err := g.now.Load().metrics()
			if err != nil {
				w.violate("gateway %d: %v", g.n, err)
				return 0
			}
			n += m.sum(name, labels...)
		}
		return n
	}
	same := func(what string, want, got int) {
		if want != got {
			w.violate("clients and ledger count %d %s, gateways %d", want, what, got)
		}
	}
	same("requests", sent, sum("sluice_requests_received_total"))
	same("requests in flight", 0, sum("sluice_requests_in_flight"))
	same("admitted", admitted, sum("sluice_decisions_total", `verdict="admit"`))
	same("replays", told["replay"], sum("sluice_decisions_total", `verdict="replay"`))
	for _, reason := range []string{"key_in_progress", "key_in_doubt", "key_reused", "store_unavailable"} {
		same(reason, told[reason], sum("sluice_decisions_total", `verdict="refuse"`, `reason="`+reason+`"`))
	}
	checks := 0
	for _, result := range []string{"fresh", "replayed", "in_progress", "reused", "in_doubt", "not_stored", "bypassed", "store_unavailable"} {
		n := sum("sluice_idempotency_checks_total", `result="`+result+`"`)
		checks += n
		if n < results[result] || n > results[result]+hungUp {
			w.violate("clients were told %s %d times (and %d hung up), gateways count %d", result, results[result], hungUp, n)
		}
	}
	same("checks of keys", sent, checks)
}

// snapshot returns the ledger as it is now.
func (o *origin) snapshot() []*entry {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.entries[1:])
}

// metrics reads what the process counts.
func (p *process) metrics() (metrics, error) {
	res, err := http.Get("http://" + p.admin + "/metrics")
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return readMetrics(res.Body)
}

// metrics are a gateway's counters, by name and labels as they are written.
type metrics map[string]float64

func readMetrics(in io.Reader) (metrics, error) {
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	m := metrics{}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		series, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if !ok {
			if series, value, ok = strings.Cut(strings.TrimSpace(line), " "); !ok {
				continue
			}
		} else {
			series += "}"
		}
		var v float64
		if _, err := fmt.Sscan(value, &v); err != nil {
			return nil, fmt.Errorf("metrics: %q: %w", line, err)
		}
		m[series] = v
	}
	return m, nil
}

// sum adds up the series of a name whose labels are among others these, each
// written label="value".
func (m metrics) sum(name string, labels ...string) (total int) {
	for series, v := range m {
		of, rest, _ := strings.Cut(series, "{")
		if of != name {
			continue
		}
		all := true
		for _, l := range labels {
			all = all && strings.Contains(rest, l)
		}
		if all {
			total += int(v)
		}
	}
	return total
}
