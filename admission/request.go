package admission

import (
	"net/netip"
	"time"
)

// Request is the facts of one HTTP request, and what the gates have found out
// about it so far.
//
// The transport owns the bytes behind its strings and reuses them once the
// request has ended: whoever keeps a string longer clones it. A Request is
// used by one goroutine at a time.
type Request struct {
	// Facts, set by the transport before the first gate runs.
	ID     string     // request id, given to client and origin
	Method string     // as sent
	Path   string     // raw path, as sent: not decoded, not cleaned
	Query  string     // raw query without the question mark
	Host   string     // authority as sent
	Header Header     // header fields as sent
	Client netip.Addr // address of the client, behind trusted proxies
	// ClientCert names the client by its verified certificate; "" without one.
	ClientCert string
	Received   time.Time // when the last byte of the request's head was read
	// Deadline is when the client stops waiting for the answer, if it says so;
	// zero: it does not.
	Deadline time.Time

	// Findings, set while deciding.
	Tenant string // on whose behalf; "" until identified
	Route  *Route // nil: no route matched
	Class  Class
	Rule   string // id of the priority rule that chose Class; "" none did

	// Keyed: the request has an idempotency key that counts on its route. Key
	// is what Keys knows of it.
	Keyed bool
	Key   any
	// Fingerprint tells requests with one key apart once Keys has prepared
	// them; 0 before, and without a key.
	Fingerprint uint64
	// Attempt counts the claims on the request's record, this one included; 0
	// without one. SendBy is when the claim lapses: what has not been sent by
	// then must not be sent any more. Zero: no limit.
	Attempt int
	SendBy  time.Time

	// Second is what a candidate policy decided.
	Second Second

	hashed  hashed           // see TenantHash
	permits [maxGates]Permit // by gate
	held    uint8            // the bit of each gate whose permit is held
	claimed bool
	found   found
	beside  *companion // what a candidate has reserved; nil: nothing
}

// Header gives access to a request's header fields.
type Header interface {
	// Get returns the value of the first field with that name, compared
	// without regard to case, and how many fields have it. It returns "", 0
	// where there is none. It does not allocate.
	Get(name string) (value string, count int)
}

// Reset makes r ready for another request.
func (r *Request) Reset() {
	*r = Request{} // in place; with the class in it, it would be made elsewhere and copied
	r.Class = NoClass
}

// Route is a config rule that matches method and raw path. It is immutable and
// shared by the requests that it matches.
type Route struct {
	ID      string
	Index   int    // position in the policy; stable within one policy
	Class   Class  // for requests that no priority rule says otherwise of
	Queue   string // behind the origin; "" none
	QueueAt int    // position of Queue in the policy; meaningless without one
	Mode    Mode   // Shadow: no gate's refusal is enforced on this route
	Cost    int64  // tokens that one request takes; at least 1
	CostBy  string // header field that may raise the cost; "" none
	CostCap int64  // most that CostBy may ask for
}

// Decision is made once per request.
type Decision struct {
	Verdict Verdict
	Reason  Reason
	// Status is the HTTP status of a refusal: the reason's own unless the
	// policy says otherwise.
	Status int
	// RetryAfter is when a refused request can come back; it is rounded up to
	// whole seconds, at least one, on the wire. Zero: no promise is made.
	RetryAfter time.Duration
	// Promise is what a request refused for lack of capacity was promised. The
	// zero value promises nothing.
	Promise Promise
	// Shadow is the first reason for which a shadow policy would have refused
	// this request; None otherwise.
	Shadow Reason
	// Lot tells whether the request is of the share that its queue lets in, and
	// Again by how much more than it has to a refusal there keeps it away. Where
	// they are given before the decision, nothing is drawn, so that a decision
	// can be made again.
	Lot, Again Lot
	// Standing is how the request stands to what was promised to it at the queue.
	Standing Standing
	// Limit is the state of the tenant's bucket, for the RateLimit fields.
	Limit Limit
	// KeyStatus is the Idempotency-Status; "" none.
	KeyStatus string
	// Recorded is the answer to replay.
	Recorded Recorded
	// Form of a refusal; nil: the reason's own.
	Form *Form
}

// Detail tells the client more than the reason does; "" nothing.
func (d *Decision) Detail() string {
	if d.Form == nil {
		return ""
	}
	return d.Form.Detail
}

// Challenge is the value of WWW-Authenticate; "" none.
func (d *Decision) Challenge() string {
	if d.Form == nil {
		return ""
	}
	return d.Form.Challenge
}

// Lot is a number that was drawn from 0 up to but not 1: in 2^-24ths, plus one.
// The zero value is that nothing was drawn yet.
type Lot uint32

// Promise is made to one refused request: whoever brings it back from
// NotBefore on, and before Lapse, is preferred to newcomers. The zero value
// promises nothing.
type Promise struct {
	NotBefore time.Time
	Lapse     time.Time
	ID        uint64 // tells this promise from every other
	Signer    Signer // writes its ticket; nil: it can be kept without one
}

// Made reports whether anything was promised.
func (p *Promise) Made() bool { return !p.NotBefore.IsZero() }

// Standing is how a request stands to what it was promised. One that is there
// before the decision is the one that counts, where a candidate decides.
type Standing uint8

const (
	// Unasked is the zero value: no queue has looked.
	Unasked  Standing = iota
	Newcomer          // nothing was promised to it, or that was used
	Early             // it came back before its time
	Due               // it came back when told
)

// Signer writes tickets by which a promise is known again.
type Signer interface {
	// AppendTicket appends to dst the value of the Sluice-Ticket field for
	// the promise p made to r. The value is visible ASCII. It is written when
	// the refusal is, not when it is decided, since signing costs more than
	// deciding.
	AppendTicket(dst []byte, r *Request, p *Promise) []byte
}

// Limit is the state of one bucket after a decision. The zero value means that
// no limit applied.
type Limit struct {
	Name      string        // of the policy, as clients see it
	Quota     int64         // burst: most that can be spent at once
	Window    time.Duration // time in which an empty bucket fills up
	Remaining int64         // whole tokens left
	Reset     time.Duration // until the bucket is full again
}

// Event reports one request at its end.
type Event struct {
	Request  *Request
	Decision Decision
	Outcome  Outcome
	// Status sent to the client; 0 where nothing could be sent.
	Status int
	// Failure says what went wrong after admission; None otherwise.
	Failure Reason
	// Detail is for operators, never for clients: the address dialled, the
	// error met. "" where there is nothing to say.
	Detail string
	// Stages of the request's life, as durations from Request.Received. Zero
	// where the stage was not reached. Asked is the time by which the gates
	// decided, Decided when they had: in between, requests wait for places.
	Asked, Decided, Sent, OriginAnswered, Done time.Duration
	BytesIn, BytesOut                          int64
}

// Observer is told of every request once, at its end. Implementations must be
// safe for concurrent use, must not block, and must clone what they keep: the
// event and all it points to is reused afterwards.
type Observer interface {
	Observe(*Event)
}
