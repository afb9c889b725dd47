// Package shedding decides how much of each class a queue can still take, and
// tells what it turns away when to come back.
//
// # The model
//
// A queue behind the origin has a limit: the max_useful_age after which work
// is no longer worth doing. A [Sample] says how old its oldest work is, how
// much of it there is, and how much has been completed. Age alone is late by
// its own size: everything admitted so far still has to drain. But the gateway
// knows what it has admitted since the sample was taken, so it projects
//
//	wait = (backlog at the sample + own admissions since + those of others
//	        - completions since) / service rate + time already standing still
//
// which is how long a request admitted now will wait. The service rate is
// measured only while there is a backlog, since an idle queue shows a lower
// bound. A queue that has stood still for a while is expected to stand still
// for as long again.
//
// Each class has one [Band] on that wait. Up to From everything is admitted,
// from Full on only MinAdmit, and in between a share that falls in a straight
// line. A continuous law has no switch to flap and reopens the way it closed.
// Above the limit only a probe passes, whatever was guaranteed, so that the
// limit itself holds. Depth against MaxDepth counts on the same scale, the
// worse of the two decides, and of several signals the worst.
//
// # Whose requests
//
// Within a class the heaviest tenants are refused first. Tenants are filled up
// like vessels: there is one water level such that, if every tenant is
// admitted up to that level, the class's share is admitted in all. Who asks
// for less than the level is not refused at all. A sketch of fixed size
// estimates each tenant's demand, and a histogram of requests by the demand
// of their tenant gives the level, so neither time nor memory grows with the
// number of tenants.
//
// # What a refusal promises
//
// Retry-After is the time the backlog needs to fall to the middle of the
// class's band, but at least as long as the class has already been refused,
// and up to half as much again at random. Whoever comes back in that time stands in
// the band of the class above its own. A promise is known again by tenant and
// idempotency key, or by the signed ticket handed out with the refusal. It is
// good for one admission. Coming back early neither spends nor improves it, so
// that waiting beats hammering.
//
// # Not knowing
//
// NaN, null, a negative, absurd, frozen or jumping value is no sample, never
// zero. A signal that gave no sample for three periods is lost, and then its
// policy says what holds: see [Loss].
//
// The law in this package takes now as an argument and does no I/O. The
// readers of real queues are in package signals.
package shedding
