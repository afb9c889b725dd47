package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"sluice/admission"
	"sluice/admission/ratelimit"
	"sluice/admission/tenant"
	"sluice/config"
	"sluice/priority"
	"sluice/shedding"
)

// Rehearsal decides as a gateway under the same configuration does, with the
// same gates in the same order, at times that its caller gives. It listens
// nowhere, dials nothing, and reads neither certificates nor signals: what the
// signals say is handed to Queues. Everything that a gateway draws at random is
// drawn from a seed, so that a rehearsal repeats exactly.
//
// Nothing in it waits, so three things are decided at once that a gateway takes
// time for. A request that finds no place at the origin is refused as if its
// class had no max_wait. A repetition of a request that still runs is told so,
// as if its route had no wait. And of tenant_limit the part of Retry-After is
// left out that keeps tenants apart: up to 5 s, drawn for each gateway.
//
// Idempotency keys run on a memory store of the rehearsal's own, whatever the
// configuration says. It goes by the clock of this machine, so that no record
// expires.
//
// A Rehearsal is for one goroutine. Make it with [Rehearse] and end it with
// Close.
type Rehearsal struct {
	Controller *admission.Controller
	Classifier *priority.Classifier
	// Sources are the places in tenants.from, each by itself: it refuses with
	// [admission.TenantMissing] what does not say a tenant there.
	Sources []admission.Identifier
	Buckets *ratelimit.Gate
	Queues  *shedding.Gate
	Routes  []*admission.Route // by Route.Index
	Classes []string           // by admission.Class

	stops  []Stop
	places []*priority.Slots // by Route.Index
	store  *store
}

// Stop is what one gate said to a request.
type Stop struct {
	Gate    GateKind
	Refusal admission.Refusal // zero: it let the request pass
}

// GateKind tells the gates of a policy apart.
type GateKind uint8

const (
	BucketGate GateKind = iota // the tenant's tokens
	QueueGate                  // the queue behind the origin
	PlaceGate                  // the places at the origin
)

var gateNames = [...]string{"limit", "queue", "places"}

func (k GateKind) String() string { return gateNames[k] }

