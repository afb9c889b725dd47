package rehearse

import (
	"fmt"

	"sluice/admission"
	"sluice/admission/ratelimit"
	"sluice/config"
	"sluice/config/strict"
	"sluice/gateway"
)

// Decider is the path in the configuration of what decided about a performance:
// what refused it, or what would have in shadow mode, or the route that let it
// pass. Its line is told by [config.Config.Line].
func (s *Stage) Decider(p *Performance) string {
	r, d := p.Request, &p.Decision
	if r.Route == nil {
		if d.Reason == admission.BadRequest {
			return "routes"
		}
		return "unmatched"
	}
	switch d.Reason {
	case admission.TenantMissing, admission.TenantUnknown, admission.BadRequest:
		path, _ := s.TenantPath(r)
		return path
	case admission.KeyMissing, admission.KeyInvalid:
		return s.RoutePath(r.Route) + ".idempotency.key"
	case admission.StoreUnavailable:
		return s.RoutePath(r.Route) + ".idempotency.on_store_down"
	}
	if d.KeyStatus != "" && d.Verdict != admission.Admit {
		return s.RoutePath(r.Route) + ".idempotency"
	}
	for _, stop := range p.Stops {
		if stop.Refusal.Is() && (d.Reason == admission.None || stop.Refusal.Reason == d.Reason) {
			if path := s.StopPath(stop, r); path != "" {
				return path
			}
		}
	}
	return s.RoutePath(r.Route)
}

// RoutePath is the path of a route.
func (s *Stage) RoutePath(r *admission.Route) string { return strict.Index("routes", r.Index) }

// TenantPath is the path of the place that told a request's tenant, or that
// refused what it found; of tenants.missing where none did. said is false where
// the tenant was given without being looked for.
func (s *Stage) TenantPath(r *admission.Request) (path string, said bool) {
	for i, source := range s.Sources {
		q := *r
		f := source.Identify(&q)
		if f.Reason == admission.TenantMissing {
			continue
		}
		// A source by itself does not know which names need a key.
		if f.Is() || q.Tenant == r.Tenant || r.Tenant == "" {
			return strict.Index("tenants.from", i), true
		}
		return "tenants", false
	}
	if s.identity.as != "" && r.Tenant == s.identity.as {
		return "tenants", false
	}
	return "tenants.missing", true
}

// StopPath is the path of what a gate went by for a request; "" where nothing
// bounds it there.
func (s *Stage) StopPath(stop gateway.Stop, r *admission.Request) string {
	route := &s.Config.Routes[r.Route.Index]
	switch stop.Gate {
	case gateway.BucketGate:
		look := s.Buckets.Look(s.Clock(), r)
		switch {
		case look.Source == ratelimit.Unlimited:
			return ""
		case route.Limit != nil:
			return s.RoutePath(r.Route) + ".limit"
		case look.Source == ratelimit.Override:
			return strict.Key("tenants.overrides", r.Tenant)
		}
		return "tenants.limit"
	case gateway.QueueGate:
		if route.Queue == "" {
			return ""
		}
		return s.bandPath(r, stop.Refusal.Reason)
	default:
		if route.MaxInFlight > 0 {
			return s.RoutePath(r.Route) + ".max_in_flight"
		}
		return "origin.max_in_flight"
	}
}

// bandPath is the path of the band of a request's class at its queue, of the
// queue's limit where it has none, or of a signal that closes the queue while it
// is lost.
func (s *Stage) bandPath(r *admission.Request, reason admission.Reason) string {
	at := strict.Key("queues", r.Route.Queue)
	queue := s.Config.Queues[config.ID(r.Route.Queue)]
	if reason == admission.SignalLost {
		for i, signal := range queue.Signals {
			if signal.OnLoss == config.LossClosed {
				return strict.Index(at+".signals", i)
			}
		}
	}
	class := s.Classes[r.Class]
	if _, ok := queue.Shed[config.ID(class)]; ok {
		return strict.Key(at+".shed", class)
	}
	return at + ".max_useful_age"
}

// Where is a path of the configuration with its file and line.
func (s *Stage) Where(path string) string {
	return fmt.Sprintf("%s:%d", s.Config.Source.File, s.Config.Line(path))
}

// ClassName is the name of a class; "none" where there is none.
func (s *Stage) ClassName(c admission.Class) string {
	if c < 0 || int(c) >= len(s.Classes) {
		return "none"
	}
	return s.Classes[c]
}

// RouteName is the id of a route; "unmatched" where there is none.
func RouteName(r *admission.Route) string {
	if r == nil {
		return "unmatched"
	}
	return r.ID
}
