package origin

import (
	"strconv"
	"testing"
	"time"
)

func TestRepeatsAreToldFromNewEffects(t *testing.T) {
	l := newLedger(100)
	for _, e := range []Entry{
		{Tenant: "a", Key: "k", Body: 1},
		{Tenant: "a", Key: "k", Body: 1}, // again
		{Tenant: "a", Key: "k", Body: 2}, // again, and different
		{Tenant: "b", Key: "k", Body: 1}, // another tenant's key
		{Effect: "7"},
		{Effect: "7"}, // again
		{}, {},        // nothing to know them by
	} {
		l.record(e)
	}
	want := Totals{Recorded: 8, Distinct: 5, Duplicates: 3, Conflicts: 1}
	if got := l.Totals(); got != want {
		t.Errorf("totals %+v, wanted %+v", got, want)
	}
}

// The ledger stays within its limit and its totals stay true, and it says how
// much it forgot.
func TestMemoryIsBounded(t *testing.T) {
	const limit, n = 64, 10_000
	l := newLedger(limit)
	for i := range n {
		id := l.record(Entry{Effect: strconv.Itoa(i)})
		l.done(id, time.Unix(int64(i), 0))
	}
	l.done(0, time.Unix(0, 0)) // forgotten long ago: counts, and touches nothing
	if len(l.entries) != limit || len(l.seen) != limit {
		t.Errorf("%d entries and %d effects remembered, the limit is %d", len(l.entries), len(l.seen), limit)
	}
	want := Totals{Recorded: n, Executed: n + 1, Distinct: n, Forgotten: n - limit}
	if got := l.Totals(); got != want {
		t.Errorf("totals %+v, wanted %+v", got, want)
	}
	next := int64(n - limit)
	l.Each(func(e *Entry) bool {
		if e.ID != next || e.Done.Unix() != next {
			t.Fatalf("entry %d, done %v, where %d was expected", e.ID, e.Done.Unix(), next)
		}
		next++
		return true
	})
	if next != n {
		t.Errorf("the walk ended at %d, wanted %d", next, n)
	}
}
