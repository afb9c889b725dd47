// Package admin is what operators see of a running gateway: metrics, the
// decision log, the live view, and the private listener that serves them.
//
// # The model
//
// Every request is reported once, at its end, to an [admission.Observer]. This
// package has three: [Metrics] counts, [DecisionLog] writes refusals and
// failures down, and [Live] keeps the last few decisions for a decision tail. A
// [Fanout] makes them one. All of them run on the request's own goroutine, so
// they neither wait nor allocate: [Metrics] adds to one of several stripes of
// plain counters, each behind its own lock, and the others keep copies of a
// few events a second and let the rest go, which they count.
//
// Events name routes and classes by index, and what an index means changes
// when the policy is reloaded. So every observer is told of a [Policy] before
// the first request runs under it; an event is read under the policy its route
// belongs to, and counters go by name, so they survive the reload.
//
// [Server] is the private listener. It asks the gateway through [Gateway] and
// knows nothing else of it. It listens on loopback by default, refuses hosts
// and origins that a browser has no business sending it, and never serves a
// secret: what it shows is listed field by field, not filtered.
//
// The dashboard is a page of its own files (see the folder dashboard) over one
// stream: the whole state first, then once a second what has changed. A part of
// the gateway appears on it, and in the status, by reporting a [Section].
//
// Nothing outside this package knows Prometheus. What other parts want shown
// they hand over as a [Source] of values whose metrics are described in the
// one catalogue (see [Catalogue]).
package admin
