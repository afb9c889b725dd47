package result

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice/bench/load"
	"sluice/bench/target"
)

// count holds the three parties' counts against each other.
func (r *Result) count(all *load.ClassInterval, facts *ledgerFacts, f Facts) {
	e := all.Endings
	doubt := e[load.TimedOut] + e[load.Broken]
	// -1 stands for "does not count this".
	gateway := func(n int64) int64 { return -1 }
	c := &target.Counters{}
	if f.Counters != nil {
		c = f.Counters
		gateway = func(n int64) int64 { return n }
	}
	add := func(what string, client, gw, org, doubt int64) {
		n := Count{What: what, Client: client, Gateway: gw, Origin: org, Doubt: doubt, OK: true}
		for _, other := range []int64{gw, org} {
			n.OK = n.OK && (other < 0 || other >= client && other <= client+doubt)
		}
		r.Counts = append(r.Counts, n)
	}
	// Answers that the origin itself gave, and reasons that a gateway gave.
	answered := e[load.Admitted]
	given := map[string]int64{}
	for reason, n := range all.Reasons {
		switch code, own := strings.CutPrefix(reason, "origin_"); {
		case own && code[0] >= '0' && code[0] <= '9':
			answered += n
		case !slices.Contains([]string{"timeout", "closed", "connection", "unsent"}, reason):
			given[reason] = n
		}
	}
	names := map[string]bool{}
	var failures int64
	for k, n := range c.Failures {
		names[k] = true
		failures += n
	}
	for _, m := range []map[string]int64{c.Reasons, given} {
		for k := range m {
			names[k] = true
		}
	}
	add("received", all.Offered-e[load.Unsent]-doubt, gateway(c.Received), -1, doubt)
	// What failed may have been recorded nevertheless.
	add("recorded", e[load.Admitted], -1, facts.totals.Recorded, e[load.Failed]+doubt)
	add("answered by the origin", answered, gateway(c.Verdicts["admit"]-failures), -1, doubt)
	if n := c.Verdicts["replay"]; n+e[load.Replayed] > 0 {
		add("replayed", e[load.Replayed], gateway(n), -1, doubt)
	}
	for _, k := range slices.Sorted(maps.Keys(names)) {
		add(k, given[k], gateway(c.Reasons[k]+c.Failures[k]), -1, doubt)
	}
}

// String is the count in words.
func (n Count) String() string {
	s := fmt.Sprintf("%s: clients %d", n.What, n.Client)
	if n.Gateway >= 0 {
		s += fmt.Sprintf(", gateway %d", n.Gateway)
	}
	if n.Origin >= 0 {
		s += fmt.Sprintf(", origin %d", n.Origin)
	}
	return s + fmt.Sprintf(" (up to %d more are in doubt)", n.Doubt)
}
