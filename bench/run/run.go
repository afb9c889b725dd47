// Package run carries a scenario out: it starts the origin and the gateway,
// sends the load, makes happen what is to happen, and hands all that was seen
// to package result.
package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"runtime"
	"sync"
	"time"

	"sluice/bench/load"
	"sluice/bench/origin"
	"sluice/bench/result"
	"sluice/bench/scenario"
	"sluice/bench/target"
)

// Options of a run.
type Options struct {
	Scenario *scenario.Scenario
	// Target overrides the scenario's target with a program that runs already,
	// and Admin is its admin listener; "" does not.
	Target, Admin string
	// OriginAddr is where the simulated origin listens, for a target that runs
	// already to have it behind it; "" is a free port.
	OriginAddr string
	// Direct sends the load straight to the origin, whatever the scenario says.
	Direct bool
	// Program is the gateway's binary, for scenarios that start one.
	Program string
	// AllowRemote permits targets that are not on this machine's loopback
	// interface.
	AllowRemote bool
	// CountsOnly judges counts and invariants, and no times: for machines that
	// are busy with other things.
	CountsOnly bool
	// Beside is how many other runs may go on in this process meanwhile; then
	// CountsOnly is due.
	Beside int
	// Ceiling is the generator's, if it was measured before; 0 measures it unless
	// CountsOnly is set.
	Ceiling float64
	// Intervals, if set, is given each second of load, its histograms included.
	Intervals func(*load.Interval)
	// Progress, if set, is told once a second.
	Progress func(*Progress)
	// Note, if set, is told what happens, in words.
	Note func(format string, args ...any)
	// Wrap, if set, makes the target out of the origin: for the harness's own
	// tests, which put a target of their own in between.
	Wrap func(originURL string) (targetURL string, err error)
}

// Progress of a run.
type Progress struct {
	Stage  *scenario.Stage
	Total  time.Duration
	Live   load.Live
	Signal origin.Signal
	Done   int64 // pieces of work done so far
}

// runner is one run.
type runner struct {
	Options
	s         *scenario.Scenario
	origin    *origin.Origin
	gateway   *target.Gateway
	redis     *redis
	mirror    *mirror
	generator *load.Generator
	collector *result.Collector
	dir       string
	kind      string
	url       string
	admin     string

	// broken is how long the load had run when the context ended.
	broken time.Duration

	mu           sync.Mutex
	faults       origin.Faults
	targetErr    error
	countersLost string
}

// How long work may take to get done after the load, and after one that was
// interrupted.
const (
	settle            = 30 * time.Second
	settleInterrupted = 3 * time.Second
)

