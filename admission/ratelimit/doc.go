// Package ratelimit gives every tenant a token bucket.
//
// # The model
//
// A [Limit] holds one bucket for each tenant. A bucket starts full with Burst
// tokens and gains Rate tokens a second, never more than Burst. A request takes
// the tokens it costs, or takes none and is refused until enough are back. A
// route may have a limit of its own: its requests then use the tenant's bucket
// at that route in place of the tenant's general one, so every request meets
// exactly one bucket.
//
// [Gate] implements admission.Gate. What a later gate refuses is given back to
// the token, so a refused request costs nothing. A limit in shadow mode does
// all of this, except that its refusals are reported and not enforced. A shadow
// refusal takes nothing either, so the bucket moves as it would if the limit
// were enforced, and shadow counts are what enforcing would have refused.
//
// # What a request costs
//
// Route.Cost, which the header field named by Route.CostBy may raise up to
// Route.CostCap. The field holds a decimal number. A value that is not one, or
// a repeated field, costs the cap: the origin might read something into a value
// that this package does not understand, and writing one must not be the way to
// buy a large request for the price of a small one. A cost above the burst
// could never be paid, so it counts as the burst; config refuses such policies
// beforehand.
//
// # Bounded memory
//
// Each limit keeps at most Options.MaxTenants buckets beside those of its
// overrides, which always have their own. A bucket that is full again says no
// more than a new one, so dropping it loses nothing; dropping any other would
// lift its tenant's limit. When there is no room and no full bucket within
// reach, tenants without a bucket share one overflow bucket, with the default
// quota, until there is. So a flood of made-up tenant names neither grows
// memory nor lifts anybody's limit.
//
// # Retry-After
//
// A refusal says when to come back:
//
//	wait   = (cost - tokens) / rate
//	place  = what min(rate, burst a second) needs for those refused before and
//	         not yet due; at most 30 s, then starting over
//	spread = u * min(max(wait/4, 1 s), 5 s), 0 <= u < 1 from a hash of the tenant
//	RetryAfter = wait + place + spread
//
// It is never early: a tenant that waits that long and spends nothing meanwhile
// gets in. The place hands the refill out in the order of asking, so that a
// hundred requests refused in one instant do not all return in the same second
// to find one token; as Retry-After is in whole seconds they return in bunches,
// which is why the burst counts here. It starts over after 30 s, so a tenant that hammers and
// never listens does not push its own polite requests into the far future. The
// spread keeps tenants apart that were refused together.
//
// # Reload
//
// Levels survive [Gate.Reconfigure]. A bucket is brought to its new quota when
// it is next used: it refills at the old rate up to the moment of the reload,
// and where the burst changed its level keeps its share of the burst. A permit
// remembers the burst that it was taken from, so what is given back after a
// reload has the worth of what was taken.
package ratelimit
