package gateway

import (
	"time"

	"sluice/admin"
	"sluice/idempotency"
	"sluice/shedding"
)

// sections are what the status and the dashboard show of this gateway's parts.
func (g *Gateway) sections() []admin.Section {
	return []admin.Section{
		{Name: "queues", Value: g.queueSection, Series: g.queueSeries},
		{Name: "signals", Value: g.signalSection},
		{Name: "places", Value: g.placeSection},
		{Name: "idempotency", Value: g.keySection},
		{Name: "connections", Value: g.connections},
	}
}

// queueSection tells, class by class, what each queue lets in.
func (g *Gateway) queueSection() any {
	now := g.current.Load()
	states := now.queues.gate.State(time.Now())
	if len(states) == 0 {
		return nil
	}
	shown := map[string]any{}
	for _, s := range states {
		shares, until := map[string]any{}, map[string]any{}
		for i, c := range s.Classes {
			name := now.names.Classes[i]
			shares[name] = c.Share
			if c.RetryAfter > 0 {
				until[name] = c.RetryAfter.Round(time.Second).String()
			}
		}
		shown[s.Queue] = map[string]any{
			"wait_seconds": known(s.Wait), "max_useful_age_seconds": s.MaxUsefulAge.Seconds(),
			"strain_share": finite(s.Strain), "share_admitted": shares, "retry_after": until,
			"mode": s.Mode.String(), "worst_signal": s.Worst, "closed": s.Closed, "transitions": s.Transitions,
		}
	}
	return shown
}

func (g *Gateway) queueSeries() map[string]float64 {
	now := g.current.Load()
	series := map[string]float64{}
	for _, s := range now.queues.gate.State(time.Now()) {
		if w, ok := s.Wait.Get(); ok {
			series["queues/"+s.Queue+"/wait_seconds"] = w
		}
		for _, sig := range s.Signals {
			if age, ok := sig.Last.Age.Get(); ok && sig.Name == s.Worst {
				series["queues/"+s.Queue+"/age_seconds"] = age
			}
		}
		for i, c := range s.Classes {
			series["queues/"+s.Queue+" "+now.names.Classes[i]+"/share_admitted"] = c.Share
		}
	}
	return series
}

// signalSection tells what was last read of each signal, and what is thought of
// it.
func (g *Gateway) signalSection() any {
	shown := map[string]any{}
	at := time.Now()
	for _, q := range g.current.Load().queues.gate.State(at) {
		for _, s := range q.Signals {
			row := map[string]any{
				"health": s.Health.String(), "on_loss": s.OnLoss.String(), "last": s.Flaw.String(),
				"age_seconds": known(s.Last.Age), "depth": known(s.Last.Depth), "done": known(s.Last.Done),
				"wait_seconds": known(s.Wait), "backlog": known(s.Backlog), "rate": s.Rate, "stall_seconds": s.Stall,
				"stuck": s.Stuck, "read_ago_seconds": nil, "error": nil,
			}
			if !s.Believed.IsZero() {
				row["read_ago_seconds"] = at.Sub(s.Believed).Seconds()
			}
			if s.Err != nil {
				row["error"] = s.Err.Error()
			}
			shown[q.Queue+"/"+s.Name] = row
		}
	}
	if len(shown) == 0 {
		return nil
	}
	return shown
}

// known shows a value that a source may not be able to tell.
func known(v shedding.Value) any {
	if f, ok := v.Get(); ok {
		return finite(f)
	}
	return nil
}

// placeSection tells how many places at the origin are taken.
func (g *Gateway) placeSection() any {
	shown := map[string]any{}
	for id, s := range g.places.state() {
		if id == "" {
			id = "all routes"
		}
		shown[id] = s
	}
	if len(shown) == 0 {
		return nil
	}
	return shown
}

// keySection tells what became of requests with idempotency keys.
func (g *Gateway) keySection() any {
	if g.current.Load().keys == nil {
		return nil
	}
	s := g.store.gate.Stats()
	statuses := map[string]uint64{}
	for _, status := range idempotency.Statuses() {
		statuses[status.String()] = s.Requests[status]
	}
	errors := uint64(0)
	for _, op := range s.Store {
		errors += op.Errors
	}
	return map[string]any{
		"store": g.store.kind, "requests": statuses, "refused_store_down": s.Refused, "store_errors": errors,
		"from_memory": s.CacheHits, "running": s.InFlight, "waiting": s.Waiting, "put_in_doubt": s.InDoubt + s.Lapsed,
		"taken_over": s.TakenOver, "not_stored": s.Lost, "retrying": s.Retrying,
	}
}

