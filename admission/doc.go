// Package admission holds the words of Sluice as types and the one visible
// order in which a request meets the gates.
//
// # The model
//
// A [Request] is the facts of one HTTP request, copied from the transport. The
// [Controller] leads it past the gates, cheapest first, and makes one
// [Decision]: a [Verdict] (admit, replay or refuse) with a [Reason] from a
// closed set. Each gate that lets a request through may reserve something for
// it: tokens, an origin slot, a claim on an idempotency key. That reservation
// is a [Permit], and it ends exactly once: given back when a later gate
// refuses, as if the request had never asked, or ended with the [Outcome] of
// the request at the origin.
//
// Deciding never reads the wall clock: the caller passes now. The only I/O is
// that of [Keys], which a rehearsal leaves out. The live gateway, the
// explanation of a decision and the rehearsal of a policy therefore run the same
// code.
//
// At its end every request is reported to one [Observer], which feeds metrics,
// the decision log and the live view; nothing in here knows a metrics library.
//
// This package imports the standard library only, and none of Sluice's own.
package admission
