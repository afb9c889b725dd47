// Package peers measures the same forwarding and limiting work through several
// programs, one after the other on one core each, many times over: what a
// request costs in CPU, how many a core can do, and how long they take.
//
// Times of two machines, or of one machine on two days, cannot be compared, so
// every figure is held against that of the least that can do the work, of the
// same round: a bare proxy where requests are forwarded, nginx's return where
// the answer is known without the origin.
package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sluice/bench/stats"
	"sluice/bench/target"
)

// Options of a comparison.
type Options struct {
	// Rounds in which every program is measured once; 0 is 5.
	Rounds int
	// Span of one measurement; 0 is 3s.
	Span time.Duration
	// Rate of requests at which CPU and response times are measured; 0 is 2000.
	Rate float64
	// Connections that are kept busy to find the highest throughput; 0 is 64.
	Connections int
	// Programs to measure; nil is all that are installed. It is an error if one
	// that is named here is not.
	Only []string
	// Work to measure; nil is all.
	Works []Work
	// CPU that the measured program is bound to, as taskset writes it; "" does not
	// bind.
	CPU string
	// Sluice is the gateway's binary.
	Sluice string
	// Self is this program's own binary, which serves the bare proxy.
	Self string
	// GoFiber is the source of the gofiber program; "" leaves it out.
	GoFiber string
	// Note is told what happens.
	Note func(format string, args ...any)

	redis string // address of the Redis server of work Keyed
	bin   string // where servers are besides PATH; "" is where Debian puts them
}

// Work that is measured.
type Work string

// The kinds of work.
const (
	// Forward is a request that is within its limit: all that can be cheap is
	// cheap.
	Forward Work = "forward"
	// Refuse is a request over its tenant's limit.
	Refuse Work = "refuse"
	// Replay is a request whose key has been answered before; records are in
	// memory.
	Replay Work = "replay"
	// Keyed is a request with a new key; records are in Redis, which all
	// programs share.
	Keyed Work = "keyed"
)

// Works lists the kinds.
func Works() []Work { return []Work{Forward, Refuse, Replay, Keyed} }

// Figure is what was measured of one program at one kind of work.
type Figure struct {
	Program string `json:"program"`
	Version string `json:"version"`
	Work    Work   `json:"work"`

	CPU        stats.Estimate `json:"cpu_us"`     // µs of CPU a request, at the given rate
	CPURatio   stats.Estimate `json:"cpu_ratio"`  // against the base's, round by round
	Busy       stats.Estimate `json:"busy_us"`    // µs of CPU a request, at full throughput
	BusyRatio  stats.Estimate `json:"busy_ratio"` // against the base's, round by round
	Throughput stats.Estimate `json:"throughput"` // requests a second on one core
	P50        stats.Estimate `json:"p50_us"`
	P99        stats.Estimate `json:"p99_us"`
	Memory     int64          `json:"memory"` // most bytes resident at once

	samples []sample
}

// Result of a comparison.
type Result struct {
	Format  int       `json:"format"`
	Started time.Time `json:"started"`
	Machine string    `json:"machine"`
	Go      string    `json:"go"`
	Rounds  int       `json:"rounds"`
	Span    string    `json:"span"`
	Rate    float64   `json:"rate"`
	CPU     string    `json:"cpu"`
	Figures []*Figure `json:"figures"`
	// Missing are programs that could not take part, and why.
	Missing []string `json:"missing"`
	// Lag is the p99 of how late requests were sent at the given rate: far above
	// a millisecond, the machine was busy with something else.
	Lag float64 `json:"lag_us"`
	// Ceiling is how many requests a second the generator gets answered by a
	// program that does nothing else, bound as the others are: throughputs near it
	// are the generator's own.
	Ceiling float64 `json:"ceiling"`
}

// bases are what everything is compared with: the least that can do the work.
var bases = map[Work]string{Forward: "fasthttp", Refuse: "nginx-return", Replay: "nginx-return", Keyed: "sluice"}

// sample of one program in one round.
type sample struct{ cpu, busy, throughput, p50, p99, lag float64 }

