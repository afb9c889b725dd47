//go:build unix

package chaos

import (
	"encoding/json"
	"strconv"
)

// problems are the gateways' own answers that a keyed request may get here, with
// status, whether they carry Retry-After, and whether they say that the request
// was sent.
var problems = map[string]struct {
	status      int
	retry, sent bool
}{
	"key_in_progress":    {409, true, false},
	"key_in_doubt":       {409, false, false},
	"key_reused":         {422, false, false},
	"store_unavailable":  {503, true, false},
	"origin_full":        {503, true, false},
	"origin_unreachable": {502, true, false},
	"origin_failed":      {502, false, true},
	"origin_timeout":     {504, false, true},
	"draining":           {503, true, false},
}

// keyStatuses are what Idempotency-Status says beside a problem.
var keyStatuses = map[string][]string{
	"key_in_progress": {"in_progress"}, "key_in_doubt": {"in_doubt"}, "key_reused": {"reused"},
	"store_unavailable": {""}, "draining": {""},
	"origin_full": {"fresh", "not_stored"}, "origin_unreachable": {"fresh", "not_stored"},
	"origin_failed": {"in_doubt", "not_stored"}, "origin_timeout": {"in_doubt", "not_stored"},
}

// checkAnswer holds an answer against the wire contract and, where it comes from
// the origin, against the ledger.
func (w *world) checkAnswer(o *op) {
	if o.entry == 0 {
		w.checkProblem(o)
		return
	}
	e, own := w.origin.entry(o.entry), w.origin.entryFor(o.id)
	if e == nil {
		w.violate("%v: an answer that the origin never gave: %.300q", o, o.text)
		return
	}
	bad := func(what string) { w.violate("%v: %s; it is of %v; got %.300q", o, what, e, o.text) }
	f, sameBody := e.fate, e.body == o.body
	if w.opts.release { // the origin deduplicates: by the key alone, and all with one answer
		sameBody = true
		if f = calm; own != nil {
			f = own.fate
		}
	}
	if e.record != o.record || !sameBody {
		bad("the answer to another request")
	}
	if o.status != f.status || o.location != e.location() || o.typ != answerType {
		bad("not the answer that the origin gave: status, Location or Content-Type differ")
	}
	if want := e.answer(f); o.text != want && !(o.replayed && len(want) > maxReplay && o.text == "") {
		bad("not the body that the origin gave")
	}
	if o.replayed {
		w.checkReplay(o, e, f, bad)
		return
	}
	if own == nil || own != e && !w.opts.release {
		bad("it is not marked as a replay, and is not the client's own")
		return
	}
	if own.requestID != o.requestID || o.chaosEntry != strconv.Itoa(own.id) || o.cookie == "" {
		bad("the client's own answer lost fields on the way")
	}
	switch {
	case o.keyStatus == "fresh" && (f.means != failed || w.opts.release):
	case o.keyStatus == "in_doubt" && f.means == failed && !w.opts.release:
	case o.keyStatus == "not_stored":
	default:
		bad("Idempotency-Status is wrong for that outcome")
	}
}

func (w *world) checkReplay(o *op, e *entry, f *fate, bad func(string)) {
	if w.origin.entryFor(o.id) != nil {
		bad("it was sent to the origin, and answered with a replay")
	}
	if o.cookie != "" || o.chaosEntry != "" || o.retryAfter != "" {
		bad("a replay with fields that belong to the first answer's moment")
	}
	switch {
	case o.keyStatus == "replayed" && f.means == done:
	case o.keyStatus == "replayed" && w.resolved(e.record): // by the operator, as the ledger says
	case o.keyStatus == "in_doubt" && f.means == failed && !w.opts.release:
	default:
		bad("an outcome that must not be replayed, or not so")
	}
	if o.requestID == e.requestID {
		bad("the request id of somebody else")
	}
}

func (w *world) checkProblem(o *op) {
	var p struct {
		Type, Title, Detail, Reason string
		Status                      int
		RequestID                   string `json:"request_id"`
	}
	err := json.Unmarshal([]byte(o.text), &p)
	o.reason = p.Reason
	want, known := problems[p.Reason]
	if err != nil || !known || o.typ != "application/problem+json" || o.replayed || p.Status != o.status || p.RequestID == "" || p.RequestID != o.requestID {
		w.violate("%v: neither the origin's answer nor one of the contract: %.300q", o, o.text)
		return
	}
	if o.status != want.status || (o.retryAfter != "") != want.retry || p.Type != "urn:sluice:problem:"+p.Reason &&
		!(p.Reason == "origin_full" && p.Type == "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity") {
		w.violate("%v: status, Retry-After %q or type %q are not those of %s", o, o.retryAfter, p.Type, p.Reason)
	}
	if !want.sent && w.origin.entryFor(o.id) != nil {
		w.violate("%v: refused, and executed all the same", o)
	}
	ok := false
	for _, s := range keyStatuses[p.Reason] {
		ok = ok || s == o.keyStatus || s == "in_doubt" && o.keyStatus == "fresh" && w.opts.release
	}
	if !ok {
		w.violate("%v: Idempotency-Status %q beside %s", o, o.keyStatus, p.Reason)
	}
	if n, err := strconv.Atoi(o.retryAfter); want.retry && (err != nil || n < 1) {
		w.violate("%v: Retry-After %q", o, o.retryAfter)
	}
}
