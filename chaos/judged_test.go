//go:build unix

package chaos

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// The model accepts what one record can explain, and nothing else.
func TestModel(t *testing.T) {
	const one, two = bodyOne, bodyOther
	at := func(from, to int64, e event) porcupine.Operation {
		return porcupine.Operation{Input: e, Call: from, Return: to}
	}
	begin := func(from, to int64, op int, body string) porcupine.Operation {
		return at(from, to, event{"begin", body, op, 0})
	}
	executed := []porcupine.Operation{begin(0, 1, 1, one), at(5, 9, event{"complete", one, 1, 1})}
	inDoubt := []porcupine.Operation{begin(0, 1, 1, one), at(5, 9, event{"doubt", one, 1, 0})}
	freed := []porcupine.Operation{begin(0, 1, 1, one), at(5, never, event{"perhaps free", one, 1, 0})}
	for _, c := range []struct {
		name    string
		history []porcupine.Operation
		then    porcupine.Operation
		ok      bool
	}{
		{"the answer again", executed, at(20, 21, event{"see answer", one, 2, 1}), true},
		{"another answer", executed, at(20, 21, event{"see answer", one, 2, 7}), false},
		{"the answer to another request", executed, at(20, 21, event{"see answer", two, 2, 1}), false},
		{"the answer before it is given", executed, at(2, 3, event{"see answer", one, 2, 1}), false},
		{"the answer while it is being given", executed, at(2, 6, event{"see answer", one, 2, 1}), true},
		{"in doubt when it is answered", executed, at(20, 21, event{"see doubt", one, 2, 0}), false},
		{"in doubt while it runs, and answered late", executed, at(2, 3, event{"see doubt", one, 2, 0}), true},
		{"reused by another request", executed, at(20, 21, event{"see another", two, 2, 0}), true},
		{"reused by the same request", executed, at(20, 21, event{"see another", one, 2, 0}), false},
		{"executed again", executed, begin(20, 21, 2, one), false},
		{"executed again while it runs", executed, begin(2, 3, 2, one), false},
		{"executed again in doubt", inDoubt, begin(20, 21, 2, one), false},
		{"an answer in doubt", inDoubt, at(20, 21, event{"see answer", one, 2, 1}), false},
		{"still in doubt", inDoubt, at(20, 21, event{"see doubt", one, 2, 0}), true},
		{"executed again when freed", freed, begin(20, 21, 2, one), true},
		{"executed again before it is freed", freed, begin(2, 3, 2, one), false},
	} {
		history := append([]porcupine.Operation{c.then}, c.history...)
		for i := range history {
			history[i].ClientId = i
		}
		if got := porcupine.CheckOperations(recordModel, history); got != c.ok {
			t.Errorf("%s: explained: %t, want %t", c.name, got, c.ok)
		}
	}
}

