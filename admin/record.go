package admin

import (
	"net/netip"
	"sync/atomic"
	"time"

	"sluice/admission"
)

// A record is the copy of an event that outlives it. It holds what the
// decision log and the decision tail may show, the facts that the policy allows
// (see [Facts]) and nothing else: no query, no credential, no body. Keys and
// tickets leave it as hashes only.
type record struct {
	at         int64 // the request's end, nanoseconds since 1970
	id         shortText
	tenant     shortText
	detail     longText
	policy     *Policy
	route      *admission.Route
	class      admission.Class
	verdict    admission.Verdict
	reason     admission.Reason
	shadow     admission.Reason
	outcome    admission.Outcome
	failure    admission.Reason
	second     admission.Second
	status     int
	retryAfter time.Duration

	asked, decided, sent, answered, done time.Duration
	bytesIn, bytesOut                    int64

	received  time.Time
	client    netip.Addr
	keyStatus shortText
	limit     shortText
	remaining int64
	quota     int64
	lot       admission.Lot
	again     admission.Lot
	facts     facts

	other any // a line that is no decision, instead of all the above
}

// Texts are cut to a fixed size, so that keeping one allocates nothing.
type (
	shortText struct {
		n uint8
		b [63]byte
	}
	longText struct {
		n uint8
		b [191]byte
	}
)

func (t *shortText) set(s string)   { t.n = uint8(copy(t.b[:], s)) }
func (t *shortText) String() string { return string(t.b[:t.n]) }
func (t *longText) set(s string)    { t.n = uint8(copy(t.b[:], s)) }
func (t *longText) String() string  { return string(t.b[:t.n]) }

func (rec *record) set(e *admission.Event, p *Policy) {
	r := e.Request
	rec.at = r.Received.UnixNano() + int64(e.Done)
	rec.id.set(r.ID)
	rec.tenant.set(r.Tenant)
	rec.detail.set(e.Detail)
	rec.policy, rec.route = p, r.Route
	d := &e.Decision
	rec.verdict, rec.reason, rec.shadow, rec.retryAfter = d.Verdict, d.Reason, d.Shadow, d.RetryAfter
	rec.class, rec.outcome, rec.failure, rec.status = r.Class, e.Outcome, e.Failure, e.Status
	rec.second = admission.Second{}
	if r.Second.Differs(d) {
		rec.second = r.Second
	}
	rec.asked, rec.decided, rec.sent, rec.answered, rec.done = e.Asked, e.Decided, e.Sent, e.OriginAnswered, e.Done
	rec.bytesIn, rec.bytesOut = e.BytesIn, e.BytesOut
	rec.received, rec.client = r.Received, r.Client
	rec.keyStatus.set(d.KeyStatus)
	rec.limit.set(d.Limit.Name)
	rec.remaining, rec.quota = d.Limit.Remaining, d.Limit.Quota
	rec.lot, rec.again = d.Lot, d.Again
	rec.facts.take(e, p.Facts.Identity, p.fields)
}

// Line is one decision as the decision log and the decision tail show it.
type Line struct {
	Time    time.Time `json:"ts"` // when the request ended
	ID      string    `json:"id"`
	Tenant  string    `json:"tenant"`
	Class   string    `json:"class"`
	Route   string    `json:"route"`
	Verdict string    `json:"verdict"`
	Reason  string    `json:"reason"`
	// Mode is "shadow" where a policy in shadow mode would have refused, for
	// the reason Shadow, what was let pass.
	Mode   string `json:"mode"`
	Shadow string `json:"shadow,omitempty"`
	// Candidate is what a candidate policy decided, where it is something else.
	Candidate  *CandidateLine `json:"candidate,omitempty"`
	Status     int            `json:"status"`                // 0: nothing could be sent
	RetryAfter int64          `json:"retry_after,omitempty"` // whole seconds, as the client saw it
	Outcome    string         `json:"outcome"`
	Failure    string         `json:"failure,omitempty"`
	Detail     string         `json:"detail,omitempty"`
	Config     string         `json:"config"` // hash of the configuration
	// Stages of the request's life, from its receipt.
	DecidedUS  int64 `json:"decided_us"`
	SentUS     int64 `json:"sent_us,omitempty"`
	AnsweredUS int64 `json:"answered_us,omitempty"`
	DoneUS     int64 `json:"done_us"`
	BytesIn    int64 `json:"bytes_in"`
	BytesOut   int64 `json:"bytes_out"`
}

func (rec *record) line() Line {
	l := Line{
		Time: time.Unix(0, rec.at).UTC(), ID: rec.id.String(), Tenant: rec.tenant.String(),
		Class: rec.policy.className(rec.class), Route: routeName(rec.route),
		Verdict: rec.verdict.String(), Reason: rec.reason.String(), Mode: admission.Enforce.String(),
		Status: rec.status, RetryAfter: wholeSeconds(rec.retryAfter),
		Outcome: rec.outcome.String(), Detail: rec.detail.String(), Config: rec.policy.Hash,
		DecidedUS: rec.decided.Microseconds(), SentUS: rec.sent.Microseconds(),
		AnsweredUS: rec.answered.Microseconds(), DoneUS: rec.done.Microseconds(),
		BytesIn: rec.bytesIn, BytesOut: rec.bytesOut,
	}
	if rec.shadow != admission.None {
		l.Shadow = rec.shadow.String()
		if rec.verdict != admission.Refuse {
			l.Mode = admission.Shadow.String()
		}
	}
	if rec.second.Asked {
		l.Candidate = candidateLine(&rec.second)
	}
	if rec.failure != admission.None {
		l.Failure = rec.failure.String()
	}
	return l
}

// wholeSeconds rounds up, as Retry-After does; zero stays zero.
func wholeSeconds(d time.Duration) int64 {
	return int64((max(d, 0) + time.Second - 1) / time.Second)
}

// Kinds of decision, each of which has a budget of its own.
const (
	kindAdmit = iota
	kindReplay
	kindRefused                             // by reason
	kindFailed  = kindRefused + reasonCount // by reason
	kindShadow  = kindFailed + reasonCount  // by reason
	kindDiffers = kindShadow + reasonCount  // a candidate decided otherwise, by reason
	kinds       = kindDiffers + reasonCount
)

func kindOf(e *admission.Event) int {
	d := &e.Decision
	switch {
	case e.Request.Second.Differs(d):
		return kindDiffers + int(changeReason(d, &e.Request.Second))
	case d.Verdict == admission.Refuse:
		return kindRefused + int(d.Reason)
	case e.Failure != admission.None:
		return kindFailed + int(e.Failure)
	case d.Shadow != admission.None:
		return kindShadow + int(d.Shadow)
	case d.Verdict == admission.Replay:
		return kindReplay
	}
	return kindAdmit
}

// A budget lets so many events through in each second of their own time. The
// zero value is ready; it is safe for concurrent use. Where the budget is used
// up, asking writes to no memory, so a flood costs next to nothing.
type budget struct{ state atomic.Uint64 } // second << 32 | spent

func (b *budget) spend(second uint32, limit uint32) bool {
	for {
		old := b.state.Load()
		at, spent := uint32(old>>32), uint32(old)
		// An event of the second before, reported late, spends from now.
		if second > at {
			at, spent = second, 0
		}
		if spent >= limit {
			return false
		}
		if b.state.CompareAndSwap(old, uint64(at)<<32|uint64(spent+1)) {
			return true
		}
	}
}

// endSecond is the second since 1970 in which the event's request ended.
func endSecond(e *admission.Event) uint32 {
	return uint32((e.Request.Received.UnixNano() + int64(e.Done)) / int64(time.Second))
}
