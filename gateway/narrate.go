package gateway

import (
	"context"
	"time"

	"sluice/idempotency"
	"sluice/shedding"
)

// narrator tells in the log what changes around the gateway, one line for each
// change: an origin that fails and recovers, a store, a signal, a class that
// begins to be refused. Metrics say how much; the log says when it began.
type narrator struct {
	g       *Gateway
	origin  map[string]bool // address: failing
	signals map[string]bool // queue/signal: lost
	classes map[string]bool // queue/class: being refused
	away    bool            // the store
	calls   uint64          // of the store, and how many of them failed
	errors  uint64
}

// narrate looks once a second, until ctx ends.
func (g *Gateway) narrate(ctx context.Context) {
	n := narrator{g: g, origin: map[string]bool{}, signals: map[string]bool{}, classes: map[string]bool{}}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			n.look(time.Now())
		}
	}
}

func (n *narrator) look(now time.Time) {
	r := n.g.current.Load()
	for _, a := range r.policy.Origin.Status() {
		failing := a.LastError != ""
		if n.turned(n.origin, a.Address, failing) {
			if failing {
				n.g.log.Warn("the origin fails", "address", a.Address, "in_use", a.InUse, "error", a.LastError)
			} else {
				n.g.log.Info("the origin answers again", "address", a.Address)
			}
		}
	}
	for _, q := range r.queues.gate.State(now) {
		for _, s := range q.Signals {
			lost := s.Health == shedding.Lost
			if n.turned(n.signals, q.Queue+"/"+s.Name, lost) {
				if lost {
					n.g.log.Warn("a signal is lost", "queue", q.Queue, "signal", s.Name, "on_loss", s.OnLoss.String(), "last_reading", s.Flaw.String(), "error", s.Err)
				} else {
					n.g.log.Info("a signal is back", "queue", q.Queue, "signal", s.Name)
				}
			}
		}
		for i, c := range q.Classes[:min(len(q.Classes), len(r.names.Classes))] {
			refused := !c.Since.IsZero()
			if n.turned(n.classes, q.Queue+"/"+r.names.Classes[i], refused) {
				if refused {
					n.g.log.Info("a class begins to be refused", "queue", q.Queue, "class", r.names.Classes[i],
						"wait_seconds", known(q.Wait), "share_admitted", c.Share, "mode", c.Mode.String())
				} else {
					n.g.log.Info("a class is let in again without exception", "queue", q.Queue, "class", r.names.Classes[i])
				}
			}
		}
	}
	n.lookAtStore()
}

// lookAtStore takes the store to be away when everything that was asked of it
// since the last look failed, and to be back when something did not.
func (n *narrator) lookAtStore() {
	var calls, errors uint64
	stats := n.g.store.gate.Stats()
	for op := range stats.Store {
		calls += stats.Store[op].Calls
		errors += stats.Store[op].Errors
	}
	asked, failed := calls-n.calls, errors-n.errors
	n.calls, n.errors = calls, errors
	switch {
	case !n.away && failed > 0 && failed == asked:
		n.away = true
		n.g.log.Error("the store of idempotency records cannot be asked; requests with keys fare as their routes say", "store", n.g.store.kind, "failed", failed)
	case n.away && asked > failed:
		n.away = false
		n.g.log.Info("the store of idempotency records is back", "store", n.g.store.kind, "not_stored", stats.Requests[idempotency.StatusNotStored])
	}
}

// turned notes the state of something, and reports whether it has changed. What
// is first seen well is nothing new.
func (n *narrator) turned(known map[string]bool, what string, now bool) bool {
	was := known[what]
	known[what] = now
	return was != now
}
