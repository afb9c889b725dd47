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
// a step fails. 0 is not even 20 a second.
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
	// What a busy moment spoils is tried again: it is what the generator can do
	// that is asked.
	holds := func(rate float64) (bool, error) {
		for range calibrateTries {
			if ok, err := try(rate); ok || err != nil {
				return ok, err
			}
		}
		return false, nil
	}
	best, rate, factor := 0.0, 2500.0, 2.0
	for rate >= 20 && rate < 1e6 {
		ok, err := holds(rate)
		switch {
		case err != nil:
			return 0, err
		case ok:
			best = rate
			rate *= factor
		case best == 0: // slower than it began; from there on in small steps
			factor = 1.25
			rate /= 2
		case factor == 2:
			factor = 1.25
			rate = best * factor
		default:
			return best, nil
		}
	}
	return best, nil
}

// calibrateTries is how often a rate may fail before it is too high.
const calibrateTries = 3
