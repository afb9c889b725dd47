//go:build unix

package chaos

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// judge holds the finished history against the ledger, record by record.
func (w *world) judge() {
	var judges sync.WaitGroup
	next := make(chan record)
	for range runtime.GOMAXPROCS(0) {
		judges.Go(func() {
			for r := range next {
				w.judgeRecord(r)
			}
		})
	}
	for _, r := range w.records() {
		next <- r
	}
	close(next)
	judges.Wait()
	for _, g := range w.all {
		g.inspect(g.now.Load())
	}
}

func (w *world) judgeRecord(r record) {
	ops := w.byRecord[r]
	slices.SortFunc(ops, func(a, b *op) int { return cmp.Compare(a.call, b.call) })
	for _, o := range ops {
		own := w.origin.byOp[o.id]
		switch {
		case own != nil && o.fate == "cut":
			w.violate("%v: it was never sent in full, and arrived as entry %d", o, own.id)
		case own != nil && o.fate == "lost" && !o.process.killed.Load():
			w.violate("%v: executed as entry %d by a gateway that was not killed, and not answered", o, own.id)
		case own == nil && o.fate == "answered" && o.entry == 0 && problems[o.reason].sent && w.opts.orderly:
			w.violate("%v: the request never arrived", o)
		}
	}
	w.judgeClaims(r, ops)
	if w.opts.release {
		w.judgeReleased(r, ops)
		return
	}
	w.judgeOrder(r, ops)
}

// claim is a stretch of time in which a request may have held its record.
type claim struct {
	op       *op
	from, to int64
	doubt    int64 // from when on others may be told that it is in doubt
	settled  int64 // until when
}

const never = math.MaxInt64

// claimOf returns what o can have claimed. What a client did not get to know is
// assumed to have lasted as long as it can.
func (w *world) claimOf(o *op) (c claim, ok bool) {
	own := w.origin.byOp[o.id]
	c = claim{op: o, from: o.call, to: o.ret, doubt: never, settled: never}
	lapses := o.call + int64(w.lease-10*time.Millisecond) // milliseconds are rounded
	if w.opts.journal {
		// Who starts with a journal knows that the last one is dead.
		for _, at := range w.kills {
			if at >= o.call {
				lapses = min(lapses, at)
			}
		}
	}
	late := o.ret + int64(2*w.lease+longestStop*time.Millisecond+2*time.Second)
	switch {
	case o.fate == "cut":
		return c, false
	case o.fate != "answered":
		c.to, c.doubt = late, min(lapses, o.call+int64(routeTimeout))
		if own != nil && (own.fate.means == failed || own.fate.means == silenced) {
			c.doubt = own.arrived
		}
	case o.reason == "key_in_doubt" && o.ret >= lapses:
		// Its gateway may have claimed and been stopped before it knew. What it
		// found afterwards is then its own claim.
		c.to, c.doubt = late, lapses
	case o.replayed, strings.HasPrefix(o.reason, "key_"), o.reason == "draining":
		return c, false
	case o.keyStatus == "in_doubt":
		c.doubt = o.call
	case own != nil && o.keyStatus == "fresh" && own.fate.means == done:
		c.doubt, c.settled = lapses, o.ret // by its late answer
	case own != nil && o.keyStatus == "not_stored" && own.fate.means != done && own.fate.means != notDone:
		c.to, c.doubt = late, own.arrived
	case o.reason == "origin_timeout" || o.reason == "origin_failed":
		c.to, c.doubt = late, o.call
	default: // the store was not sure to have been told
		c.to, c.doubt = late, lapses
	}
	return c, true
}

// judgeClaims looks for the claim that a client was told of.
func (w *world) judgeClaims(r record, ops []*op) {
	var claims []claim
	for _, o := range ops {
		if c, ok := w.claimOf(o); ok {
			claims = append(claims, c)
		}
	}
	for _, o := range ops {
		if o.fate != "answered" {
			continue
		}
		var meant func(claim) bool
		switch {
		case o.reason == "key_in_progress":
			meant = func(c claim) bool { return c.op.body == o.body && c.from <= o.ret && o.call <= c.to }
		case o.reason == "key_in_doubt", o.replayed && o.keyStatus == "in_doubt":
			meant = func(c claim) bool { return c.op.body == o.body && c.doubt <= o.ret && o.call <= c.settled }
		case o.reason == "key_reused":
			meant = func(c claim) bool { return c.op.body != o.body && c.from <= o.ret }
		default:
			continue
		}
		if !slices.ContainsFunc(claims, meant) {
			w.violate("%s: no claim explains what op %d was told:\n%s", r, o.id, w.story(r, ops))
		}
	}
}

// judgeReleased judges a record whose outcomes are released when unknown: it is
// executed at least once, everybody who was answered got the same answer, and a
// request that takes over from one that fell silent says which attempt it is.
func (w *world) judgeReleased(r record, ops []*op) {
	entries := w.origin.byRecord[r]
	answer := 0
	for _, o := range ops {
		if o.reason == "key_in_doubt" {
			w.violate("%v: in doubt, though the policy is to release", o)
		}
		if o.fate != "answered" || o.entry == 0 || o.status != calm.status {
			continue
		}
		if answer == 0 {
			answer = o.entry
		}
		if o.entry != answer {
			w.violate("%s: answered with entries %d and %d:\n%s", r, answer, o.entry, w.story(r, ops))
		}
	}
	if answer == 0 {
		w.violate("%s: never executed, in a world that has healed:\n%s", r, w.story(r, ops))
	}
	for i, e := range entries {
		if e.attempt > 1 {
			w.count(func(f *figures) { f.takenOver++ })
		}
		if !w.mayBeAttempt(e, ops) {
			w.violate("%s: entry %d says that it is attempt %d, and no earlier one lapsed:\n%s", r, e.id, e.attempt, w.story(r, ops))
		}
		// Who has been taken over sends nothing any more. (When the later
		// attempt is over the count begins anew.)
		for _, before := range entries[:i] {
			if before.attempt > e.attempt && before.decided > e.arrived && e.arrived-before.arrived < int64(routeTimeout)/2 {
				w.violate("%s: attempt %d arrived after attempt %d:\n%s", r, e.attempt, before.attempt, w.story(r, ops))
			}
		}
	}
}

// mayBeAttempt reports whether e can be the attempt that it says: each one
// before it was another request's, and went on for a lease.
func (w *world) mayBeAttempt(e *entry, ops []*op) bool {
	earlier, latest := 0, e.arrived+int64(10*time.Millisecond)
	for _, o := range ops {
		if o.id != e.op && o.fate != "cut" && o.call+int64(w.lease) <= latest {
			earlier++
		}
	}
	return earlier >= e.attempt-1 && ops[0].call+int64(e.attempt-1)*int64(w.lease) <= latest
}

// story tells all that is known of a record.
func (w *world) story(r record, ops []*op) string {
	var b strings.Builder
	for _, o := range ops {
		fmt.Fprintf(&b, "  %v\n", o)
	}
	for _, e := range w.origin.byRecord[r] {
		fmt.Fprintf(&b, "  %v\n", e)
	}
	return b.String()
}
