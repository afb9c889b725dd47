package idempotency

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"sluice/admission"
)

// Status is the value of the Idempotency-Status header.
type Status uint8

const (
	StatusNone       Status = iota // no key, or nothing known of it: no header
	StatusFresh                    // executed now
	StatusReplayed                 // the first answer again
	StatusInProgress               // the first request is still running
	StatusReused                   // the key belongs to another request
	StatusInDoubt                  // whether the request took effect is unknown
	StatusBypassed                 // executed without protection: the store is down
	StatusNotStored                // executed, but its answer could not be stored (yet)
	statusCount
)

var statusNames = [statusCount]string{"", "fresh", "replayed", "in_progress", "reused", "in_doubt", "bypassed", "not_stored"}

func (s Status) String() string { return statusNames[s] }

// Statuses lists every status that goes on the wire.
func Statuses() []Status {
	return []Status{StatusFresh, StatusReplayed, StatusInProgress, StatusReused, StatusInDoubt, StatusBypassed, StatusNotStored}
}

// Finding is what the gate says about a keyed request.
//
//	Verdict   Reason                   meaning
//	Admit     None                     send it, then end Claim
//	Replay    None                     answer it with Answer
//	Refuse    KeyReused KeyInProgress  refuse it
//	          KeyInDoubt
//	          StoreUnavailable
type Finding struct {
	Verdict    admission.Verdict
	Reason     admission.Reason
	Status     Status
	RetryAfter time.Duration // with KeyInProgress and StoreUnavailable

	// Claim is set with Admit and must be ended: by Settle or by Release.
	Claim *Claim

	// Answer is set with Replay; it is shared and must not be changed.
	// Answered is when the origin gave it. BodyOmitted says that the origin's
	// body is not in it, because it was not kept or is not the caller's.
	Answer      *Answer
	Answered    time.Time
	BodyOmitted bool
}

// Response is an answer of the origin, in memory of the transport; the gate
// copies what it keeps before Settle returns.
type Response struct {
	Status int
	// Header yields the header lines; nil means none.
	// fasthttp.ResponseHeader.All is one.
	Header iter.Seq2[[]byte, []byte]
	Body   []byte
	// BodyOmitted says that the body is not in Body, because it is too large
	// or passes by as a stream; the record becomes a tombstone.
	BodyOmitted bool
}

// Options configures a Gate. The zero value is usable.
type Options struct {
	// CacheBytes bounds the answers kept in memory in front of the store.
	// Zero means 32 MiB, negative none.
	CacheBytes int
	// CacheFor is how long an answer is kept there at most, and so how long
	// other gateways may replay a record after an operator removed it. Zero
	// means 10 minutes.
	CacheFor time.Duration

	// MaxWaiters and MaxWaitersPerKey bound how many repetitions wait for a
	// running request; more are answered at once. Zero means 4096 and 16.
	MaxWaiters, MaxWaitersPerKey int

	// PollFrom and PollTo bound the pause between two looks at a request that
	// runs on another gateway; it grows from one to the other. Zero means 20ms
	// and 200ms.
	PollFrom, PollTo time.Duration

	// RetryFor is how long a change that the store did not confirm is tried
	// again in the background. Zero means 30s.
	RetryFor time.Duration
	// MaxRetrying and MaxRetryingBytes bound how many such changes are kept
	// and what their answers may hold. Zero means 4096 and 64 MiB.
	MaxRetrying, MaxRetryingBytes int
}

func (o Options) withDefaults() (Options, error) {
	var errs []error
	duration := func(name string, d *time.Duration, def time.Duration) {
		if *d < 0 {
			errs = append(errs, fmt.Errorf("idempotency: %s is %v; it cannot be negative", name, *d))
		} else if *d == 0 {
			*d = def
		}
	}
	number := func(name string, n *int, def int) {
		if *n < 0 {
			errs = append(errs, fmt.Errorf("idempotency: %s is %d; it cannot be negative", name, *n))
		} else if *n == 0 {
			*n = def
		}
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = 32 << 20
	}
	duration("CacheFor", &o.CacheFor, 10*time.Minute)
	number("MaxWaiters", &o.MaxWaiters, 4096)
	number("MaxWaitersPerKey", &o.MaxWaitersPerKey, 16)
	duration("PollFrom", &o.PollFrom, 20*time.Millisecond)
	duration("PollTo", &o.PollTo, 200*time.Millisecond)
	duration("RetryFor", &o.RetryFor, 30*time.Second)
	number("MaxRetrying", &o.MaxRetrying, 4096)
	number("MaxRetryingBytes", &o.MaxRetryingBytes, 64<<20)
	if o.PollTo < o.PollFrom {
		errs = append(errs, fmt.Errorf("idempotency: PollTo %v is shorter than PollFrom %v", o.PollTo, o.PollFrom))
	}
	return o, errors.Join(errs...)
}

// Gate leads keyed requests through the state machine. It is safe for
// concurrent use.
type Gate struct {
	store   Store
	names   *Names
	options Options
	cache   *cache
	flights *flights
	retries retries
	waiters atomic.Int64
	stats   counters
}

// New returns a gate over store, which stays the caller's to close, after the
// gate.
func New(store Store, names *Names, o Options) (*Gate, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	g := &Gate{
		store:   store,
		names:   names,
		options: o,
		cache:   newCache(o.CacheBytes, o.CacheFor),
		flights: newFlights(),
	}
	g.retries.stop = make(chan struct{})
	return g, nil
}

// Close waits until changes under way in the background have been made or
// given up; each is tried once more at once. It returns ctx's error if that is
// over before.
func (g *Gate) Close(ctx context.Context) error { return g.retries.close(ctx) }

