// Package demo shows Sluice at work in one process: an origin simulator with a
// queue and workers, the gateway in front of it, and a modest load from a few
// tenants, one of which asks for more than its limit.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"sluice/bench/load"
	"sluice/bench/origin"
	"sluice/config"
	"sluice/gateway"
)

// Options of a demo.
type Options struct {
	// Config is the policy to show, with the origin's address ignored.
	Config *config.Config
	// For is how long to run; 0 until the context ends.
	For time.Duration
	// Seed of the load and the simulator.
	Seed    uint64
	Version string
	Out     io.Writer    // the table
	Log     *slog.Logger // problems
}

// What the demo simulates. Orders and campaigns together come faster than the
// workers can do them, so the queue ages.
const (
	workRate    = 220 // a second, all workers together
	workers     = 10
	offeredRate = 300 // requests a second
)

// Run runs the demo and reports whether its totals add up: offered = admitted +
// refused + failed, and admitted = what the origin recorded.
func Run(ctx context.Context, opts Options) error {
	o, err := origin.Start(origin.Options{Seed: opts.Seed, Workers: workers, Work: origin.Rate(workRate, workers)})
	if err != nil {
		return err
	}
	defer o.Close()

	cfg := opts.Config
	cfg.Origin.URLs = []config.OriginURL{config.OriginURL(o.URL())}
	cfg.Shutdown.Drain = 0
	cfg.Listen = freeAddress(cfg.Listen)
	cfg.Admin.Listen = freeAddress(cfg.Admin.Listen)
	g, err := gateway.New(gateway.Options{
		Load: func() (*config.Config, error) { return cfg, nil }, Version: opts.Version, Log: opts.Log,
	})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- g.Run(running) }()

	fmt.Fprintf(opts.Out, "origin   %s  (simulated: %d workers do %d a second)\n", o.URL(), workers, workRate)
	fmt.Fprintf(opts.Out, "gateway  http://%s\n", g.Addr())
	fmt.Fprintf(opts.Out, "admin    http://%s/status  /metrics\n", g.AdminAddr())
	fmt.Fprintf(opts.Out, "load     %d a second, seed %d\n\n", offeredRate, opts.Seed)

	gen, err := load.New(loadOptions("http://"+g.Addr(), opts.Seed))
	if err == nil {
		loading := ctx
		if opts.For > 0 {
			var cancel context.CancelFunc
			loading, cancel = context.WithTimeout(ctx, opts.For)
			defer cancel()
		}
		err = show(loading, opts.Out, gen, o)
	}
	stop()
	if err := errors.Join(err, <-stopped); err != nil {
		return err
	}
	return total(opts.Out, gen, o)
}

// freeAddress keeps an address that is free, and otherwise lets the system pick
// a port.
func freeAddress(addr config.Address) config.Address {
	ln, err := net.Listen("tcp", string(addr))
	if err != nil {
		host, _, _ := net.SplitHostPort(string(addr))
		return config.Address(net.JoinHostPort(host, "0"))
	}
	ln.Close()
	return addr
}

func loadOptions(target string, seed uint64) load.Options {
	return load.Options{
		Target: target,
		Seed:   seed,
		Stages: []load.Stage{{Name: "demo", From: offeredRate, To: offeredRate}},
		Classes: []load.Class{
			{
				Name: "orders", Share: 4, Path: "/v1/orders", Body: 300, OnRefusal: load.Obey,
				Tenants: load.Tenants{Count: 4, Prefix: "shop-", Skew: 1},
			},
			{
				Name: "orders of one heavy tenant", Share: 6, Path: "/v1/orders", Body: 300,
				Tenants: load.Tenants{Count: 1, Prefix: "hungry-"},
			},
			{
				Name: "campaigns", Share: 1, Path: "/v1/campaigns/spring/send", Body: 1000, OnRefusal: load.Obey,
				Tenants: load.Tenants{Count: 3, Prefix: "shop-"},
			},
		},
	}
}

// show prints a line a second while the load runs.
func show(ctx context.Context, out io.Writer, gen *load.Generator, o *origin.Origin) error {
	done := make(chan error, 1)
	go func() { done <- gen.Run(ctx) }()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	fmt.Fprintf(out, "%6s %9s %9s %9s  %-32s %10s %8s\n", "time", "offered", "admitted", "refused", "by reason", "queue age", "p99")
	was := gen.Live()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
		}
		now := gen.Live()
		fmt.Fprintf(out, "%5.0fs %7d/s %7d/s %7d/s  %-32s %10s %8s\n",
			now.Elapsed.Seconds(), now.Offered-was.Offered,
			now.Ended(load.Admitted)-was.Ended(load.Admitted),
			now.Ended(load.Refused)-was.Ended(load.Refused),
			reasons(now.Reasons(), was.Reasons()),
			o.Signal().OldestAge.Round(100*time.Millisecond), p99(&now))
		was = now
	}
}

// reasons writes what was added to the counts since before.
func reasons(now, before map[string]int64) string {
	var parts []string
	for reason, n := range now {
		if n -= before[reason]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", reason, n))
		}
	}
	if len(parts) == 0 {
		return "-"
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// p99 is the worst of the classes' 99th percentiles; where there are too few
// requests to say, of their maxima.
func p99(l *load.Live) time.Duration {
	var worst time.Duration
	for i := range l.Classes {
		if c := &l.Classes[i]; c.P99 > 0 {
			worst = max(worst, c.P99)
		} else {
			worst = max(worst, c.Max)
		}
	}
	return worst.Round(100 * time.Microsecond)
}

var errTotals = errors.New("the totals do not add up")

// total prints what became of everything, and checks it against the origin.
func total(out io.Writer, gen *load.Generator, o *origin.Origin) error {
	l := gen.Live()
	admitted, refused := l.Ended(load.Admitted), l.Ended(load.Refused)
	failed := l.Ended(load.Failed) + l.Ended(load.TimedOut) + l.Ended(load.Broken) + l.Ended(load.Unsent)
	recorded := o.Ledger().Totals().Recorded
	fmt.Fprintf(out, "\noffered %d = admitted %d + refused %d (%s)", l.Offered, admitted, refused, reasons(l.Reasons(), nil))
	if failed > 0 {
		fmt.Fprintf(out, " + failed %d", failed)
	}
	fmt.Fprintf(out, "\nadmitted %d, the origin recorded %d\n", admitted, recorded)
	if l.Offered != admitted+refused+failed || admitted != recorded {
		fmt.Fprintln(os.Stderr, errTotals)
		return errTotals
	}
	return nil
}
