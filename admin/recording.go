package admin

import (
	"fmt"
	"math"
	"time"
)

// The decision log is a recording: from it, its decisions can be made again. Its
// lines are of the kinds below, one JSON object each, told apart by "kind".
// Times are UTC. A decision is written when its request has ended, so lines are
// not in the order of the times at which things were decided.
const (
	KindDecision = "decision" // a [DecisionLine]
	KindSignal   = "signal"   // a [SignalLine]
	KindPolicy   = "policy"   // a [PolicyLine]
	KindGap      = "gap"      // a [GapLine]
)

// RecordingVersion is what this package writes.
const RecordingVersion = 1

// DecisionLine is one decision with the facts that it depended on.
type DecisionLine struct {
	Kind string `json:"kind"`
	Line
	Recorded
}

// Recorded is what a decision depended on, of the request and of what was drawn
// for it.
type Recorded struct {
	Received time.Time `json:"received"` // when the last byte of the head was read
	// AskedUS is when the gates were asked, in µs from Received; 0: they were not.
	AskedUS int64  `json:"asked_us,omitempty"`
	Method  string `json:"method,omitempty"` // "": what came was no request
	Path    string `json:"path,omitempty"`   // raw, without the query
	Client  string `json:"client,omitempty"` // address, behind trusted proxies
	Cert    string `json:"cert,omitempty"`   // name in the verified certificate
	// Fields are the header fields that the policy reads, and those that the
	// configuration asks for, by name in lower case. Of one that was sent several
	// times the first value is repeated as often.
	Fields map[string][]string `json:"fields,omitempty"`
	// Identified is "api_key" where a credential told the tenant, or failed to.
	Identified string `json:"identified,omitempty"`

	// Key and Fingerprint are keyed hashes: of the tenant and its idempotency
	// key, [InvalidKey] for one that is none, and of what the request asks for.
	Key         string `json:"key,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`
	KeyStatus   string `json:"key_status,omitempty"` // what the store found
	// Promise is the hash of what a refusal promised, Ticket that of the promise
	// that a ticket was brought for.
	Promise string `json:"promise,omitempty"`
	Ticket  string `json:"ticket,omitempty"`

	// Limit is the name of the bucket that the request met, Tokens what was left
	// in it, of Burst.
	Limit  string `json:"limit,omitempty"`
	Tokens int64  `json:"tokens,omitempty"`
	Burst  int64  `json:"burst,omitempty"`
	// Lot and Again were drawn at the queue; see [admission.Decision].
	Lot   uint32 `json:"lot,omitempty"`
	Again uint32 `json:"again,omitempty"`

	// Cut: a fact had no room, so that the decision cannot be made again.
	Cut bool `json:"cut,omitempty"`
}

// SignalLine is one reading of a signal, or the failure to get one.
type SignalLine struct {
	Kind   string    `json:"kind"`
	Time   time.Time `json:"ts"` // when it was handed in
	Queue  string    `json:"queue"`
	Signal string    `json:"signal"`
	// At is when the figures were true; nil: the source cannot tell.
	At    *time.Time `json:"at,omitempty"`
	Age   *float64   `json:"age,omitempty"` // seconds; nil: not told
	Depth *float64   `json:"depth,omitempty"`
	Done  *float64   `json:"done,omitempty"` // completions since whenever
	// Failed: there was no reading. Undefined: there was one that is no number.
	Failed    bool `json:"failed,omitempty"`
	Undefined bool `json:"undefined,omitempty"`
	// Wait is what the queue was then predicted to take, in seconds, and Share
	// what of each class was let in.
	Wait  *float64           `json:"wait,omitempty"`
	Share map[string]float64 `json:"share,omitempty"`
}

// Figure makes a number fit for a line. An undefined one, which JSON has no word
// for, is left out and marked.
func (l *SignalLine) Figure(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		l.Undefined = true
		return nil
	}
	return &v
}

// PolicyLine says that a configuration came into force.
type PolicyLine struct {
	Kind    string    `json:"kind"`
	Version int       `json:"version"` // of the recording's format
	Time    time.Time `json:"ts"`
	Config  string    `json:"config"` // hash
	File    string    `json:"file,omitempty"`
	Classes []string  `json:"classes"` // most important first
	Fields  []string  `json:"fields"`  // header fields that are recorded
	// How many records a second there may be of each route and reason, and of
	// what each route admits; "all": no bound.
	Refusals string `json:"refusals_per_second"`
	Admits   string `json:"admits_per_second"`
	Signals  bool   `json:"signals"` // readings are recorded
}

// GapLine says that records are missing: so many since the gap before.
type GapLine struct {
	Kind       string    `json:"kind"`
	Time       time.Time `json:"ts"`
	SampledOut uint64    `json:"sampled_out"` // over the cap
	Dropped    uint64    `json:"dropped"`     // the output was too slow, or failed
}

// All is the rate of a [LogOptions] that has no bound.
const All = math.MaxInt32

func perSecond(n uint32) string {
	if n >= All {
		return "all"
	}
	return fmt.Sprint(n)
}

// full is the record as the decision log has it.
func (rec *record) full(h *Hider) DecisionLine {
	f := &rec.facts
	l := DecisionLine{Kind: KindDecision, Line: rec.line(), Recorded: Recorded{
		Received: rec.received.UTC(), AskedUS: rec.asked.Microseconds(),
		KeyStatus: rec.keyStatus.String(), Limit: rec.limit.String(), Tokens: rec.remaining, Burst: rec.quota,
		Lot: uint32(rec.lot), Again: uint32(rec.again), Cut: f.cut,
	}}
	l.Method, _ = f.get(pieceMethod)
	l.Path, _ = f.get(piecePath)
	l.Cert, _ = f.get(pieceCert)
	if rec.client.IsValid() {
		l.Client = rec.client.String()
	}
	for i, name := range rec.policy.fields {
		if value, ok := f.get(pieceField + i); ok {
			if l.Fields == nil {
				l.Fields = make(map[string][]string)
			}
			for range f.times[i] {
				l.Fields[name] = append(l.Fields[name], value)
			}
		}
	}
	if f.byKey {
		l.Identified = "api_key"
	}
	if key, ok := f.get(pieceKey); ok {
		l.Key = InvalidKey
		if key != "" {
			l.Key = h.hide("key", l.Tenant, bareKey(key))
		}
	}
	if f.fingerprint != 0 {
		l.Fingerprint = h.hide("fingerprint", fmt.Sprint(f.fingerprint))
	}
	if f.promise != 0 {
		l.Promise = h.hide("promise", fmt.Sprintf("%016x", f.promise))
	}
	if ticket, ok := f.get(pieceTicket); ok {
		if id, ok := ticketID(ticket); ok {
			l.Ticket = h.hide("promise", id)
		}
	}
	return l
}

// InvalidKey stands in a [Recorded] for an idempotency key that is none.
const InvalidKey = "invalid"

// bareKey is a key without its quotes: both spellings are one key.
func bareKey(key string) string {
	if n := len(key); n >= 2 && key[0] == '"' && key[n-1] == '"' {
		return key[1 : n-1]
	}
	return key
}
