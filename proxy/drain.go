package proxy

import (
	"time"

	"sluice/admission"
)

// Drain begins the end: from now on every answer closes its connection.
// Connections without a request are left open, and new ones are accepted, so
// that what is on its way is still served.
func (s *Server) Drain() { s.draining.Store(true) }

// Close refuses what comes from now on, for the reason draining. Requests that
// have begun go on. Drain must have been called.
func (s *Server) Close() { s.closed.Store(true) }

// Closed reports whether what comes is refused.
func (s *Server) Closed() bool { return s.closed.Load() }

// Open takes Drain and Close back.
func (s *Server) Open() {
	s.closed.Store(false)
	s.draining.Store(false)
}

// elsewhereAfter is when a client that a draining gateway refuses may come
// back: at once would meet the same gateway, as long as a balancer has not
// noticed.
const elsewhereAfter = 5 * time.Second

// refuseDraining refuses a request because the gateway takes none any more.
func (x *exchange) refuseDraining() {
	x.decision.Refuse(admission.Refusal{Reason: admission.Draining, RetryAfter: elsewhereAfter})
	x.answerProblem()
}
