package proxy

import (
	"net/netip"
	"time"

	"sluice/admission"
)

// Policy is what the proxy does with requests. It is immutable; a reload swaps
// in another, and a request finishes under the one it began with.
type Policy struct {
	Controller *admission.Controller
	Origin     *Origin

	Routes    []RoutePolicy // by admission.Route.Index
	Unmatched RoutePolicy   // for requests that no route matches
	Classes   []string      // names, most important first

	TrustedProxies []netip.Prefix
	XForwarded     bool   // set X-Forwarded-For, -Proto and -Host
	Forwarded      bool   // set Forwarded (RFC 7239)
	DeadlineHeader string // in which clients say how long they wait; "" none
	Signals        []SignalField
	RateLimit      bool // tell clients the state of their limit
}

// SignalField is a field of the origin's answers that tells of a queue. It is
// handed over, and does not reach clients unless Pass is set. Offer must be quick,
// and safe for concurrent use; the value is only valid during the call.
type SignalField struct {
	Name  string
	Offer func(value string)
	// Pass leaves the field in the answer: only a candidate policy listens to it.
	Pass bool
}

// RoutePolicy is what the proxy does with the requests of one route.
type RoutePolicy struct {
	Stream      bool          // pass bodies on as they come, both ways; otherwise both are buffered
	Upgrade     bool          // pass on requests to switch protocols
	MaxBody     int64         // bytes; longer request bodies are refused with 413. 0: no limit
	MaxAnswer   int64         // bytes; longer buffered answers are failures. 0: no limit
	Timeout     time.Duration // from sending the request to the end of the answer; of a stream, to its head
	BodyTimeout time.Duration // for a buffered body in all; for a streamed one, between two reads
}

// route returns what holds for a request.
func (p *Policy) route(r *admission.Route) *RoutePolicy {
	if r == nil {
		return &p.Unmatched
	}
	return &p.Routes[r.Index]
}

// Limits bound what a client connection may cost. They hold for connections,
// before any request is known.
type Limits struct {
	Target        int // bytes of a request target
	Headers       int // bytes of a header block
	HeaderTimeout time.Duration
	IdleTimeout   time.Duration
	WriteTimeout  time.Duration
	Connections   int // in all; 0: no limit
	PerClient     int // from one address; 0: no limit
}