// Whoever is told of another request can be shown its claim.
func TestClaims(t *testing.T) {
	rec := record{"orders", "acme", "key-1"}
	second := int64(time.Second)
	first := func(fate string, change func(*op)) *op {
		o := &op{id: 1, record: rec, body: bodyOne, at: &gateway{}, process: &process{}, fate: fate, call: 10 * second, ret: 11 * second}
		if change != nil {
			change(o)
		}
		return o
	}
	fresh := first("answered", func(o *op) { o.status, o.keyStatus, o.entry = 201, "fresh", 1 })
	refused := first("answered", func(o *op) { o.status, o.reason = 503, "store_unavailable" })
	inDoubt := first("answered", func(o *op) { o.status, o.keyStatus, o.reason = 504, "in_doubt", "origin_timeout" })
	e := &entry{id: 1, op: 1, record: rec, body: bodyOne, fate: calm, arrived: 10*second + 1, decided: 10*second + 2}
	for _, c := range []struct {
		name   string
		first  *op
		entry  *entry
		at     int64 // seconds, when the second request is told
		body   string
		reason string
		ok     bool
	}{
		{"running while it runs", fresh, e, 10, bodyOne, "key_in_progress", true},
		{"running before it began", fresh, e, 8, bodyOne, "key_in_progress", false},
		{"running when it is over", fresh, e, 12, bodyOne, "key_in_progress", false},
		{"running, another body", fresh, e, 10, bodyOther, "key_in_progress", false},
		{"running when it was refused and may have claimed", refused, nil, 12, bodyOne, "key_in_progress", true},
		{"running long after it was refused", refused, nil, 60, bodyOne, "key_in_progress", false},
		{"in doubt though it is answered", fresh, e, 60, bodyOne, "key_in_doubt", false},
		{"in doubt before the lease is over", refused, nil, 12, bodyOne, "key_in_doubt", false},
		{"in doubt after the lease", refused, nil, 14, bodyOne, "key_in_doubt", true},
		{"in doubt at once, since it timed out", inDoubt, e, 11, bodyOne, "key_in_doubt", true},
		{"in doubt when the client cannot know", first("lost", nil), e, 12, bodyOne, "key_in_doubt", true},
		{"in doubt though it was never sent", first("cut", nil), nil, 60, bodyOne, "key_in_doubt", false},
		{"reused by another body", fresh, e, 12, bodyOther, "key_reused", true},
		{"reused by the same body", fresh, e, 12, bodyOne, "key_reused", false},
		{"reused before it began", fresh, e, 8, bodyOther, "key_reused", false},
	} {
		w := &world{t: t, lease: 3 * time.Second, origin: &origin{byOp: map[int]*entry{1: c.entry}, byRecord: map[record][]*entry{}}}
		told := &op{
			id: 2, record: rec, body: c.body, at: &gateway{}, process: &process{}, fate: "answered", status: 409, reason: c.reason,
			call: c.at * second, ret: c.at*second + second/2,
		}
		w.judgeClaims(rec, []*op{c.first, told})
		if got := w.found == 0; got != c.ok {
			t.Errorf("%s: accepted: %t, want %t", c.name, got, c.ok)
		}
	}
}

// What a client is told is compared to the byte, and with the right execution.
func TestTheJudgeSeesForgeries(t *testing.T) {
	rec := record{"orders", "acme", "key-1"}
	entries := []*entry{
		nil,
		{id: 1, op: 1, record: rec, body: bodyOne, requestID: "r-1", attempt: 1, fate: calm, arrived: 1, decided: 2},
		{id: 2, op: 2, record: record{"orders", "globex", "key-1"}, body: bodyOne, requestID: "r-2", attempt: 1, fate: calm, arrived: 1, decided: 2},
	}
	replayOf := func(e *entry) *op {
		return &op{
			id: 9, record: rec, body: bodyOne, at: &gateway{}, process: &process{}, fate: "answered", status: 201, keyStatus: "replayed",
			replayed: true, requestID: "r-9", entry: e.id, location: e.location(), typ: answerType, text: e.answer(calm),
		}
	}
	for _, c := range []struct {
		name string
		of   int
		with func(*op)
		ok   bool
	}{
		{"the answer", 1, func(*op) {}, true},
		{"another tenant's", 2, func(*op) {}, false},
		{"another body's", 1, func(o *op) { o.body = bodyOther }, false},
		{"one byte", 1, func(o *op) { o.text = "[" + o.text[1:] }, false},
		{"no body", 1, func(o *op) { o.text = "" }, false},
		{"another status", 1, func(o *op) { o.status = 200 }, false},
		{"the other's Location", 1, func(o *op) { o.location = entries[2].location() }, false},
		{"a cookie", 1, func(o *op) { o.cookie = "session=of-acme" }, false},
		{"not marked", 1, func(o *op) { o.replayed, o.keyStatus = false, "fresh" }, false},
		{"in doubt", 1, func(o *op) { o.keyStatus = "in_doubt" }, false},
		{"a server error of no kind", 1, func(o *op) { o.entry, o.status, o.text = 0, 500, `{"reason":"internal","status":500}` }, false},
	} {
		w := &world{t: t, origin: &origin{entries: entries, byOp: map[int]*entry{1: entries[1], 2: entries[2]}}}
		o := replayOf(entries[c.of])
		c.with(o)
		w.checkAnswer(o)
		if got := w.found == 0; got != c.ok {
			t.Errorf("%s: accepted: %t, want %t: %q", c.name, got, c.ok, w.findings)
		}
	}
}
