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