// Run compares.
func Run(ctx context.Context, o Options) (_ *Result, err error) {
	if o.Rounds == 0 {
		o.Rounds = 5
	}
	if o.Span == 0 {
		o.Span = 3 * time.Second
	}
	if o.Rate == 0 {
		o.Rate = 2000
	}
	if o.Connections == 0 {
		o.Connections = 64
	}
	if o.Works == nil {
		o.Works = Works()
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "bench-peers-")
	if err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	defer os.RemoveAll(dir)
	origin, err := startOrigin()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, origin.stop()) }()

	if slices.Contains(o.Works, Keyed) {
		redis, err := target.StartRedis(ctx, dir)
		if err != nil {
			return nil, fmt.Errorf("peers: work %s: %w", Keyed, err)
		}
		defer redis.Stop()
		o.redis = redis.Addr
	}

	r := &Result{Format: 1, Started: time.Now(), Rounds: o.Rounds, Span: o.Span.String(), Rate: o.Rate, CPU: o.CPU, Missing: []string{}}
	if r.Ceiling, err = o.ceiling(ctx); err != nil {
		return nil, err
	}
	var lags []float64
	for _, work := range o.Works {
		figures, err := o.start(ctx, r, dir, work, origin)
		if err != nil {
			return nil, err
		}
		for round := range o.Rounds {
			o.Note("%s, round %d of %d", work, round+1, o.Rounds)
			// Each round begins with another program, so that none is always the
			// one after a pause.
			for i := range figures {
				f := figures[(i+round)%len(figures)]
				s, err := o.measure(ctx, &f, origin, work)
				if err != nil {
					stopAll(figures)
					return nil, fmt.Errorf("peers: %s, %s: %w", f.Program, work, err)
				}
				f.samples = append(f.samples, s)
				lags = append(lags, s.lag)
			}
		}
		for _, f := range figures {
			f.Memory = f.proc.usage().PeakMemory
		}
		if err := stopAll(figures); err != nil {
			return nil, err
		}
		summarise(figures)
		for _, f := range figures {
			r.Figures = append(r.Figures, f.Figure)
		}
	}
	r.Lag = stats.Median(lags)
	return r, nil
}

// running is a figure in the making.
type running struct {
	*Figure
	proc  *process
	spare int64
}

// check reports words that stand for nothing.
func (o *Options) check() error {
	names := make([]string, len(programs))
	for i, p := range programs {
		names[i] = p.name
	}
	for _, n := range o.Only {
		if !slices.Contains(names, n) {
			return fmt.Errorf("peers: there is no program %q; there are %s", n, strings.Join(names, ", "))
		}
	}
	for _, w := range o.Works {
		if !slices.Contains(Works(), w) {
			return fmt.Errorf("peers: there is no work %q; there is %v", w, Works())
		}
	}
	if o.Rounds < 0 || o.Span < 0 || o.Rate < 0 || o.Connections < 0 {
		return errors.New("peers: rounds, span, rate and connections must not be negative")
	}
	return nil
}

// start starts every program that takes part in a kind of work.
func (o *Options) start(ctx context.Context, r *Result, dir string, work Work, origin *nullOrigin) (all []running, err error) {
	for _, p := range programs {
		if len(o.Only) > 0 && p.name != bases[work] && !slices.Contains(o.Only, p.name) || !slices.Contains(p.works, work) {
			continue
		}
		home := filepath.Join(dir, string(work)+"-"+p.name)
		if err := os.MkdirAll(home, 0o755); err != nil {
			return nil, errors.Join(err, stopAll(all))
		}
		proc, version, err := p.start(ctx, o, home, work, origin.url)
		var missing missingError
		if errors.As(err, &missing) {
			if slices.Contains(o.Only, p.name) {
				return nil, errors.Join(fmt.Errorf("peers: %s cannot take part: %w", p.name, err), stopAll(all))
			}
			if m := p.name + ": " + missing.why; !slices.Contains(r.Missing, m) {
				r.Missing = append(r.Missing, m)
			}
			continue
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("peers: %s: %w", p.name, err), stopAll(all))
		}
		all = append(all, running{&Figure{Program: p.name, Version: version, Work: work}, proc, p.spare})
	}
	return all, nil
}

func stopAll(all []running) error {
	var errs []error
	for _, f := range all {
		errs = append(errs, f.proc.stop())
	}
	return errors.Join(errs...)
}

// summarise turns samples into estimates.
func summarise(all []running) {
	column := func(f *Figure, get func(sample) float64) []float64 {
		xs := make([]float64, len(f.samples))
		for i, s := range f.samples {
			xs[i] = get(s)
		}
		return xs
	}
	cpu := func(s sample) float64 { return s.cpu }
	busy := func(s sample) float64 { return s.busy }
	var bare *Figure
	for _, f := range all {
		if f.Program == bases[f.Work] {
			bare = f.Figure
		}
	}
	for _, f := range all {
		est := func(get func(sample) float64) stats.Estimate { return stats.Bootstrap(column(f.Figure, get), 1) }
		f.CPU, f.Busy = est(cpu), est(busy)
		f.Throughput = est(func(s sample) float64 { return s.throughput })
		f.P50, f.P99 = est(func(s sample) float64 { return s.p50 }), est(func(s sample) float64 { return s.p99 })
		if bare != nil {
			f.CPURatio = stats.Bootstrap(stats.Ratios(column(bare, cpu), column(f.Figure, cpu)), 1)
			f.BusyRatio = stats.Bootstrap(stats.Ratios(column(bare, busy), column(f.Figure, busy)), 1)
		}
	}
}

// missingError says why a program cannot take part.
type missingError struct{ why string }

func (m missingError) Error() string { return m.why }

// process is one running program.
type process struct {
	cmd  *exec.Cmd
	url  string
	done <-chan error
	said *strings.Builder
}

func (p *process) usage() target.Usage { return target.TreeUsage(p.cmd.Process.Pid) }

func (p *process) stop() error {
	_ = p.cmd.Process.Signal(os.Interrupt)
	select {
	case <-p.done:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	return nil
}