// Run carries the scenario out. An error means that there is no result: the
// target did not start, or the context ended before the load began. When the
// context ends during the load, the result is of what was seen until then.
func Run(ctx context.Context, o Options) (_ *result.Result, err error) {
	if o.Note == nil {
		o.Note = func(string, ...any) {}
	}
	r := &runner{Options: o, s: o.Scenario, collector: result.NewCollector(o.Scenario)}
	if r.dir, err = os.MkdirTemp("", "bench-run-"); err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	defer os.RemoveAll(r.dir)
	if err := r.reach(ctx); err != nil {
		return nil, err
	}
	ceiling := o.Ceiling
	if ceiling == 0 && !o.CountsOnly {
		r.Note("measuring the generator's own ceiling")
		if ceiling, err = Calibrate(ctx); err != nil {
			return nil, err
		}
	}
	oo := r.s.OriginOptions()
	oo.Addr = o.OriginAddr
	if r.origin, err = origin.Start(oo); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.origin.Close()) }()
	defer func() { r.redis.stop() }()
	defer func() { r.fail(r.mirror.stop()) }()
	if err := r.startTarget(ctx); err != nil {
		return nil, err
	}
	stopped := false
	stop := func() {
		if r.gateway != nil && !stopped {
			stopped = true
			r.fail(r.gateway.Stop())
		}
	}
	defer stop()

	before, err := r.counters(ctx)
	if err != nil {
		return nil, err
	}
	usage, self, began := r.usage(), target.ProcessUsage(os.Getpid()), time.Now()
	if err := r.load(ctx); err != nil {
		return nil, err
	}
	wall := time.Since(began)
	var interrupted time.Duration
	if ctx.Err() != nil {
		// What was seen until then is still worth telling.
		if r.broken < r.s.Length() {
			interrupted = r.broken
		}
		ctx = context.WithoutCancel(ctx)
	}
	spent, own := r.usage().CPU-usage.CPU, target.ProcessUsage(os.Getpid()).CPU-self.CPU
	patience := settle
	if interrupted > 0 {
		patience = settleInterrupted
	}
	undone := r.settle(patience)
	facts := result.Facts{
		Begin: r.generator.Start(), Ledger: r.origin.Ledger(), Undone: undone, Interrupted: interrupted,
		Generator: result.Generator{
			Ceiling: ceiling, LagLimit: r.lagLimit().Seconds(), Timed: !o.CountsOnly, Beside: o.Beside,
			CPUShare: own.Seconds() / wall.Seconds() / float64(runtime.GOMAXPROCS(0)),
		},
	}
	if before != nil && r.countersLost == "" {
		after, err := r.counters(ctx)
		if err != nil {
			return nil, err
		}
		facts.Counters = after.Minus(before)
	}
	facts.CountersLost = r.countersLost
	memory := r.usage().PeakMemory
	stop()
	r.fail(r.mirror.stop())
	facts.TargetError = r.targetErr
	res := r.collector.Result(facts)
	res.Target = result.Target{Kind: r.kind, URL: r.url, CPUSeconds: spent.Seconds(), PeakMemory: memory}
	if l := r.generator.Live(); l.Offered > 0 {
		res.Target.CPUPerRequest = spent.Seconds() / float64(l.Offered)
	}
	fingerprint(&res.Fingerprint)
	if before != nil {
		res.Fingerprint.Config, res.Fingerprint.Gateway = before.Config, before.Version
	}
	return res, nil
}

// reach reports why a target that is said to run already cannot be used, before
// time is spent on anything else.
func (r *runner) reach(ctx context.Context) error {
	base := cmp.Or(r.Target, r.s.Target.URL)
	if base == "" || r.Direct || r.Wrap != nil {
		return nil
	}
	if err := load.CheckTarget(base, r.AllowRemote); err != nil {
		return err
	}
	u, err := url.Parse(base)
	if err != nil {
		return fmt.Errorf("run: target: %w", err)
	}
	dialer := net.Dialer{Timeout: 5 * time.Second}
	c, err := dialer.DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return fmt.Errorf("run: nothing answers at the target %s: %w", base, err)
	}
	return c.Close()
}

// startTarget starts or finds what the load is sent to.
func (r *runner) startTarget(ctx context.Context) (err error) {
	t := r.s.Target
	switch {
	case r.Wrap != nil:
		r.kind = "running"
		r.url, err = r.Wrap(r.origin.URL())
	case r.Target != "":
		r.kind, r.url, r.admin = "running", r.Target, r.Admin
	case r.Direct || t.Config == "" && t.URL == "":
		r.kind, r.url = "origin", r.origin.URL()
	case t.URL != "":
		r.kind, r.url, r.admin = "running", t.URL, t.Admin
	default:
		r.kind = "gateway"
		if r.Program == "" {
			return errors.New("run: the scenario starts a gateway, whose binary is not given")
		}
		var env []string
		if t.Redis {
			if r.redis, err = startRedis(ctx, r.dir); err != nil {
				return err
			}
			env = append(env, "BENCH_REDIS="+r.redis.url())
			if st := r.s.Origin.RedisStream; st != nil {
				if r.mirror, err = startMirror(ctx, r.redis.addr, st, r.origin); err != nil {
					return err
				}
			}
		}
		r.gateway, err = target.Start(ctx, target.Options{Program: r.Program, Config: r.s.Relative(t.Config), Origin: r.origin.URL(), Env: env})
		if err != nil {
			return err
		}
		r.url, r.admin = r.gateway.URL(), r.gateway.Admin()
	}
	if err == nil && !r.AllowRemote {
		err = load.CheckTarget(r.url, false)
	}
	return err
}