// Ask is a request with a key.
type Ask struct {
	Tenant      string
	Scope       string // id of the route
	Key         []byte // from ParseKey
	Fingerprint Fingerprint
	Credential  []byte // what the request authenticates with; nil if nothing
	Policy      *Policy
}

// Keyed is an Ask made ready: it holds hashes only, nothing of the request.
type Keyed struct {
	policy      *Policy
	fingerprint Fingerprint
	ids         [2]id  // under each secret; the first is the one written
	tags        [2]Tag // of the credential, likewise
	names       int    // how many of them are in use
	bound       bool
}

// Prepare computes the names under which a request may be recorded.
func (g *Gate) Prepare(a *Ask) Keyed {
	k := Keyed{
		policy:      a.Policy,
		fingerprint: a.Fingerprint,
		names:       len(g.names.secrets),
		bound:       a.Policy.BindCredential,
	}
	for i, s := range g.names.secrets {
		k.ids[i] = s.record(a.Tenant, a.Scope, a.Key)
		if k.bound {
			k.tags[i] = s.tag(k.ids[i], a.Credential)
		}
	}
	return k
}

// RecordName is the name of k's record in the store; for logs and operators.
func (g *Gate) RecordName(k *Keyed) string { return g.names.spell(k.ids[0]) }

// Cached answers from memory alone, where the answer is kept there. It does no
// I/O and costs no more than hashing; use it before any other gate.
func (g *Gate) Cached(k *Keyed) (f Finding, ok bool) {
	f, ok = g.remembered(k)
	if ok {
		g.stats.cacheHits.Add(1)
		g.stats.count(f.Status)
	}
	return f, ok
}

// Lookup answers a request that another gate would refuse: if its record says
// something, that is told instead. It changes nothing in the store and does
// not wait. Not ok means: refuse it as intended; so does a store that is down.
func (g *Gate) Lookup(ctx context.Context, k *Keyed) (f Finding, ok bool) {
	if f, ok = g.Cached(k); ok {
		return f, true
	}
	for i := range k.names {
		r, err := g.storeRead(ctx, g.names.spell(k.ids[i]))
		if err != nil {
			return Finding{}, false
		}
		if f, ok = g.tell(k, i, r); ok {
			g.stats.count(f.Status)
			return f, true
		}
	}
	return Finding{}, false
}

// remembered looks at the answers in memory.
func (g *Gate) remembered(k *Keyed) (Finding, bool) {
	now := time.Now()
	for i := range k.names {
		if r := g.cache.get(k.ids[i], now); r != nil {
			return g.tell(k, i, Reading{Record: r, Left: r.Retention})
		}
	}
	return Finding{}, false
}

// tell puts what is found under k's i-th name into words; not ok where it does
// not stand in the way of a claim.
func (g *Gate) tell(k *Keyed, i int, r Reading) (Finding, bool) {
	switch meet(r.Record, r.Left, k.fingerprint, Owner{}) {
	case reused:
		return Finding{Reason: admission.KeyReused, Status: StatusReused}, true
	case answered:
		return g.replay(k, i, r.Record, StatusReplayed), true
	case unresolved:
		if r.Record.Answer != nil { // the origin did answer, but with a failure
			return g.replay(k, i, r.Record, StatusInDoubt), true
		}
		return Finding{Reason: admission.KeyInDoubt, Status: StatusInDoubt}, true
	case running:
		return inProgress(), true
	case lapsed:
		if r.Record.OnUnknown == Hold {
			return Finding{Reason: admission.KeyInDoubt, Status: StatusInDoubt}, true
		}
	}
	return Finding{}, false
}

func (g *Gate) replay(k *Keyed, i int, r *Record, s Status) Finding {
	f := Finding{
		Verdict:     admission.Replay,
		Status:      s,
		Answer:      r.Answer,
		Answered:    r.Settled,
		BodyOmitted: r.State == Tombstone,
	}
	// A record without a tag was written while credentials were not bound:
	// nobody can show that its body is theirs.
	if k.bound && r.Credential != k.tags[i] && len(f.Answer.Body) > 0 {
		f.Answer = f.Answer.withoutBody()
		f.BodyOmitted = true
	}
	return f
}

// Waits that are promised to clients.
const (
	retryRunning = time.Second
	retryStore   = 2 * time.Second
)

func inProgress() Finding {
	return Finding{Reason: admission.KeyInProgress, Status: StatusInProgress, RetryAfter: retryRunning}
}

func storeUnavailable() Finding {
	return Finding{Reason: admission.StoreUnavailable, RetryAfter: retryStore}
}

// Claim is a record won by one request. It is ended exactly once, by Settle or
// Release; endings after the first do nothing. Its methods are safe for
// concurrent use.
type Claim struct {
	policy   *Policy
	id       id
	name     string
	record   *Record // not changed, but replaced: stores may keep it
	first    Record  // what record is to begin with
	flight   *flight
	until    time.Time // lease's end, on this gateway's clock
	bypassed bool
	ended    atomic.Bool
	header   keeper // of the answer; here, since it needs memory while it is read
}

// Attempt is how many claims have been made on the record, this one included:
// above 1 only under Release. Forward it, so that an origin can tell.
func (c *Claim) Attempt() int { return int(c.record.Owner.Attempt) }

// Name is the name of the record in the store; for logs.
func (c *Claim) Name() string { return c.name }

// LeaseEnds is when other gateways may conclude that this one died. A request
// that has not been sent by then must not be sent any more.
func (c *Claim) LeaseEnds() time.Time { return c.until }
