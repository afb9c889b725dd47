//go:build unix

package chaos

import (
	"math"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// state is what one record can be, to those who ask. What a request leaves
// behind that was refused for want of the store, or whose client never learnt
// what became of it, makes others see a running request or a doubt though
// nothing was executed: such answers are free while nothing runs or is known,
// and judgeClaims looks for their cause. That a request is running says nothing
// here: the gateway that runs it says so until it has heard from Redis, when
// others may have read the answer there already.
type state struct {
	is    string // "" absent, "running", "completed" or "doubt"
	body  string
	op    int // that runs or ran
	entry int // of the answer: completed, or in doubt after a failure
}

// event is what happens to a record, or is seen of it.
type event struct {
	does  string
	body  string
	op    int
	entry int
}

// recordModel is the state machine as clients and origin see it. An execution
// is two events: begin, between the client's sending it and its arrival at the
// origin, when the record was claimed; and an end, from the origin's deciding
// how to answer on.
var recordModel = (&porcupine.NondeterministicModel{
	Init:  func() []any { return []any{state{}} },
	Equal: func(a, b any) bool { return a == b },
	Step:  func(s, in, _ any) []any { return step(s.(state), in.(event)) },
}).ToModel()

func step(s state, e event) []any {
	same := []any{s}
	sameRequest := s.body == e.body
	switch e.does {
	case "begin":
		if s.is == "" {
			return []any{state{is: "running", body: e.body, op: e.op}}
		}
	case "complete":
		// Also after its lease: the owner's late answer counts.
		if s.op == e.op && (s.is == "running" || s.is == "doubt") && s.entry == 0 {
			return []any{state{is: "completed", body: s.body, op: s.op, entry: e.entry}}
		}
	case "doubt":
		if s.op == e.op && (s.is == "running" || s.is == "doubt") {
			return []any{state{is: "doubt", body: s.body, op: s.op, entry: e.entry}}
		}
	case "free":
		if s.op == e.op && (s.is == "running" || s.is == "doubt") {
			return []any{state{}}
		}
	case "perhaps complete", "perhaps doubt", "perhaps free":
		e.does, _ = strings.CutPrefix(e.does, "perhaps ")
		return append(step(s, e), s)
	case "resolve": // by the operator: completed with an entry, or absent
		if e.entry > 0 && (s.is == "running" || s.is == "doubt") {
			return []any{state{is: "completed", body: s.body, op: s.op, entry: e.entry}}
		}
		if e.entry == 0 && s.is != "completed" {
			return []any{state{}}
		}
	case "see answer":
		if s.is == "completed" && sameRequest && s.entry == e.entry {
			return same
		}
	case "see failure":
		if s.is == "doubt" && sameRequest && s.entry == e.entry {
			return same
		}
	case "see doubt":
		switch {
		case s.is == "":
			return same
		case s.is != "completed" && sameRequest && s.entry == 0:
			return []any{state{is: "doubt", body: s.body, op: s.op}}
		}
	case "see another":
		if s.is == "" || !sameRequest {
			return same
		}
	}
	return nil
}

// judgeOrder asks whether one record explains what all were told.
func (w *world) judgeOrder(r record, ops []*op) {
	history := w.history(r, ops)
	switch porcupine.CheckOperationsTimeout(recordModel, history, time.Minute) {
	case porcupine.Illegal:
		w.violate("%s: no order of events explains what clients were told:\n%s", r, w.story(r, ops))
	case porcupine.Unknown:
		w.violate("%s: whether an order explains what clients were told took too long to find out:\n%s", r, w.story(r, ops))
	}
}

// history tells porcupine of a record. What says nothing is left out; what may
// still happen later has no end.
func (w *world) history(r record, ops []*op) (history []porcupine.Operation) {
	add := func(e event, from, to int64) {
		// Each is a client of its own, since those without an end overlap what
		// their clients did next.
		history = append(history, porcupine.Operation{ClientId: len(history), Input: e, Call: from, Return: to})
	}
	for _, o := range ops {
		e := event{body: o.body, op: o.id}
		if own := w.origin.byOp[o.id]; own != nil {
			e.does = "begin"
			add(e, o.call, own.arrived)
			e.does, e.entry = w.end(o, own)
			to := o.ret
			if strings.HasPrefix(e.does, "perhaps ") {
				to = math.MaxInt64
			}
			from := own.arrived // a time-out does not wait for the origin to decide
			if e.entry > 0 && own.decided > 0 {
				from = own.decided
			}
			add(e, from, to)
			continue
		}
		if o.fate != "answered" {
			continue
		}
		switch {
		case o.replayed && o.keyStatus == "in_doubt":
			e.does, e.entry = "see failure", o.entry
		case o.replayed:
			e.does, e.entry = "see answer", o.entry
		case o.reason == "key_in_doubt":
			e.does = "see doubt"
		case o.reason == "key_reused":
			e.does = "see another"
		default:
			continue
		}
		add(e, o.call, o.ret)
	}
	if res := w.operated[r]; res != nil {
		add(event{does: "resolve", entry: res.entry}, res.from, res.to)
	}
	return history
}

// end is how the execution own of o ended, as far as o's client can tell.
func (w *world) end(o *op, own *entry) (does string, answer int) {
	answered := o.fate == "answered" && o.entry == own.id
	switch {
	case answered && o.keyStatus == "in_doubt":
		return "doubt", own.id
	case o.fate == "answered" && o.keyStatus == "in_doubt": // a time-out, or worse
		return "doubt", 0
	}
	switch own.fate.means {
	case done:
		if answered && o.keyStatus == "fresh" {
			return "complete", own.id
		}
		return "perhaps complete", own.id
	case notDone: // whether it had to be made up for later is not told
		return "perhaps free", 0
	case failed:
		return "perhaps doubt", own.id
	}
	return "perhaps doubt", 0
}