func (r *runner) counters(ctx context.Context) (*target.Counters, error) {
	if r.admin == "" {
		return nil, nil
	}
	return target.ReadCounters(ctx, r.admin)
}

func (r *runner) usage() target.Usage {
	if r.gateway == nil {
		return target.Usage{}
	}
	return r.gateway.Usage()
}

// load sends the load, and meanwhile samples the queue and makes the events
// happen.
func (r *runner) load(ctx context.Context) (err error) {
	o := r.s.LoadOptions()
	o.Target, o.AllowRemote = r.url, r.AllowRemote
	o.OnEnd = r.collector.End
	o.OnInterval = func(i *load.Interval) {
		r.collector.Interval(i)
		if r.Intervals != nil {
			r.Intervals(i)
		}
	}
	if r.generator, err = load.New(o); err != nil {
		return err
	}
	side, cancel := context.WithCancel(ctx)
	var sides sync.WaitGroup
	sides.Go(func() { r.watch(side) })
	sides.Go(func() { r.events(side) })
	if r.s.Watches() && r.admin != "" {
		sides.Go(func() { r.weigh(side) })
	}
	sides.Go(func() {
		<-side.Done()
		if ctx.Err() != nil {
			r.broken = time.Since(r.generator.Start())
			r.Note("interrupted; waiting for what is under way")
		}
	})
	err = r.generator.Run(ctx)
	cancel()
	sides.Wait()
	return err
}

// watch samples the queue and tells of progress.
func (r *runner) watch(ctx context.Context) {
	t := time.NewTicker(50 * time.Millisecond)
	defer t.Stop()
	next := time.Second
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-t.C:
			start := r.generator.Start()
			if start.IsZero() {
				continue
			}
			s := r.origin.Signal()
			r.collector.Queue(now.Sub(start), s)
			if r.Progress != nil && now.Sub(start) >= next {
				next += time.Second
				l := r.generator.Live()
				r.Progress(&Progress{Stage: &r.s.Stages[l.Stage], Total: r.s.Length(), Live: l, Signal: s, Done: s.Completed})
			}
		}
	}
}

// weigh reads once a second what the gateway holds. Where it does not answer,
// such as during a restart, there is no reading.
func (r *runner) weigh(ctx context.Context) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-t.C:
			at, cancel := context.WithTimeout(ctx, 5*time.Second)
			h, err := target.ReadHeld(at, r.admin)
			cancel()
			if start := r.generator.Start(); err == nil && !start.IsZero() {
				r.collector.Held(now.Sub(start), h)
			}
		}
	}
}

// settle waits for accepted work to get done and returns how much is not.
func (r *runner) settle(patience time.Duration) int {
	// Faults that the scenario leaves in force are its own doing; what they hold
	// back is undone.
	deadline := time.Now().Add(patience)
	for {
		s := r.origin.Signal()
		if s.Depth+s.InFlight == 0 || time.Now().After(deadline) {
			return s.Depth + s.InFlight
		}
		if s.Paused {
			return s.Depth + s.InFlight
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// lagLimit is by how much requests may be late: a millisecond, or five percent
// of the shortest time that a threshold is about.
func (r *runner) lagLimit() time.Duration {
	limit, shortest := time.Millisecond, time.Duration(0)
	for _, t := range r.s.Thresholds {
		if t.Metric.Unit() != scenario.UnitDuration || t.AtMost == "" {
			continue
		}
		if v, err := scenario.UnitDuration.Bound(t.AtMost); err == nil {
			d := time.Duration(v * float64(time.Second))
			if shortest == 0 || d < shortest {
				shortest = d
			}
		}
	}
	return max(limit, shortest/20)
}

// fail notes the first thing that went wrong with the target.
func (r *runner) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.targetErr == nil {
		r.targetErr = err
	}
}
