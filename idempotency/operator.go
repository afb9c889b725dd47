package idempotency

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// RecordKey names a record the way people know it.
type RecordKey struct {
	Tenant string
	Scope  string // id of the route
	Key    string // as ParseKey returns it: without quotes
}

// RecordView is a record as an operator sees it: nothing of the request, and
// of the answer only what tells it apart.
type RecordView struct {
	Name      string        `json:"name"`
	State     State         `json:"-"`
	StateName string        `json:"state"`
	Owner     string        `json:"owner"`
	Attempt   int           `json:"attempt"`
	OnUnknown string        `json:"on_unknown"`
	Claimed   time.Time     `json:"claimed"`
	Settled   time.Time     `json:"settled,omitzero"`
	Left      time.Duration `json:"-"` // of the retention
	LeaseLeft time.Duration `json:"-"` // while InFlight; negative: its owner is silent
	Status    int           `json:"status,omitempty"`
	BodyBytes int           `json:"body_bytes,omitempty"`
	// Fingerprint tells whether two requests were the same.
	Fingerprint string `json:"fingerprint"`
}

// Resolution is what an operator has found out about a request.
type Resolution struct {
	// Answer is what repetitions are to get, if the request took effect; nil
	// says that it did not, and frees the key.
	Answer *Answer
}

// Errors of Resolve, besides those of stores.
var (
	ErrNoRecord = errors.New("there is no record for this tenant, route and key")
	// ErrRunning: resolving now would race with the origin's answer.
	ErrRunning = errors.New("the request is still running")
	// ErrAnswered: repetitions may have got that answer already.
	ErrAnswered = errors.New("the request has been answered; its answer cannot be replaced")
)

// Find returns the record of rk, or ErrNoRecord.
func (g *Gate) Find(ctx context.Context, rk RecordKey) (RecordView, error) {
	_, name, r, err := g.find(ctx, rk)
	if err != nil {
		return RecordView{}, err
	}
	return view(name, r), nil
}

func (g *Gate) find(ctx context.Context, rk RecordKey) (id, string, Reading, error) {
	for _, s := range g.names.secrets {
		i := s.record(rk.Tenant, rk.Scope, []byte(rk.Key))
		name := g.names.spell(i)
		r, err := g.storeRead(ctx, name)
		if err != nil || r.Record != nil {
			return i, name, r, err
		}
	}
	return id{}, "", Reading{}, ErrNoRecord
}

func view(name string, r Reading) RecordView {
	v := RecordView{
		Name:        name,
		State:       r.Record.State,
		StateName:   r.Record.State.String(),
		Owner:       r.Record.Owner.String(),
		Attempt:     int(r.Record.Owner.Attempt),
		OnUnknown:   r.Record.OnUnknown.String(),
		Claimed:     r.Record.Claimed,
		Settled:     r.Record.Settled,
		Left:        r.Left,
		Fingerprint: hex.EncodeToString(r.Record.Fingerprint[:]),
	}
	if v.State == InFlight {
		v.LeaseLeft = leaseLeft(r.Record, r.Left)
	}
	if a := r.Record.Answer; a != nil {
		v.Status, v.BodyBytes = a.Status, len(a.Body)
	}
	return v
}

// Change is what Resolve did, for the audit log.
type Change struct {
	Before RecordView  `json:"before"`
	After  *RecordView `json:"after"` // nil: the record is gone
}

// Resolve ends the doubt about a record: completed with an answer, or absent.
// The first owner's answer, should it still come, is then refused. An answered
// record can be made absent too; other gateways may replay it from memory for
// Options.CacheFor.
//
// Errors: ErrNoRecord, ErrRunning, ErrAnswered, ErrLost if the record changed
// in between.
func (g *Gate) Resolve(ctx context.Context, rk RecordKey, to Resolution) (Change, error) {
	id, name, r, err := g.find(ctx, rk)
	if err != nil {
		return Change{}, err
	}
	old := r.Record
	c := Change{Before: view(name, r)}
	switch {
	case old.State == InFlight && c.Before.LeaseLeft >= 0:
		return Change{}, fmt.Errorf("%w; its lease runs for another %v", ErrRunning, c.Before.LeaseLeft.Round(time.Second))
	case to.Answer == nil:
		err = g.storeRelease(ctx, name, old.Owner, old.State.answered())
	case old.State.answered():
		return Change{}, ErrAnswered
	case to.Answer.Status < 200 || to.Answer.Status > 599:
		return Change{}, fmt.Errorf("an answer with status %d cannot be replayed; give 200 to 599", to.Answer.Status)
	case len(to.Answer.Body) > maxBody:
		return Change{}, fmt.Errorf("the answer's body has %d bytes; give at most %d", len(to.Answer.Body), maxBody)
	default:
		next := *old
		next.State = Completed
		next.Owner = newOwner(old.Owner.Attempt)
		next.Settled = time.Now()
		next.Answer = to.Answer
		err = g.storeSettle(ctx, name, old.Owner, &next)
		after := view(name, Reading{&next, next.Retention})
		c.After = &after
	}
	if err != nil {
		return Change{}, err
	}
	g.cache.remove(id)
	return c, nil
}
