package shedding

import (
	"errors"
	"fmt"
	"time"

	"sluice/admission"
)

// Loss says what holds while a signal is lost, which it is when no sample was
// believed for three of its periods.
type Loss uint8

const (
	// Hold is the zero value. If the queue had a backlog when last seen, go on
	// projecting from there, which comes to admitting as much as was last
	// measured to be completed; otherwise stay open.
	Hold Loss = iota
	// Cap admits nine tenths of the completion rate of recent times, most
	// important class first.
	Cap
	// Open lets this signal have no say.
	Open
	// Closed admits each class's MinAdmit only.
	Closed

	lossCount
)

var lossNames = [lossCount]string{Hold: "hold", Cap: "cap", Open: "open", Closed: "closed"}

func (l Loss) String() string { return lossNames[l] }

// SignalOptions describes one signal of a queue.
type SignalOptions struct {
	Name   string        // unique within its queue
	Every  time.Duration // between two samples; required
	Delay  time.Duration // from the figures' being true to their arrival here
	OnLoss Loss
	// Retention is the oldest age that is believed; 0: 30 days.
	Retention time.Duration
}

// QueueOptions describes one queue behind the origin.
type QueueOptions struct {
	Name string
	// MaxUsefulAge is how long work may wait before it is not worth doing.
	MaxUsefulAge time.Duration
	// MaxDepth is how much work may wait; 0: any amount.
	MaxDepth float64
	Signals  []SignalOptions
	// Bands has one band for each class, most important first.
	Bands []Band
	// MaxRetryAfter bounds Retry-After, and with it for how long after an
	// overload began everybody can be promised something; 0: that of Options.
	MaxRetryAfter time.Duration
	// Mode Shadow counts all refusals of this queue without enforcing them.
	Mode admission.Mode
}

// Options describes the shedding gate.
type Options struct {
	// Classes is the number of classes, from 1 to 16.
	Classes int
	Queues  []QueueOptions
	// MaxRetryAfter is that of queues which do not say; 0: 15 minutes.
	MaxRetryAfter time.Duration
	// KeyHeader carries the idempotency key; "": Idempotency-Key.
	KeyHeader string
	// Tickets signs promises; nil: promises are known again by idempotency
	// key alone.
	Tickets *Tickets
	// Promises is how many promises by key, and how many uses of promises,
	// are remembered at a time; 0: 131072. Each takes 24 and 16 bytes.
	Promises int
	// Tenants sizes each queue's sketch of demand, in tenants that matter at
	// a time, counted once for each class; 0: 16384. Each takes 16 bytes, or
	// up to twice that. More tenants than that are told apart less well, not
	// worse served.
	Tenants int
	// Seed makes hashes and draws repeatable; 0: a random one.
	Seed uint64
}

const (
	maxClasses       = 16
	defaultMaxRetry  = 15 * time.Minute
	defaultRetention = 30 * 24 * time.Hour
	defaultPromises  = 1 << 17
	defaultTenants   = 1 << 14
	defaultKeyHeader = "Idempotency-Key"
)

// filled returns o with defaults in place of zeros, or every problem it has.
func (o Options) filled() (Options, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("shedding: "+format, args...)) }
	if o.Classes < 1 || o.Classes > maxClasses {
		bad("Classes is %d, want 1 to %d", o.Classes, maxClasses)
	}
	if o.MaxRetryAfter == 0 {
		o.MaxRetryAfter = defaultMaxRetry
	}
	if o.KeyHeader == "" {
		o.KeyHeader = defaultKeyHeader
	}
	if o.Promises == 0 {
		o.Promises = defaultPromises
	}
	if o.Tenants == 0 {
		o.Tenants = defaultTenants
	}
	if o.Promises < 0 || o.Tenants < 0 {
		bad("Promises is %d and Tenants is %d, want positive numbers", o.Promises, o.Tenants)
	}
	queues := make([]QueueOptions, len(o.Queues))
	names := map[string]bool{}
	for i, q := range o.Queues {
		if q.Name == "" || names[q.Name] {
			bad("Queues[%d].Name is %q, want a name of its own", i, q.Name)
		}
		names[q.Name] = true
		if q.MaxRetryAfter == 0 {
			q.MaxRetryAfter = o.MaxRetryAfter
		}
		var problems []error
		queues[i], problems = q.filled(o.Classes)
		errs = append(errs, problems...)
	}
	o.Queues = queues
	return o, errors.Join(errs...)
}

func (q QueueOptions) filled(classes int) (QueueOptions, []error) {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("shedding: queue %q: "+format, append([]any{q.Name}, args...)...))
	}
	if q.MaxUsefulAge < time.Second {
		bad("MaxUsefulAge is %v, want at least 1s", q.MaxUsefulAge)
	}
	if q.MaxRetryAfter < time.Second {
		bad("MaxRetryAfter is %v, want at least 1s", q.MaxRetryAfter)
	}
	if !(q.MaxDepth >= 0) {
		bad("MaxDepth is %v, want 0 (any) or more", q.MaxDepth)
	}
	if len(q.Bands) != classes {
		bad("has %d bands, want one for each of %d classes", len(q.Bands), classes)
	}
	bands := make([]Band, len(q.Bands))
	for i, b := range q.Bands {
		if b.From == 0 && b.Full == 0 {
			b.From, b.Full = 1, 1
		}
		if !(b.From >= 0 && b.From <= b.Full && b.Full < 1e6) {
			bad("band %d runs from %v to %v, want 0 <= From <= Full", i, b.From, b.Full)
		}
		if !(b.MinAdmit >= 0 && b.MinAdmit <= 1) {
			bad("band %d has MinAdmit %v, want a share from 0 to 1", i, b.MinAdmit)
		}
		if b.Status != 0 && b.Status != 503 && b.Status != 429 {
			bad("band %d has Status %d, want 503 or 429", i, b.Status)
		}
		bands[i] = b
	}
	q.Bands = bands
	signals := make([]SignalOptions, len(q.Signals))
	names := map[string]bool{}
	for i, s := range q.Signals {
		if names[s.Name] {
			bad("has two signals named %q, want names of their own", s.Name)
		}
		names[s.Name] = true
		if s.Every <= 0 || s.Delay < 0 {
			bad("signal %q has Every %v and Delay %v, want a period above 0 and a delay of 0 or more", s.Name, s.Every, s.Delay)
		}
		if s.Retention == 0 {
			s.Retention = defaultRetention
		}
		if s.Retention < q.MaxUsefulAge {
			bad("signal %q has Retention %v, want at least MaxUsefulAge, %v", s.Name, s.Retention, q.MaxUsefulAge)
		}
		if s.OnLoss >= lossCount {
			bad("signal %q has an unknown OnLoss", s.Name)
		}
		signals[i] = s
	}
	q.Signals = signals
	return q, errs
}
