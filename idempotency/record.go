package idempotency

import (
	"crypto/rand"
	"encoding/hex"
	"time"

	"sluice/admission"
)

// State is what is known of a keyed request. The zero value is Absent.
type State uint8

const (
	Absent    State = iota // nothing is known
	InFlight               // claimed, and perhaps sent
	Completed              // answered; the answer is kept
	Tombstone              // answered; all but the body is kept
	InDoubt                // sent; whether it took effect is unknown
	stateCount
)

var stateNames = [stateCount]string{"absent", "in_flight", "completed", "tombstone", "in_doubt"}

func (s State) String() string {
	if s < stateCount {
		return stateNames[s]
	}
	return "invalid"
}

// answered reports whether the origin's answer is final.
func (s State) answered() bool { return s == Completed || s == Tombstone }

// Owner is one claim on a record: a random token that no other claim shares,
// and how many claims on this record came before. The token alone decides who
// may change the record; the attempt is for the origin.
type Owner struct {
	Token   [16]byte
	Attempt uint32 // 1 for the first claim
}

func newOwner(attempt uint32) Owner {
	o := Owner{Attempt: attempt}
	rand.Read(o.Token[:])
	return o
}

// same reports whether both are one claim.
func (o Owner) same(p Owner) bool { return o.Token == p.Token }

func (o Owner) String() string { return hex.EncodeToString(o.Token[:]) }

// OnUnknown is what happens to a record when nobody knows whether its request
// took effect.
type OnUnknown uint8

const (
	// Hold, the zero value, keeps the record in doubt and never sends the
	// request again: at most once.
	Hold OnUnknown = iota
	// Release frees the record, so that a repetition is sent: at least once,
	// for origins that recognise the forwarded key themselves.
	Release
)

func (u OnUnknown) String() string {
	if u == Release {
		return "release"
	}
	return "hold"
}

// Tag stands for the credential of a record's first request. The zero value
// means that none was bound.
type Tag [32]byte

// Record is what the store keeps for one idempotency key. Records are not
// changed once they have been handed over: share them freely.
type Record struct {
	State     State
	Owner     Owner
	OnUnknown OnUnknown // of the policy under which it was claimed

	// Lease is how long the owner may be silent before others may conclude
	// that it died; Retention is how long the store keeps the record after
	// writing it. Whole milliseconds.
	Lease, Retention time.Duration

	// When the request was claimed and when its record was settled, by the
	// clocks of the gateways that did so; for people, never for decisions.
	Claimed, Settled time.Time

	Fingerprint Fingerprint
	Credential  Tag
	Answer      *Answer // nil while there is none
}

// Answer is the origin's answer, as far as it is kept.
type Answer struct {
	Status int
	Fields []Field
	Body   []byte
}

// Field is one header line.
type Field = admission.Field

// size is roughly how much memory a holds.
func (a *Answer) size() int {
	if a == nil {
		return 0
	}
	n := 64 + len(a.Body)
	for _, f := range a.Fields {
		n += 32 + len(f.Name) + len(f.Value)
	}
	return n
}

// withoutBody returns a as a tombstone keeps it.
func (a *Answer) withoutBody() *Answer { return &Answer{Status: a.Status, Fields: a.Fields} }
