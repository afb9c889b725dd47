// Package priority finds out which route a request takes and how much it
// matters.
//
// # Routes
//
// A route matches a list of methods (none: any) and a [Pattern] of the raw
// path, segment by segment: literal segments, "*" for exactly one non-empty
// segment, and "**", only at the end, for whatever follows: "/files/**" matches
// "/files", "/files/" and everything below. The first route that matches, in
// the order of the policy, wins. Nothing is decoded or cleaned for matching:
// what is routed on is what the origin sees.
//
// # Ambiguous paths
//
// The origin may read a path in another way than raw: decode it, resolve dot
// segments, merge slashes, take backslashes for slashes, drop ";parameters". A
// client could use that to reach one route's handler under another route's
// policy, or under none. So a request is refused when some reading of its path
// chooses another route than the raw path does, and only then:
// "/files/a%20b" is fine wherever both readings are the same route's. See
// [Router.Ambiguous] for what counts as a reading. A path without a byte that
// could be read in two ways is not looked at twice.
//
// Letter case and a trailing slash are taken as they are: an origin that
// ignores them needs routes that say so.
//
// # Classes
//
// The class of a request that has a route comes from the first priority [Rule]
// whose condition holds; else from the class header, if there is one and the
// request has it, but not above the tenant's ceiling; else from the route. A
// request without a route has no class.
package priority
