package admission

import "time"

// Keys knows which keyed requests have been executed. It is safe for
// concurrent use. Where it has to ask a store it bounds its own waiting.
type Keys interface {
	// Check reads the key of a classified request before its body is there. It
	// refuses a key that is missing or malformed where the route needs one, and
	// sets r.Keyed where the request has one that counts.
	Check(r *Request) Refusal

	// Prepare makes a keyed request whose body is there ready for the others.
	// What it keeps in r.Key is its own; Forget ends it.
	Prepare(r *Request, body []byte)

	// Cached looks for the answer in memory alone.
	Cached(r *Request) (Finding, bool)

	// Lookup asks the store, and changes nothing there: for a request that a
	// gate refuses. It finds nothing where the store is down.
	Lookup(r *Request) (Finding, bool)

	// Claim takes the record, or says why it cannot be had. A finding to admit
	// must be ended by Settle.
	Claim(r *Request) Finding

	// Settle writes what came of a request whose record was claimed, and
	// returns the Idempotency-Status of its answer.
	Settle(r *Request, o Outcome, a Answer) (status string)

	// Forget ends a keyed request; nothing of it is kept in r afterwards.
	Forget(r *Request)
}

// Finding is what is known of a keyed request.
type Finding struct {
	Verdict    Verdict // Admit: the record is claimed; Replay: by Recorded
	Reason     Reason
	RetryAfter time.Duration
	Status     string // of Idempotency-Status; "" none
	Recorded   Recorded
}

// Recorded is the recorded answer to a request's first execution. It is shared
// and must not be changed.
type Recorded struct {
	Status int
	Fields []Field
	Body   []byte
}

// Field is one header field.
type Field struct{ Name, Value string }

// Answer is an origin's answer to a keyed request, in memory of the transport:
// whoever keeps of it copies.
type Answer struct {
	Status int
	Header func(yield func(name, value []byte) bool)
	Body   []byte
}
