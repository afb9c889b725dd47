package origin

import (
	"sync"
	"time"
)

// Entry is one publication that the origin recorded.
type Entry struct {
	ID        int64  // position in the ledger, from 0
	Effect    string // number of the effect by the load generator; "" for others
	Tenant    string // Sluice-Tenant, else X-Tenant-Id
	Class     string // Sluice-Class, else Bench-Class
	Key       string // Idempotency-Key as received
	Attempt   string // Sluice-Attempt as received
	RequestID string // X-Request-Id as received
	Body      uint64 // hash of method, path and body
	Recorded  time.Time
	Done      time.Time // zero while the work is not done
}

// identity tells effects apart: by key where there is one, since that is what
// an origin has to go by, else by number.
func (e *Entry) identity() string {
	switch {
	case e.Key != "":
		return "k\x00" + e.Tenant + "\x00" + e.Key
	case e.Effect != "":
		return "e\x00" + e.Effect
	}
	return ""
}

// Totals of a ledger. They count since the start, whatever has been forgotten
// since.
type Totals struct {
	Recorded   int64 `json:"recorded"`   // publications accepted
	Executed   int64 `json:"executed"`   // of which the work is done
	Distinct   int64 `json:"distinct"`   // different effects among those recorded
	Duplicates int64 `json:"duplicates"` // recorded for an effect already recorded
	Conflicts  int64 `json:"conflicts"`  // of which with a different body
	Forgotten  int64 `json:"forgotten"`  // entries no longer remembered
}

// Ledger is what the origin really recorded and did, in memory that does not
// grow beyond its limit: the oldest entries are forgotten first. Repeats of a
// forgotten effect count as new ones, so a proof of "never twice" needs
// Totals.Forgotten to be 0. Safe for concurrent use.
type Ledger struct {
	mu      sync.Mutex
	limit   int
	entries []Entry // a ring, by ID modulo its length
	next    int64
	seen    map[string]sighting
	totals  Totals
}

// sighting is the latest entry of an effect, and the body it came with first.
type sighting struct {
	last int64
	body uint64
}

func newLedger(limit int) *Ledger {
	return &Ledger{limit: limit, seen: map[string]sighting{}}
}

// record writes e down and returns its ID.
func (l *Ledger) record(e Entry) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.ID = l.next
	l.next++
	l.totals.Recorded++
	if id := e.identity(); id != "" {
		if first, again := l.seen[id]; again {
			l.totals.Duplicates++
			if first.body != e.Body {
				l.totals.Conflicts++
			}
			l.seen[id] = sighting{e.ID, first.body}
		} else {
			l.totals.Distinct++
			l.seen[id] = sighting{e.ID, e.Body}
		}
	} else {
		l.totals.Distinct++
	}
	if len(l.entries) < l.limit {
		l.entries = append(l.entries, e)
		return e.ID
	}
	old := &l.entries[e.ID%int64(l.limit)]
	if id := old.identity(); l.seen[id].last == old.ID {
		delete(l.seen, id)
	}
	l.totals.Forgotten++
	*old = e
	return e.ID
}

// done marks the work of entry id as done at t.
func (l *Ledger) done(id int64, t time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.totals.Executed++
	if id >= l.next-int64(len(l.entries)) {
		l.entries[id%int64(l.limit)].Done = t
	}
}

// Totals returns the counts so far.
func (l *Ledger) Totals() Totals {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.totals
}

// Each calls f for every remembered entry, oldest first, and stops when f
// returns false. The ledger is locked meanwhile: f must not call back into it.
func (l *Ledger) Each(f func(*Entry) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := l.next - int64(len(l.entries)); id < l.next; id++ {
		if !f(&l.entries[id%int64(l.limit)]) {
			return
		}
	}
}
