package gateway

import (
	"errors"
	"sync"
	"time"
)

// drain is what an operator has asked for. SIGTERM drains as well, and cannot
// be taken back.
type drain struct {
	mu       sync.Mutex
	asked    bool
	stopping bool
	closing  *time.Timer // refuses what comes, once balancers have had their time
}

var errStopping = errors.New("the gateway is about to stop, which cannot be undone")

// Drain begins or ends what happens before a stop, without stopping: readiness
// fails, answers close their connections, and after shutdown.drain what comes is
// refused. It may be told the same twice.
func (g *Gateway) Drain(on bool) error {
	d := &g.drained
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case on == d.asked || on && d.stopping:
		return nil
	case d.stopping:
		return errStopping
	}
	d.asked = on
	if !on {
		d.closing.Stop()
		g.server.Open()
		g.draining.Store(false)
		g.log.Info("the drain is over: requests are taken again")
		return nil
	}
	g.draining.Store(true)
	g.server.Drain()
	after := time.Duration(g.current.Load().cfg.Shutdown.Drain)
	d.closing = time.AfterFunc(after, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.asked {
			g.server.Close()
			g.log.Info("drained: what comes is refused", "connections", g.server.Connections())
		}
	})
	g.log.Info("draining, since an operator asks for it", "drain", after.String(), "connections", g.server.Connections())
	return nil
}

// drainToStop begins the drain before the end. An operator's goes on in it.
func (g *Gateway) drainToStop() {
	d := &g.drained
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopping = true
	g.draining.Store(true)
	g.server.Drain()
}

// drainingFor tells why the gateway drains, for people.
func (g *Gateway) drainingFor() error {
	g.drained.mu.Lock()
	defer g.drained.mu.Unlock()
	if g.drained.stopping {
		return errors.New("draining: the gateway is about to stop")
	}
	return errors.New("draining: an operator asked for it; sluice drain --undo takes it back")
}