// Rehearse prepares a rehearsal of cfg that begins at now, with full buckets and
// signals not yet heard.
func Rehearse(cfg *config.Config, now time.Time, seed uint64) (*Rehearsal, error) {
	// What has nothing to do with deciding is left out.
	bare := *cfg
	bare.TLS, bare.Origin.TLS = nil, nil
	bare.Store.Redis, bare.Store.Memory = nil, &config.MemoryStore{MaxBytes: 64 << 20, Sync: config.SyncNever}

	p, err := prepare(&bare, nil)
	if err != nil {
		return nil, err
	}
	p.policy.Origin.Close()
	p.queues.close()
	if p.queues, err = seededQueues(&bare, p.names.Classes, now, seed); err != nil {
		return nil, err
	}
	p.queues.close() // its gate goes on without its readers

	r := &Rehearsal{Queues: p.queues.gate, Routes: p.names.Routes, Classes: p.names.Classes}
	p.buckets.Routes[probeRoute.ID] = &ratelimit.Limit{Name: probeRoute.ID, Quota: ratelimit.Quota{Rate: 1, Burst: 1}}
	if r.Buckets, err = newBuckets(p, now); err != nil {
		return nil, err
	}
	if r.store, err = newStore(&bare); err != nil {
		return nil, err
	}
	if p.keys != nil {
		for _, route := range p.keys.routes {
			if route != nil {
				route.policy.Wait = 0
			}
		}
	}
	identity := identityOf(&bare)
	for _, source := range identity.From {
		one, err := tenant.New(tenant.Options{From: []tenant.Source{source}, Reject: true})
		if err != nil {
			return nil, err
		}
		r.Sources = append(r.Sources, one)
	}
	// The wiring is that of a gateway.
	p.attach(&Gateway{buckets: r.Buckets, store: r.store, log: slog.New(slog.DiscardHandler)})
	r.Controller = p.policy.Controller
	r.Classifier = r.Controller.Classifier.(*priority.Classifier)
	for i, gate := range r.Controller.Gates {
		if r.Controller.Gates[i], err = r.stopAt(gate); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// seededQueues prepares the queues of cfg with draws that repeat: they take over
// the seed of a gate that has no queues.
func seededQueues(cfg *config.Config, classes []string, now time.Time, seed uint64) (*queues, error) {
	seeded, err := shedding.New(shedding.Options{Classes: len(classes), Seed: max(seed, 1)}, now, nil)
	if err != nil {
		return nil, err
	}
	return queuesOf(cfg, &queues{gate: seeded}, classes, now)
}

// stopAt makes a gate of a gateway one that does not wait, and that tells what
// it said.
func (r *Rehearsal) stopAt(gate admission.Gate) (admission.Gate, error) {
	switch g := gate.(type) {
	case *ratelimit.Gate:
		return &stop{gate: &withoutSpread{Gate: g, of: map[string]float64{}}, kind: BucketGate, r: r}, nil
	case *shedding.Gate:
		return &stop{gate: g, kind: QueueGate, r: r}, nil
	case *placeGate:
		r.places = g.byRoute
		return &stop{gate: withoutWait{g}, kind: PlaceGate, r: r}, nil
	}
	return nil, fmt.Errorf("a rehearsal does not know the gate %T", gate)
}

// Admit makes the decision for a classified request; see
// [admission.Controller.Admit].
func (r *Rehearsal) Admit(now time.Time, q *admission.Request, d *admission.Decision) {
	r.stops = r.stops[:0]
	r.Controller.Admit(now, q, d)
}

// Stops are the gates that the last request given to Admit came to, in order.
// They are good until the next one.
func (r *Rehearsal) Stops() []Stop { return r.stops }

// Places returns the state of the places that requests of a route meet; false
// where nothing bounds them.
func (r *Rehearsal) Places(route *admission.Route) (priority.SlotState, bool) {
	if r.places == nil || r.places[route.Index] == nil {
		return priority.SlotState{}, false
	}
	return r.places[route.Index].State(), true
}

// Close ends the rehearsal.
func (r *Rehearsal) Close() error { return r.store.close(context.Background()) }

// stop notes what its gate says.
type stop struct {
	gate admission.Gate
	kind GateKind
	r    *Rehearsal
}

func (s *stop) Reserve(now time.Time, r *admission.Request, d *admission.Decision) (admission.Permit, admission.Refusal) {
	p, f := s.gate.Reserve(now, r, d)
	s.r.stops = append(s.r.stops, Stop{s.kind, f})
	return p, f
}

func (s *stop) Anticipate(r *admission.Request) { s.gate.Anticipate(r) }

func (s *stop) GiveBack(now time.Time, p admission.Permit) { s.gate.GiveBack(now, p) }

func (s *stop) End(now time.Time, p admission.Permit, o admission.Outcome) { s.gate.End(now, p, o) }

// withoutWait is the places at the origin for requests that cannot wait: their
// clients have given up long ago, as far as the places know.
type withoutWait struct{ *placeGate }

func (g withoutWait) Reserve(now time.Time, r *admission.Request, d *admission.Decision) (admission.Permit, admission.Refusal) {
	deadline := r.Deadline
	r.Deadline = time.Unix(0, 0)
	p, f := g.placeGate.Reserve(now, r, d)
	r.Deadline = deadline
	if f.Is() {
		f.RetryAfter = placeAgain(g.byRoute[r.Route.Index].State())
	}
	return p, f
}

// placeAgain is when a refused request is told to try again: the middle of what
// a gateway draws from, two to four times the time in which the next place
// becomes free.
func placeAgain(s priority.SlotState) time.Duration {
	return min(max(3*s.Service/time.Duration(s.Limit), time.Second), time.Minute)
}

// probeRoute has the limit at which a tenant's spread shows.
var probeRoute = &admission.Route{ID: "(spread)", Cost: 1}

// withoutSpread takes out of Retry-After what package ratelimit adds to keep
// tenants apart: min(max(wait/4, 1 s), 5 s) times a share that is drawn for
// each tenant and gate. The share shows where nothing else is added: at a bucket
// of one token a second, asked twice.
type withoutSpread struct {
	*ratelimit.Gate
	of map[string]float64
}

func (g *withoutSpread) Reserve(now time.Time, r *admission.Request, d *admission.Decision) (admission.Permit, admission.Refusal) {
	p, f := g.Gate.Reserve(now, r, d)
	if f.Is() && f.RetryAfter > 0 {
		most := min(max(g.Look(now, r).Wait/4, time.Second), 5*time.Second)
		f.RetryAfter -= time.Duration(g.share(now, r.Tenant) * float64(most))
	}
	return p, f
}

func (g *withoutSpread) share(now time.Time, of string) float64 {
	share, known := g.of[of]
	if !known {
		probe := admission.Request{Tenant: of, Route: probeRoute}
		var d admission.Decision
		g.Gate.Reserve(now, &probe, &d)
		_, f := g.Gate.Reserve(now, &probe, &d)
		share = min(max((f.RetryAfter-g.Look(now, &probe).Wait).Seconds(), 0), 1)
		g.of[of] = share
	}
	return share
}
