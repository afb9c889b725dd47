package gateway

import (
	"errors"
	"strings"
	"time"

	"sluice/admin"
	"sluice/config"
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
		Version: g.opts.Version, Started: g.started, Mode: modeOfAll(now.cfg), Draining: g.draining.Load(), Refusing: g.server.Closed(),
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

// modeOfAll tells whether what the policy refuses is refused: everywhere, in
// parts, or nowhere. Without routes there is nothing to try out.
func modeOfAll(cfg *config.Config) string {
	routes, other := 0, false
	for i := range cfg.Routes {
		if r := &cfg.Routes[i]; r.Mode == config.Shadow {
			routes++
		} else {
			other = other || r.Limit != nil && r.Limit.Mode == config.Shadow
		}
	}
	other = other || cfg.Tenants.Limit != nil && cfg.Tenants.Limit.Mode == config.Shadow
	for _, q := range cfg.Queues {
		other = other || q.Mode == config.Shadow
		for _, band := range q.Shed {
			other = other || band.Mode == config.Shadow
		}
	}
	switch {
	case routes > 0 && routes == len(cfg.Routes) && cfg.Unmatched == config.Forward:
		return "shadow"
	case routes > 0 || other:
		return "partly shadow"
	}
	return "enforce"
}
