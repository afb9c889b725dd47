package gateway

import (
	"errors"
	"strings"
	"time"

	"sluice/admin"
)

var _ admin.Gateway = (*Gateway)(nil)

// Ready returns why the gateway takes no requests; nil: it does.
func (g *Gateway) Ready() error {
	if g.draining.Load() {
		return g.drainingFor()
	}
	if !g.current.Load().queues.gate.Ready(time.Now()) {
		return errors.New("starting: the signals of the queues have not all been read yet")
	}
	return nil
}

// Status describes the gateway as it is now.
func (g *Gateway) Status() admin.GatewayStatus {
	now := g.current.Load()
	s := admin.GatewayStatus{
		Version: g.opts.Version, Started: g.started, Mode: "enforce", Draining: g.draining.Load(), Refusing: g.server.Closed(),
		Config: admin.ConfigStatus{
			Path: g.opts.Path, Hash: now.cfg.Source.Hash, Loaded: now.loaded,
			ReloadError: now.failure, RestartPending: now.pending,
		},
		Listeners: []admin.Listener{{Name: "clients", Address: g.Addr()}, {Name: "admin", Address: g.AdminAddr()}},
		Origin:    admin.OriginStatus{URL: strings.Join(originURLs(now.cfg), ", ")},
		Candidate: candidateStatus(now),
	}
	for _, a := range now.policy.Origin.Status() {
		s.Origin.Addresses = append(s.Origin.Addresses, admin.OriginAddress{
			Address: a.Address, Healthy: a.InUse, InFlight: a.Connections - a.Idle, LastError: a.LastError,
		})
	}
	return s
}
