// Package wire names the header fields by which the load generator and the
// origin simulator recognise each other's work through whatever stands between
// them. A target passes fields that it does not know on unchanged.
package wire

const (
	// Effect is a request field: the number of the effect that the request asks
	// for. All attempts at one effect carry the same number, so the origin can
	// tell a repeat from a new request even where no key is in use.
	Effect = "Bench-Effect"

	// Class is a request field: the class as the load generator means it.
	Class = "Bench-Class"

	// Origin is an answer field that only the origin simulator sets. Its
	// presence proves that an answer came from the origin and not from what
	// stands in front of it.
	Origin = "Bench-Origin"

	// Signal is an answer field with the state of the origin's queue, as a
	// dictionary of numbers: age and at in seconds, depth and done as
	// counts.
	Signal = "Queue-Signal"
)

// Paths that the origin simulator keeps for itself. It publishes whatever is
// sent to any other path.
const (
	SignalPath = "/_origin/signal"
	LedgerPath = "/_origin/ledger"
	HealthPath = "/_origin/health"
)
