// Package demo shows Sluice at work in one process: an origin simulator with a
// queue and workers, the gateway in front of it, and a load that is a little
// more than the workers can do, from tenants of which one asks for more than
// its limit.
package demo

import (
	"context"
	_ "embed"
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
	"sluice/rehearse/replay"
)

// Policy is the configuration of the demo, as its user sees and edits it.
//
//go:embed demo.yaml
var Policy []byte

// Options of a demo.
type Options struct {
	// Path of a configuration to show instead of Policy; watched for changes.
	Path string
	// For is how long to run; 0 until the context ends.
	For time.Duration
	// OutageAt is when the workers stop, and OutageFor for how long; 0: never.
	OutageAt, OutageFor time.Duration
	// Toggle stops the workers, or lets them go on, each time it gives
	// something. Nil never does.
	Toggle <-chan struct{}
	// Record is the file that all decisions are recorded in, if the configuration
	// names none; "": one of a name of its own.
	Record string
	// Seed of the load and the simulator.
	Seed    uint64
	Version string
	Out     io.Writer    // the table
	Log     *slog.Logger // problems
}

// What the demo simulates.
const (
	workRate    = 220 // a second, all workers together
	workers     = 10
	offeredRate = 300 // requests a second
)

// load returns the configuration to show, with the origin's address in it.
func (o *Options) load(originURL string) (*config.Config, error) {
	loader := config.Loader{LookupEnv: func(name string) (string, bool) {
		if name == "SLUICE_DEMO_ORIGIN" {
			return originURL, true
		}
		return os.LookupEnv(name)
	}}
	if o.Path != "" {
		return loader.Load(o.Path)
	}
	return loader.Parse("demo.yaml (built in)", Policy)
}

// Run runs the demo and reports whether its totals add up: offered = admitted +
// refused + failed, and admitted = what the origin recorded.
func Run(ctx context.Context, opts Options) error {
	o, err := origin.Start(origin.Options{Seed: opts.Seed, Workers: workers, Work: origin.Rate(workRate, workers)})
	if err != nil {
		return err
	}
	defer o.Close()

	first, err := opts.load(o.URL())
	if err != nil {
		return err
	}
	recording, isFile := first.DecisionLog.Output.File()
	if !isFile {
		if recording, err = recordingFile(opts.Record); err != nil {
			return err
		}
	}
	listen, admin := freeAddress(first.Listen), freeAddress(first.Admin.Listen)
	g, err := gateway.New(gateway.Options{
		Load: func() (*config.Config, error) {
			cfg, err := opts.load(o.URL())
			if err != nil {
				return nil, err
			}
			if cfg, err = cfg.WithListen(listen, admin); err != nil {
				return nil, err
			}
			return recorded(cfg, recording), nil
		},
		Path: opts.Path, Explain: replay.Remembered, Version: opts.Version, Log: opts.Log,
	})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- g.Run(running) }()

	fmt.Fprintf(opts.Out, "origin     %s  (simulated: %d workers do %d a second)\n", o.URL(), workers, workRate)
	fmt.Fprintf(opts.Out, "gateway    http://%s\n", g.Addr())
	fmt.Fprintf(opts.Out, "dashboard  http://%s/\n", g.AdminAddr())
	fmt.Fprintf(opts.Out, "recording  %s\n", recording)
	fmt.Fprintf(opts.Out, "load       %d a second, seed %d\n", offeredRate, opts.Seed)
	if opts.Toggle != nil {
		fmt.Fprintf(opts.Out, "press Enter to stop the workers, and again to let them go on\n")
	}
	fmt.Fprintln(opts.Out)

	gen, err := load.New(loadOptions("http://"+g.Addr(), opts.Seed))
	if err == nil {
		loading := ctx
		if opts.For > 0 {
			var cancel context.CancelFunc
			loading, cancel = context.WithTimeout(ctx, opts.For)
			defer cancel()
		}
		err = show(loading, &opts, gen, o)
	}
	stop()
	if err := errors.Join(err, <-stopped); err != nil {
		return err
	}
	return total(opts.Out, gen, o)
}

