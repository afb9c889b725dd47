package gateway

import (
	"context"
	"time"

	"sluice/proxy"
)

// checkHealth runs the active health check of whichever origin is in force.
func (g *Gateway) checkHealth(ctx context.Context) {
	for ctx.Err() == nil {
		now := g.current.Load()
		if h := now.cfg.Origin.Health; h != nil {
			check := proxy.HealthCheck{Path: string(h.Path), Every: time.Duration(h.Every), Timeout: time.Duration(h.Timeout)}
			run, cancel := context.WithCancel(ctx)
			go func() {
				defer cancel()
				g.untilOriginChanges(run, now.policy.Origin)
			}()
			check.Run(run, now.policy.Origin, g.log)
			cancel()
			continue
		}
		g.untilOriginChanges(ctx, now.policy.Origin)
	}
}

// untilOriginChanges waits until another origin is in force.
func (g *Gateway) untilOriginChanges(ctx context.Context, o *proxy.Origin) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for g.current.Load().policy.Origin == o {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
