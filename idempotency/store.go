package idempotency

import (
	"context"
	"errors"
	"time"
)

// Errors of stores. Every other error means that the store could not be asked,
// or that its reply was lost: whether the change was made is unknown.
var (
	// ErrLost: the record belongs to another claim; nothing was changed.
	ErrLost = errors.New("the record belongs to another claim")
	// ErrCorrupt: what is stored under the name is no record of ours, or a
	// damaged one; nothing was changed.
	ErrCorrupt = errors.New("no valid record is stored under this name")
	// ErrFull: the store has no room for another record; nothing was changed.
	ErrFull = errors.New("the store is full of records that must not be dropped")
)

// Reading is a record together with how much of its retention is left, by the
// store's clock. Record is nil where there is none.
type Reading struct {
	Record *Record
	Left   time.Duration
}

// Store keeps records by name. Each method is one atomic step in the store,
// and can be repeated after a lost reply: it then reports what the first try
// did. Records passed in and returned are not changed afterwards, by either
// side.
//
// Implementations are safe for concurrent use, honour the deadline of ctx and
// never answer a time-out with "absent". Package storetest holds them to this.
type Store interface {
	// Claim writes r, which is InFlight, where no record is; it returns nil if
	// it did so now or in an earlier try. Otherwise it changes nothing and
	// returns the record that is there; Left is 0 if the store cannot tell in
	// the same step.
	//
	// Errors: ErrCorrupt, ErrFull.
	Claim(ctx context.Context, name string, r *Record) (found *Reading, err error)

	// Read returns the record. It changes nothing.
	//
	// Errors: ErrCorrupt.
	Read(ctx context.Context, name string) (Reading, error)

	// Lapse replaces the record by next if it is InFlight, belongs to of and
	// its lease is over by the store's clock (see mayLapse). It returns what
	// is there afterwards, which the caller compares with next.
	//
	// Errors: ErrCorrupt.
	Lapse(ctx context.Context, name string, of Owner, next *Record) (Reading, error)

	// Settle writes next over the record of the claim of (see maySettle), with
	// its whole retention before it.
	//
	// Errors: ErrLost, ErrCorrupt.
	Settle(ctx context.Context, name string, of Owner, next *Record) error

	// Release removes the record of the claim of, provided that it has been
	// answered, or has not (see mayRelease).
	//
	// Errors: ErrLost, ErrCorrupt.
	Release(ctx context.Context, name string, of Owner, answered bool) error

	// Close frees what the store holds. No method may be called afterwards.
	Close() error
}
