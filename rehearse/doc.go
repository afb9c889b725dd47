// Package rehearse puts a policy on a stage: requests and signals at given
// times, decided by the code of the running gateway.
//
// # The model
//
// A [Stage] is one [gateway.Rehearsal] with a clock that its user moves. Before
// the play begins, a [Given] says what the signals of the queues will read over
// time and how the origin takes requests. Then requests are sent, each at its
// time. What becomes of one is a [Performance]: what was found out about the
// request, what each gate said, the decision, and what goes on the wire.
//
// Time passes only between requests. In between, in the order of their times,
// signals are read, as often as the policy says, and requests end at the origin.
//
// Four kinds of work stand on it, each in its folder: policytest runs unit
// tests of policies, explain tells one decision step by step, replay makes the
// decisions of a recording again, which package recording reads, and command has
// the program's commands for these and for their neighbours.
//
// # What is not rehearsed
//
// What the transport does before and after the decision: malformed requests,
// limits of size and time, connections, bodies, the origin's own failures.
// See [gateway.Rehearsal] for what a rehearsal decides at once instead of
// waiting, and for where idempotency keys are kept.
package rehearse