// freeAddress keeps an address that is free, and otherwise lets the system pick
// a port.
func freeAddress(addr config.Address) string {
	ln, err := net.Listen("tcp", string(addr))
	if err != nil {
		host, _, _ := net.SplitHostPort(string(addr))
		return net.JoinHostPort(host, "0")
	}
	ln.Close()
	return string(addr)
}

// The load's classes are called as in the policy, so that what the table shows
// of one can be found there.
func loadOptions(target string, seed uint64) load.Options {
	return load.Options{
		Target: target,
		Seed:   seed,
		Stages: []load.Stage{{Name: "demo", From: offeredRate, To: offeredRate}},
		Classes: []load.Class{
			{
				Name: "critical", Share: 2, Path: "/v1/orders", Body: 300, OnRefusal: load.Obey,
				Tenants: load.Tenants{Count: 4, Prefix: "shop-", Skew: 1},
			},
			{
				Name: "standard", Share: 6, Path: "/v1/invoices", Body: 300, OnRefusal: load.Obey, MaxAttempts: 2,
				Tenants: load.Tenants{Count: 4, Prefix: "shop-", Skew: 1, Heavy: "hungry", HeavyShare: 0.7},
			},
			{
				Name: "bulk", Share: 2, Path: "/v1/campaigns/spring/send", Body: 1000, OnRefusal: load.Obey,
				Tenants: load.Tenants{Count: 3, Prefix: "shop-"},
			},
		},
	}
}

// show prints a line a second while the load runs, and stops the workers when it
// is time to.
func show(ctx context.Context, opts *Options, gen *load.Generator, o *origin.Origin) error {
	done := make(chan error, 1)
	go func() { done <- gen.Run(ctx) }()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var outage, recovery <-chan time.Time
	if opts.OutageFor > 0 {
		outage = time.After(opts.OutageAt)
		recovery = time.After(opts.OutageAt + opts.OutageFor)
	}
	fmt.Fprintf(opts.Out, "%6s %9s %9s %9s  %-26s %9s %8s  %s\n", "time", "offered", "admitted", "refused", "admitted of each class", "queue age", "p99", "refused for")
	was := gen.Live()
	pause := func(stop bool) {
		if stop == o.Signal().Paused {
			return
		}
		if stop {
			o.Pause()
			fmt.Fprintln(opts.Out, "       --- the workers stop ---")
		} else {
			o.Resume()
			fmt.Fprintln(opts.Out, "       --- the workers go on ---")
		}
	}
	for {
		select {
		case err := <-done:
			return err
		case <-outage:
			pause(true)
			continue
		case <-recovery:
			pause(false)
			continue
		case <-opts.Toggle:
			pause(!o.Signal().Paused)
			continue
		case <-tick.C:
		}
		now := gen.Live()
		fmt.Fprintf(opts.Out, "%5.0fs %7d/s %7d/s %7d/s  %-26s %9s %8s  %s\n",
			now.Elapsed.Seconds(), now.Offered-was.Offered,
			now.Ended(load.Admitted)-was.Ended(load.Admitted),
			now.Ended(load.Refused)-was.Ended(load.Refused),
			shares(&now, &was), o.Signal().OldestAge.Round(100*time.Millisecond), p99(&now),
			reasons(now.Reasons(), was.Reasons()))
		was = now
	}
}

// shares writes which part of each class's requests was admitted since before.
func shares(now, before *load.Live) string {
	parts := make([]string, len(now.Classes))
	for i := range now.Classes {
		c, was := &now.Classes[i], &load.LiveClass{}
		if i < len(before.Classes) {
			was = &before.Classes[i]
		}
		admitted := c.Endings[load.Admitted] - was.Endings[load.Admitted]
		ended := admitted + c.Endings[load.Refused] - was.Endings[load.Refused]
		parts[i] = "   –"
		if ended > 0 {
			parts[i] = fmt.Sprintf("%3d%%", 100*admitted/ended)
		}
		parts[i] = c.Name[:4] + parts[i]
	}
	return strings.Join(parts, " ")
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
		return errTotals
	}
	return nil
}
