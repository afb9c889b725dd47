package run

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"time"

	"github.com/valyala/fasthttp"

	"sluice/bench/load"
)

// Calibrate finds the highest rate at which the generator still sends on time,
// against a target that does nothing: the most that any run on this machine
// can ask for. The rate doubles every step, and then grows by a quarter, until
// a step fails.
func Calibrate(ctx context.Context) (float64, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("run: %w", err)
	}
	null := &fasthttp.Server{
		Handler: func(ctx *fasthttp.RequestCtx) { ctx.SetStatusCode(fasthttp.StatusNoContent) },
		Logger:  log.New(io.Discard, "", 0), CloseOnShutdown: true,
	}
	served := make(chan error, 1)
	go func() { served <- null.Serve(l) }()
	defer func() {
		_ = null.Shutdown()
		_ = l.Close()
		<-served
	}()
	try := func(rate float64) (bool, error) {
		var all load.Interval
		g, err := load.New(load.Options{
			Target: "http://" + l.Addr().String(), Seed: 1,
			Stages:     []load.Stage{{From: rate, To: rate, Duration: 400 * time.Millisecond}},
			Classes:    []load.Class{{Name: "null", Body: 256}},
			OnInterval: all.Merge,
		})
		if err != nil {
			return false, err
		}
		if err := g.Run(ctx); err != nil {
			return false, err
		}
		c := all.Sum()
		return load.Quantile(all.Lag, 0.99) <= time.Millisecond && c.Endings[load.Admitted] == c.Offered, ctx.Err()
	}
	best, rate, factor := 0.0, 2500.0, 2.0
	for rate < 1e6 {
		ok, err := try(rate)
		if err != nil {
			return 0, err
		}
		switch {
		case ok:
			best = rate
		case factor == 2:
			factor = 1.25
			rate = best
		default:
			return best, nil
		}
		if best == 0 {
			return 0, nil
		}
		rate *= factor
	}
	return best, nil
}
