// Package idempotency executes a keyed request at most once and gives its first
// answer again to whoever repeats it.
//
// # The model
//
// A client names a request by an Idempotency-Key. The gate turns tenant, route
// and key into the name of a [Record], and the record's [State] says what is
// known of the request:
//
//	Absent     nothing: whoever claims it may send the request
//	InFlight   its owner has claimed it and may have sent it
//	Completed  the origin answered, and the answer is kept
//	Tombstone  the origin answered, and all but the body is kept
//	InDoubt    it was sent, and nobody knows whether it took effect
//
// One claim wins; it is an atomic step in the store. The winner sends the
// request and then settles the record with what came of it, or releases it
// when the request certainly had no effect. Everybody else finds the record:
// the same request gets the answer (Completed, Tombstone), waits for it a
// little (InFlight) or is told that nobody knows it (InDoubt); a different
// request under the same key is refused before a single stored byte leaves.
//
// # Why nothing is executed twice
//
// A record is changed only by its [Owner], a random token drawn for one claim,
// compared inside the store in the same step as the change. The one exception
// is a record whose owner has been silent for longer than its lease, measured
// by the store's clock alone. Under [Hold] such a record becomes InDoubt, never
// free: a gateway that crashed may have sent the request. Only the owner's late
// answer or an operator resolves it. Under [Release], for origins that
// recognise the forwarded key themselves, it is taken over with the next
// attempt number.
//
// A time-out is not a miss. A claim whose reply was lost may have been written,
// so it is asked for again under the same owner, and recognised; where that
// fails too, the request is refused (or passed, if the route says so) and the
// claim withdrawn.
//
// # The parts
//
// key.go, fingerprint.go and name.go turn a request into key, fingerprint and
// record name. machine.go is the state machine and outcome.go the table of
// outcomes: pure functions. codec.go writes records as bytes. store.go is the
// contract of stores, memory.go and redis.go keep it, and storetest holds them
// to it. gate.go is what a proxy drives: Prepare, then Cached, Lookup or Claim,
// and for a won claim exactly one of Settle and Release.
package idempotency
