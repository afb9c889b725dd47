package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"sluice/bench/console"
	"sluice/bench/report"
	"sluice/bench/result"
	"sluice/bench/run"
	"sluice/bench/scenario"
	"sluice/bench/target"
)

// runFlags are the flags of bench run.
type runFlags struct {
	target, admin, origin, program, out string
	remote, direct, counts              bool
	atOnce                              int
}

func runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run SCENARIO.yaml...",
		Short: "Carry scenarios out and say whether the results are healthy",
		Long: `Carry scenarios out and say whether the results are healthy.

Without --target, the gateway is built from the checkout that you are in and
started with the config that the scenario names. Each scenario leaves a folder
with report.html, summary.md, result.json, intervals.ndjson, latency.hlog and
junit.xml.

One scenario is carried out after the other. With --counts-only, --at-once lets
several go on beside each other, each with a gateway, an origin and a Redis of
its own, the longest first. What is invalid beside the others is then carried out
once more, alone, and said to be.`,
		Example: `  go run ./bench run bench/scenarios/overload.yaml
  go run ./bench run bench/scenarios/*.yaml --counts-only --at-once 4
  go run ./bench run bench/scenarios/steady.yaml --target http://127.0.0.1:8080 --admin http://127.0.0.1:9090`,
		Args: func(_ *cobra.Command, files []string) error {
			if len(files) == 0 {
				return errors.New("run: name at least one scenario, such as bench/scenarios/overload.yaml")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, files []string) error {
			return f.runAll(cmd.Context(), files)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.target, "target", "", "URL of a gateway that runs already, with the simulated origin behind it (see --origin)")
	fl.StringVar(&f.admin, "admin", "", "URL of its admin listener, to compare its counters")
	fl.StringVar(&f.origin, "origin", "127.0.0.1:3000", "with --target: where to serve the simulated origin, which that gateway must have behind it")
	fl.StringVar(&f.program, "sluice", "", "binary of the gateway; built from the checkout if not given")
	fl.StringVar(&f.out, "out", "bench-results", "folder for the results; each scenario has its own in it")
	fl.BoolVar(&f.remote, "allow-remote", false, "allow a target that is not on this machine's loopback interface")
	fl.BoolVar(&f.direct, "direct", false, "send the load straight to the origin: the control, without a gateway")
	fl.BoolVar(&f.counts, "counts-only", false, "judge counts and invariants, not times: for machines that are busy")
	fl.IntVar(&f.atOnce, "at-once", 1, "how many scenarios go on beside each other; more than one needs --counts-only")
	return cmd
}

// check says what is wrong with the flags.
func (f *runFlags) check() error {
	switch {
	case f.admin != "" && f.target == "":
		return errors.New("--admin belongs to --target: it is the same gateway's other listener")
	case f.direct && f.target != "":
		return errors.New("--direct and --target exclude each other: the load goes to the origin or to that gateway")
	case f.atOnce < 1:
		return fmt.Errorf("--at-once: %d are none; write at least 1", f.atOnce)
	case f.atOnce > 1 && f.target != "":
		return errors.New("--at-once and --target exclude each other: one gateway serves one scenario at a time, whose counts are compared with its counters")
	case f.atOnce > 1 && !f.counts:
		return errors.New("--at-once needs --counts-only: scenarios beside each other disturb each other's times")
	}
	return nil
}

// runAll carries the scenarios out; the worst verdict is the whole one's.
func (f *runFlags) runAll(ctx context.Context, files []string) error {
	if err := f.check(); err != nil {
		return err
	}
	var all []*scenario.Scenario
	var problems []error
	for _, file := range files {
		s, err := scenario.Read(file)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		all = append(all, s)
	}
	if f.atOnce > 1 {
		problems = append(problems, besideEachOther(all)...)
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-bin-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if f.program == "" && slices.ContainsFunc(all, f.starts) {
		fmt.Println("· building the gateway")
		if f.program, err = target.Build(ctx, dir); err != nil {
			return err
		}
	}
	if f.atOnce > 1 {
		board := console.NewBoard(os.Stdout, all)
		b := batch{atOnce: f.atOnce, board: board, dir: f.dir, one: func(ctx context.Context, s *scenario.Scenario, beside int) (*result.Result, error) {
			return f.run(ctx, s, run.Options{Beside: beside})
		}}
		worst, err := b.run(ctx, all)
		if err != nil {
			return err
		}
		return because(worst, nil)
	}
	return f.inTurn(ctx, all)
}

// besideEachOther says which scenarios cannot go on at the same time.
func besideEachOther(all []*scenario.Scenario) (problems []error) {
	named := map[scenario.Name]bool{}
	for _, s := range all {
		if named[s.Name] {
			problems = append(problems, fmt.Errorf("--at-once: two scenarios are called %s, and would write into the same folder; rename one", s.Name))
		}
		named[s.Name] = true
		if s.Target.URL != "" {
			problems = append(problems, fmt.Errorf("--at-once: %s has a target of its own, %s, in which others may meet it; run it by itself", s.Name, s.Target.URL))
		}
	}
	return problems
}

// starts reports whether s starts a gateway.
func (f *runFlags) starts(s *scenario.Scenario) bool {
	return s.Target.Config != "" && f.target == "" && !f.direct
}

// inTurn carries out one scenario after the other.
func (f *runFlags) inTurn(ctx context.Context, all []*scenario.Scenario) error {
	worst := result.Pass
	var ceiling float64
	for _, s := range all {
		if ctx.Err() != nil { // what is left out is not passed
			worst = worse(worst, result.Inconclusive)
			break
		}
		view := console.New(os.Stdout)
		view.Note("%s: %v of load; rehearses: %s", s.Name, s.Length(), s.Rehearses)
		r, err := f.run(ctx, s, run.Options{Ceiling: ceiling, Progress: view.Progress, Note: view.Note})
		view.Done()
		if r != nil {
			view.Verdict(r, f.dir(s))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		ceiling = r.Generator.Ceiling
		worst = worse(worst, r.Verdict)
	}
	return because(worst, nil)
}

// worse of two verdicts: what is proved wrong outweighs what is not proved.
func worse(a, b result.Verdict) result.Verdict {
	rank := map[result.Verdict]int{result.Pass: 0, result.Inconclusive: 1, result.Invalid: 2, result.Missed: 3}
	if rank[b] > rank[a] {
		return b
	}
	return a
}

// dir is the folder of a scenario's results.
func (f *runFlags) dir(s *scenario.Scenario) string { return filepath.Join(f.out, string(s.Name)) }

// run carries s out as the flags and o say, and writes what came of it. There may
// be both a result and an error: what cannot be written is known all the same.
func (f *runFlags) run(ctx context.Context, s *scenario.Scenario, o run.Options) (*result.Result, error) {
	dir := f.dir(s)
	if err := report.Folder(dir); err != nil {
		return nil, err
	}
	hlog, err := report.NewLog(dir, s)
	if err != nil {
		return nil, err
	}
	if f.target != "" || s.Target.URL != "" {
		o.OriginAddr = f.origin
	}
	o.Scenario, o.Target, o.Admin, o.Direct, o.Program = s, f.target, f.admin, f.direct, f.program
	o.AllowRemote, o.CountsOnly = f.remote, f.counts
	o.Intervals = hlog.Interval
	r, err := run.Run(ctx, o)
	logErr := hlog.Close()
	if err != nil {
		return nil, errors.Join(err, logErr)
	}
	return r, errors.Join(logErr, report.Write(dir, r))
}