// connections tells of client connections.
func (g *Gateway) connections() any {
	return map[string]any{"open": g.server.Connections(), "turned_away": g.server.TurnedAway()}
}

// measure emits the metrics of this gateway's parts; see admin's catalogue.
func (g *Gateway) measure(emit func(name string, value float64, labels ...string)) {
	emit("sluice_connections_open", float64(g.server.Connections()))
	emit("sluice_connections_refused_total", float64(g.server.TurnedAway()))
	now := g.current.Load()
	g.measureQueues(now, emit)
	g.measureCandidate(now, emit)
	for _, c := range now.certificates {
		emit("sluice_certificate_expiry_timestamp_seconds", float64(c.expires.Unix()), c.path)
	}
	for id, s := range g.places.state() {
		if id == "" {
			id = "all"
		}
		emit("sluice_origin_places", float64(s.Limit), id)
		emit("sluice_origin_places_taken", float64(s.Used), id)
		for i, c := range s.Classes[:min(len(s.Classes), len(now.names.Classes))] {
			emit("sluice_requests_waiting", float64(c.Waiting), id, now.names.Classes[i])
		}
	}
	if now.keys != nil {
		g.measureKeys(emit)
	}
}

// oneIf is a state as metrics tell it.
func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func (g *Gateway) measureQueues(now *running, emit func(string, float64, ...string)) {
	for _, q := range now.queues.gate.State(time.Now()) {
		if w, ok := q.Wait.Get(); ok {
			emit("sluice_queue_wait_seconds", w, q.Queue)
		}
		emit("sluice_queue_max_useful_age_seconds", q.MaxUsefulAge.Seconds(), q.Queue)
		emit("sluice_shed_transitions_total", float64(q.Transitions), q.Queue)
		for _, s := range q.Signals {
			if age, ok := s.Last.Age.Get(); ok {
				emit("sluice_queue_age_seconds", age, q.Queue, s.Name)
			}
			if depth, ok := s.Last.Depth.Get(); ok {
				emit("sluice_queue_depth", depth, q.Queue, s.Name)
			}
			if !s.Believed.IsZero() {
				emit("sluice_signal_last_success_timestamp_seconds", float64(s.Believed.UnixNano())/1e9, q.Queue, s.Name)
			}
			emit("sluice_signal_lost", oneIf(s.Health == shedding.Lost), q.Queue, s.Name)
			for flaw, n := range s.Flaws {
				if n > 0 {
					emit("sluice_signal_samples_total", float64(n), q.Queue, s.Name, shedding.Flaw(flaw).String())
				}
			}
			emit("sluice_queue_completions_per_second", s.Rate, q.Queue, s.Name)
		}
		for i, c := range q.Classes {
			class := now.names.Classes[i]
			emit("sluice_share_admitted", c.Share, q.Queue, class)
			emit("sluice_promises_made_total", float64(c.Promised), q.Queue, class)
			emit("sluice_promises_kept_total", float64(c.Kept), q.Queue, class)
			emit("sluice_returners_total", float64(c.Returners), q.Queue, class)
		}
	}
}

func (g *Gateway) measureKeys(emit func(string, float64, ...string)) {
	s := g.store.gate.Stats()
	for _, status := range idempotency.Statuses() {
		emit("sluice_idempotency_checks_total", float64(s.Requests[status]), status.String())
	}
	emit("sluice_idempotency_checks_total", float64(s.Refused), "store_unavailable")
	emit("sluice_idempotency_running", float64(s.InFlight))
	emit("sluice_idempotency_waiting", float64(s.Waiting))
	emit("sluice_idempotency_in_doubt_total", float64(s.InDoubt), "outcome")
	emit("sluice_idempotency_in_doubt_total", float64(s.Lapsed), "lapsed")
	emit("sluice_idempotency_taken_over_total", float64(s.TakenOver))
	emit("sluice_idempotency_not_stored_total", float64(s.Lost))
	emit("sluice_idempotency_tombstones_total", float64(s.Tombstones))
	emit("sluice_idempotency_cache_hits_total", float64(s.CacheHits))
	emit("sluice_idempotency_cache_bytes", float64(s.CacheBytes))
	for op := range s.Store {
		name := idempotency.Op(op).String()
		emit("sluice_store_calls_total", float64(s.Store[op].Calls), name)
		emit("sluice_store_errors_total", float64(s.Store[op].Errors), name)
		emit("sluice_store_time_seconds_total", s.Store[op].Time.Seconds(), name)
	}
}
