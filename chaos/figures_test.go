//go:build unix

package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// figures are what a history amounts to.
type figures struct {
	requests, records, arrived, executions int
	replays, inDoubt, inProgress, reused   int
	refused, unanswered, resolved          int // refused for want of the store; clients that never learnt what became of it
	kills, orphaned, stops, replaced       int // orphaned: requests at the origin whose gateway was killed
	partitions, storeKills, repliesLost    int
	takenOver, violations                  int
}

func (w *world) figures() figures {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := &w.sums
	f.requests, f.records, f.arrived, f.violations = int(w.ops.Load()), len(w.byRecord), len(w.origin.entries)-1, w.found
	for _, e := range w.origin.entries[1:] {
		if e.executed() {
			f.executions++
		}
	}
	f.replays, f.inDoubt, f.inProgress, f.reused = w.told["replayed"], w.told["in_doubt"]+w.told["key_in_doubt"]+w.told["origin_failed"]+w.told["origin_timeout"], w.told["key_in_progress"], w.told["key_reused"]
	f.refused, f.unanswered = w.told["store_unavailable"], w.told["hung up"]+w.told["lost"]+w.told["cut"]
	for _, p := range w.ways {
		f.repliesLost += p.Dropped()
	}
	return *f
}

func (f *figures) add(g figures) {
	for i, p := range f.all() {
		*p += *g.all()[i]
	}
}

func (f *figures) all() []*int {
	return []*int{
		&f.requests, &f.records, &f.arrived, &f.executions, &f.replays, &f.inDoubt, &f.inProgress, &f.reused, &f.refused,
		&f.unanswered, &f.resolved, &f.kills, &f.orphaned, &f.stops, &f.replaced, &f.partitions, &f.storeKills, &f.repliesLost,
		&f.takenOver, &f.violations,
	}
}

func (f figures) String() string {
	names := []string{
		"requests", "records", "arrived at the origin", "executions", "replays", "told of a doubt", "told it is running", "told it is another's",
		"refused for want of the store", "unanswered", "resolved by the operator", "kills", "requests orphaned by them", "stops past the lease", "replacements",
		"partitions", "kills of Redis", "replies lost", "takeovers", "violations",
	}
	var b strings.Builder
	for i, p := range f.all() {
		fmt.Fprintf(&b, "%d %s, ", *p, names[i])
	}
	return strings.TrimSuffix(b.String(), ", ")
}

// tellings shows what clients were told, and how often.
func (w *world) tellings() string {
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(w.told)) {
		fmt.Fprintf(&b, "%s %d, ", what, w.told[what])
	}
	return strings.TrimSuffix(b.String(), ", ")
}

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
