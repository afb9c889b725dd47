package idempotency

import "time"

// This file is the state machine: pure functions, without clock or I/O. The
// memory store calls those that guard a change; the Redis scripts spell out the
// same guards, and storetest holds both to the same table.
//
//	from            event                                to
//	Absent          claim                                InFlight
//	any other       request with another fingerprint     unchanged (reused)
//	InFlight        same request, lease runs             unchanged (running)
//	InFlight        lease over, claimed under Hold       InDoubt, owner kept
//	InFlight        lease over, claimed under Release    InFlight, new owner, attempt+1
//	InFlight        settled by its owner                 Completed, Tombstone or InDoubt
//	InFlight        released by its owner                Absent
//	InDoubt         same request                         unchanged (unresolved)
//	InDoubt         late answer of its owner, operator   Completed or Tombstone
//	InDoubt         late release by owner, operator      Absent
//	Completed, T.   same request                         unchanged (answered)
//	Completed, T.   released by an operator              Absent
//	Absent          settled by an owner whose claim      Completed, Tombstone or InDoubt
//	                the store has lost
//	any             anything by someone else's owner     unchanged (ErrLost)
//	any             retention over                       Absent

// meeting is what a request finds under its key.
type meeting uint8

const (
	vacant     meeting = iota // nothing: claim it
	mine                      // its own claim, whose reply was lost
	reused                    // another request's record
	running                   // the same request, still running
	lapsed                    // the same request, whose owner is silent for longer than its lease
	unresolved                // the same request, in doubt
	answered                  // the same request, answered
)

// meet says what a request with fingerprint fp finds in r; left is how much of
// r's retention the store says is left, and claimed the owner the request
// claimed for, if it did.
//
// That the fingerprint differs is found before anything else is.
func meet(r *Record, left time.Duration, fp Fingerprint, claimed Owner) meeting {
	switch {
	case r == nil || r.State == Absent:
		return vacant
	case r.State == InFlight && r.Owner.same(claimed):
		return mine
	case r.Fingerprint != fp:
		return reused
	case r.State.answered():
		return answered
	case r.State == InDoubt:
		return unresolved
	case leaseLeft(r, left) < 0:
		return lapsed
	}
	return running
}

// leaseLeft is how long the owner of r may still be silent, given how much of
// r's retention is left; negative once the lease is over. The store measures
// left, so that the clocks of gateways do not matter: a record is written with
// its whole retention before it, hence its age is retention minus left.
func leaseLeft(r *Record, left time.Duration) time.Duration {
	return r.Lease - (r.Retention - left)
}

// successor is what a lapsed record turns into when a request claiming for
// mine meets it: in doubt under Hold, and taken over under Release.
func successor(lapsed *Record, mine Record) *Record {
	if lapsed.OnUnknown == Hold {
		next := *lapsed
		next.State = InDoubt
		next.Settled = mine.Claimed
		return &next
	}
	mine.Owner.Attempt = lapsed.Owner.Attempt + 1
	return &mine
}

// change says what a store does with a wish to change a record.
type change uint8

const (
	apply   change = iota // write it
	already               // it has been written before: report success
	refused               // the record is someone else's: ErrLost
)

// mayLapse guards the step from old to next because old's lease is over. Only
// already is returned where next's owner took the record over before.
func mayLapse(old *Record, left time.Duration, of Owner, next *Record) change {
	switch {
	case old == nil:
		return refused
	case old.State == InFlight && old.Owner.same(of) && leaseLeft(old, left) < 0:
		return apply
	case old.State == next.State && old.Owner.same(next.Owner):
		return already
	}
	return refused
}

// maySettle guards the step from old to next, which the owner of wants.
//
// A store that has lost the claim is told the answer all the same: it is what
// really happened, and forgetting it could only repeat it. An owner token is
// used for one request only, so an answer found under it is this answer.
func maySettle(old *Record, of Owner, next *Record) change {
	switch {
	case old == nil:
		return apply
	case old.Owner.same(of) && !old.State.answered():
		return apply
	case old.Owner.same(next.Owner) && old.State.answered():
		return already
	}
	return refused
}

// mayRelease guards the step from old to absent, which the owner of wants; for
// answered records only an operator does. A record that has been answered in
// between is therefore not removed by who believes that nothing happened.
func mayRelease(old *Record, of Owner, answered bool) change {
	switch {
	case old == nil:
		return already
	case old.Owner.same(of) && old.State.answered() == answered:
		return apply
	}
	return refused
}
