package run

import (
	"context"
	"fmt"
	"time"

	"sluice/bench/scenario"
	"sluice/bench/target"
	"sluice/internal/faultproxy"
)

// redis is a Redis server and the proxy through which the gateway reaches it.
type redis struct {
	*target.Redis
	addr  string
	proxy *faultproxy.Proxy
}

// startRedis starts a server and the proxy in front of it.
func startRedis(ctx context.Context, dir string) (*redis, error) {
	server, err := target.StartRedis(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("run: the scenario needs Redis: %w", err)
	}
	r := &redis{Redis: server, addr: server.Addr}
	if r.proxy, err = faultproxy.New(server.Addr); err != nil {
		r.stop()
		return nil, err
	}
	return r, nil
}

func (r *redis) url() string { return "redis://" + r.proxy.Addr() + "/0" }

// disturb does what an event says, and undoes it at its end.
func (r *redis) disturb(e *scenario.RedisEvent, end bool) error {
	if e.Down {
		r.proxy.Cut(!end)
	}
	if e.Stall {
		r.proxy.BlackHole(!end)
	}
	if e.Latency > 0 {
		d := time.Duration(e.Latency)
		if end {
			d = 0
		}
		r.proxy.Latency(d)
	}
	if e.Lose > 0 && !end {
		r.proxy.DropReplies(e.Lose)
	}
	return nil
}

// stop ends the server; a nil redis was never started.
func (r *redis) stop() {
	if r == nil {
		return
	}
	if r.proxy != nil {
		_ = r.proxy.Close()
	}
	r.Redis.Stop()
}
