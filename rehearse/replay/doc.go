// Package replay makes recorded decisions again: under the policy that made
// them, to see that it would, or under another one, to see what changes.
//
// # The model
//
// A [Player] puts a recording on the stage of package rehearse. Readings are told
// and requests are sent at the times at which they came, by the clock of the
// recording; a request that gets in holds its place at the origin for as long as
// it did, or, where it had been refused, for as long as its route took on
// average. Each request brings the lot that was drawn for it at its queue, so
// that who gets in changes where the policy changes it, and nowhere by chance.
//
// [Run] compares each decision with the recorded one, by verdict and reason, and
// makes a [Report] of it.
//
// # What is taken as recorded
//
// Some decisions depend on what a recording does not hold, and some requests were
// not decided about by a policy. They are not made again, and counted by name:
// see the constants of type Taken. What is left of credentials is that one was
// shown, so the tenant that an API key stood for is taken as recorded as well.
//
// # What differs
//
// A replay begins with full buckets, and with queues of which nothing has been
// learned. A recording that begins with the gateway's start meets the same.
// Clients behave as they did: one that is refused here and was not does not come
// back, and the readings of signals are what they were, whatever is let in. So a
// replay tells what an edited policy does to the recorded load at each moment,
// not where the queue ends up under it.
package replay
