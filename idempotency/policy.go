package idempotency

import (
	"errors"
	"fmt"
	"net/textproto"
	"strings"
	"time"
)

// Policy is what one route wants done with keyed requests. It must not be
// changed once it is in use.
type Policy struct {
	OnUnknown OnUnknown

	// DoubtUnavailable treats a 503 of the origin as an unknown outcome. By
	// default it frees the key, since a 503 says that nothing was done.
	DoubtUnavailable bool

	// Lease is how long a claim may go unsettled before others may conclude
	// that its owner died: the longest time the origin may take, plus the time
	// to settle, plus a margin. At least a millisecond and less than
	// Retention.
	Lease time.Duration

	// Retention is how long a record is kept after it was last written: the
	// time within which a repetition is recognised.
	Retention time.Duration

	// Wait is how long a repetition waits for the running first request before
	// it is answered 409. Zero does not wait.
	Wait time.Duration

	// MaxReplay is the largest answer body to keep, in bytes. A larger one
	// leaves a tombstone. Zero keeps no bodies.
	MaxReplay int

	// PassUnchecked lets requests pass while the store is down, unprotected
	// and marked bypassed. By default they are refused.
	PassUnchecked bool

	// BindCredential replays a stored body only to the credential that the
	// first request carried.
	BindCredential bool

	// KeepHeaders are answer fields to keep besides the usual ones.
	KeepHeaders []string
}

// Defaults of Policy, right for most routes.
const (
	DefaultRetention = 24 * time.Hour
	DefaultWait      = time.Second
	DefaultMaxReplay = 256 << 10
	// LeaseMargin is what to add to the longest time a request may take at the
	// origin and to settle.
	LeaseMargin = 2 * time.Second
)

// maxLease is what fits the record's 32 bits of milliseconds.
const maxLease = 49 * 24 * time.Hour

// Check reports everything that is wrong with p.
func (p *Policy) Check() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("idempotency policy: "+format, args...))
	}
	if p.Lease < time.Millisecond || p.Lease > maxLease {
		bad("lease is %v; it must be 1ms to %v", p.Lease, maxLease)
	}
	if p.Retention <= p.Lease {
		bad("retention %v is not longer than the lease %v; a record would vanish while its request runs", p.Retention, p.Lease)
	}
	if p.Wait < 0 {
		bad("wait is %v; it cannot be negative", p.Wait)
	}
	if p.MaxReplay < 0 || p.MaxReplay > maxBody {
		bad("max_replay is %d bytes; it must be 0 to %d", p.MaxReplay, maxBody)
	}
	for _, h := range p.KeepHeaders {
		if neverKept(h) {
			bad("header %s is never replayed", textproto.CanonicalMIMEHeaderKey(h))
		}
		if h == "" || strings.ContainsAny(h, " \t\r\n:") {
			bad("%q is no header name", h)
		}
	}
	return errors.Join(errs...)
}
