package admission

import (
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Candidate is a policy that is asked about every request right after the one
// in force, and never obeyed. It has buckets, queues and places of its own and
// decides with the same code; what it would have done is noted in
// [Request.Second].
//
// It decides as if what it lets in were sent on, and what it refuses were not:
//
//   - What both let in holds what the candidate reserved until the request ends
//     at the origin, with the outcome that it has there.
//   - What only the candidate lets in ends at once: its tokens are spent and its
//     queue counts it, but it holds a place for no time, and tells nothing about
//     the origin.
//   - What only the policy in force lets in is work that the candidate's queues
//     did not count. They find it in the next reading.
//
// It makes no promises: requests come back when the policy in force has told
// them to, and are known again by that. It looks at no store: of a keyed
// request it hears what the policy in force found, as long as both would look
// for the same record.
//
// A request that the transport refuses, for its form or its size, is not asked
// about.
//
// A panic in it is contained, and is its last: it is not asked again. A
// Candidate is safe for concurrent use. Make it with [NewCandidate].
type Candidate struct {
	o          CandidateOptions
	controller Controller
	companions sync.Pool // of *companion
	off        atomic.Bool
}

// CandidateOptions describe a candidate. All but Keys and Failed are required.
type CandidateOptions struct {
	Classifier Classifier
	Identifier Identifier
	// Gates in order, as in [Controller]. They must not wait.
	Gates           []Gate
	RefuseUnmatched bool
	// Keys is what it knows of idempotency keys; nil: no route looks at them.
	Keys CandidateKeys
	// Classes are the names of its classes, by [Class].
	Classes []string
	// Failed is told of the panic that switched the candidate off, once. It may
	// run on any goroutine that handles requests.
	Failed func(cause any, stack []byte)
}

// CandidateKeys is what a candidate knows of idempotency keys. It does no I/O
// and keeps nothing. It is safe for concurrent use.
type CandidateKeys interface {
	// Check is that of [Keys], but for r.Key, which it leaves alone.
	Check(r *Request) Refusal

	// Same reports whether r, as the candidate sees it, has the record that live
	// has, which is the same request under the policy in force. Both are keyed.
	Same(live, r *Request) bool
}

// Second is what a candidate decided about a request. The zero value: nothing,
// since there is none, or it was not asked.
type Second struct {
	Asked   bool
	Verdict Verdict
	Reason  Reason // None unless Verdict is Refuse
	Class   string // its name; "" none
	Route   string // its id; "" none matched
}

// Differs reports whether the candidate decided otherwise than d.
func (s *Second) Differs(d *Decision) bool {
	return s.Asked && (s.Verdict != d.Verdict || s.Reason != d.Reason)
}

// NewCandidate makes a candidate.
func NewCandidate(o CandidateOptions) *Candidate {
	k := &Candidate{o: o, controller: Controller{
		Classifier: o.Classifier, Identifier: o.Identifier, Gates: o.Gates, RefuseUnmatched: o.RefuseUnmatched,
	}}
	if o.Keys != nil {
		k.controller.Keys = hearsay{o.Keys}
	}
	k.companions.New = func() any { return new(companion) }
	return k
}

// Off reports whether the candidate is asked no more.
func (k *Candidate) Off() bool { return k.off.Load() }

// Stop switches the candidate off.
func (k *Candidate) Stop() { k.off.Store(true) }

// Guard runs f, which is the candidate's: it does not run where the candidate is
// off, and its panic is the candidate's last.
func (k *Candidate) Guard(f func()) {
	if k.off.Load() {
		return
	}
	defer k.contain()
	f()
}

// contain is deferred around all that the candidate does.
func (k *Candidate) contain() {
	if p := recover(); p != nil && k.off.CompareAndSwap(false, true) && k.o.Failed != nil {
		k.o.Failed(p, debug.Stack())
	}
}

// companion is a request as a candidate sees it.
type companion struct {
	request  Request
	decision Decision
	found    found
	finding  Finding
}

// found says where the policy in force found the record of a keyed request.
type found uint8

const (
	foundNothing found = iota
	foundInMemory
	foundInStore
)

// decide notes in r.Second what the candidate decides about r, of which d has
// been decided.
func (k *Candidate) decide(now time.Time, r *Request, d *Decision) {
	if k.off.Load() {
		return
	}
	b := k.companions.Get().(*companion)
	if !k.ask(b, now, r, d) {
		return // whatever b holds, it is not used again
	}
	r.Second = Second{Asked: true, Verdict: b.decision.Verdict, Reason: b.decision.Reason}
	if c := b.request.Class; c >= 0 && int(c) < len(k.o.Classes) {
		r.Second.Class = k.o.Classes[c]
	}
	if b.request.Route != nil {
		r.Second.Route = b.request.Route.ID
	}
	if d.Verdict == Admit {
		r.beside = b
		return
	}
	k.spend(b, now)
}

// ask makes the decision. It reports whether that came to its end.
func (k *Candidate) ask(b *companion, now time.Time, r *Request, d *Decision) (done bool) {
	defer k.contain()
	b.request = Request{
		ID: r.ID, Method: r.Method, Path: r.Path, Query: r.Query, Host: r.Host, Header: r.Header,
		Client: r.Client, ClientCert: r.ClientCert, Received: r.Received, Deadline: r.Deadline,
		Class: NoClass,
	}
	b.decision = Decision{Lot: d.Lot, Again: d.Again, Standing: d.Standing}
	b.found = foundNothing
	q := &b.request
	if f := k.controller.Classify(q); f.Is() {
		b.decision.Refuse(f)
		return true
	}
	if q.Keyed {
		q.Key = b
		if r.found != foundNothing && k.o.Keys.Same(r, q) {
			b.found = r.found
			b.finding = Finding{Verdict: d.Verdict, Reason: d.Reason, RetryAfter: d.RetryAfter, Status: d.KeyStatus}
		}
	}
	k.controller.Admit(now, q, &b.decision)
	return true
}

// spend ends what was reserved for a request that only the candidate lets in.
func (k *Candidate) spend(b *companion, now time.Time) {
	defer k.contain()
	k.controller.endPermits(now, &b.request, NotTried)
	k.companions.Put(b)
}

// end ends what was reserved for a request that both let in, as r ended.
func (k *Candidate) end(now time.Time, r *Request, o Outcome) {
	b := r.beside
	r.beside = nil
	if k.off.Load() {
		return
	}
	defer k.contain()
	k.controller.End(now, &b.request, o, Answer{})
	k.companions.Put(b)
}

// hearsay is the keys of a candidate: what it knows of records is what the
// policy in force found.
type hearsay struct{ CandidateKeys }

// Prepare implements [Keys].
func (hearsay) Prepare(*Request, []byte) {}

// Cached implements [Keys].
func (hearsay) Cached(r *Request) (Finding, bool) {
	b := r.Key.(*companion)
	return b.finding, b.found == foundInMemory
}

// Lookup implements [Keys].
func (hearsay) Lookup(r *Request) (Finding, bool) {
	b := r.Key.(*companion)
	return b.finding, b.found != foundNothing
}

// Claim implements [Keys].
func (h hearsay) Claim(r *Request) Finding {
	if f, ok := h.Lookup(r); ok {
		return f
	}
	return Finding{Verdict: Admit}
}

// Settle implements [Keys].
func (hearsay) Settle(*Request, Outcome, Answer) string { return "" }

// Forget implements [Keys].
func (hearsay) Forget(*Request) {}
