//go:build unix

package chaos

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// setting reads a number that a long run is told by its environment.
func setting(t *testing.T, name string, without uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return without
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s is %q; it must be a number", name, text)
	}
	return n
}

// report fails the test with what was found.
func (w *world) report(f figures) {
	w.t.Logf("repeat with CHAOS_SEED=%d\n%v\nclients were told: %s", w.seed, f, w.tellings())
	for _, finding := range w.findings {
		w.t.Error(finding)
	}
	if w.found > len(w.findings) {
		w.t.Errorf("and %d more", w.found-len(w.findings))
	}
}

// tame fails the test where a history cannot have proved anything.
func (f figures) tame(t *testing.T, of ...*int) {
	t.Helper()
	for _, n := range append(of, &f.executions, &f.replays) {
		if *n == 0 {
			t.Errorf("too tame to prove anything: %v", f)
			return
		}
	}
}

// histories makes one short history of a kind, or its share of a long run, and
// fails the test where one breaks a property or cannot have proved anything:
// each of the figures that seen returns has to be above zero.
func histories(t *testing.T, o options, share float64, seen func(*figures) []*int) {
	requests, n := setting(t, "CHAOS_REQUESTS", 0), 1
	if requests > 0 {
		seeds := setting(t, "CHAOS_SEEDS", 40)
		o.requests = int(requests / max(1, seeds))
		n = max(1, int(math.Round(float64(seeds)*share)))
	} else {
		t.Parallel() // they mostly wait
	}
	begun, sums, seed := time.Now(), figures{}, setting(t, "CHAOS_SEED", uint64(time.Now().UnixNano()))
	for i := range uint64(n) {
		t.Run(fmt.Sprint("seed ", seed+i), func(t *testing.T) {
			w := newWorld(t, seed+i, o)
			f := w.run()
			w.report(f)
			f.tame(t, seen(&f)...)
			sums.add(f)
		})
	}
	if n > 1 {
		t.Logf("in all, over %d histories from seed %d, in %v: %v", n, seed, time.Since(begun).Round(time.Second), sums)
	}
}

// Properties 1, 2, 11 and 14: three gateways on one Redis, and everything going
// wrong that can. At most one execution for each record, and the first answer
// again for whoever repeats the request, whatever happened.
func TestHistories(t *testing.T) {
	histories(t, options{requests: 2000, last: 6 * time.Second}, 0.7, func(f *figures) []*int {
		return []*int{&f.kills, &f.orphaned, &f.stops, &f.partitions, &f.storeKills, &f.repliesLost, &f.inDoubt, &f.refused}
	})
}

// Property 15: where no gateway ends, clients, gateways and ledger count the
// same, however bad the store is.
func TestCounts(t *testing.T) {
	histories(t, options{requests: 800, last: 5 * time.Second, orderly: true}, 0.1, func(f *figures) []*int {
		return []*int{&f.stops, &f.partitions, &f.repliesLost, &f.inDoubt, &f.refused}
	})
}

// Property 1 for one gateway with a journal: killed again and again, it forgets
// nothing.
func TestJournal(t *testing.T) {
	histories(t, options{requests: 800, last: 5 * time.Second, journal: true}, 0.1, func(f *figures) []*int {
		return []*int{&f.kills, &f.orphaned, &f.inDoubt}
	})
}

// Under release, before an origin that deduplicates: at least one execution,
// one answer for all, nobody in doubt, and takeovers that say so.
func TestRelease(t *testing.T) {
	histories(t, options{requests: 800, last: 5 * time.Second, release: true}, 0.1, func(f *figures) []*int {
		return []*int{&f.kills, &f.orphaned, &f.takenOver}
	})
}

// The judge convicts gateways that do release what they should hold.
func TestTheJudgeConvicts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setting(t, "CHAOS_SEED", 1), options{requests: 500, last: 3 * time.Second, release: true, held: true})
	w.run()
	for _, finding := range w.findings {
		if strings.Contains(finding, "executed twice") {
			return
		}
	}
	t.Errorf("no execution was found to be one too many: %q", w.findings)
}
