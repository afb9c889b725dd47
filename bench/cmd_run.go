package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"sluice/bench/console"
	"sluice/bench/load"
	"sluice/bench/report"
	"sluice/bench/result"
	"sluice/bench/run"
	"sluice/bench/scenario"
)

// runFlags are the flags of bench run.
type runFlags struct {
	target, admin, origin, program, out string
	remote, direct, counts              bool
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
junit.xml.`,
		Example: `  go run ./bench run bench/scenarios/overload.yaml
  go run ./bench run bench/scenarios/*.yaml --counts-only
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
	return cmd
}

// runAll carries out one scenario after the other; the worst verdict is the
// whole one's.
func (f *runFlags) runAll(ctx context.Context, files []string) error {
	if f.admin != "" && f.target == "" {
		return errors.New("--admin belongs to --target: it is the same gateway's other listener")
	}
	if f.direct && f.target != "" {
		return errors.New("--direct and --target exclude each other: the load goes to the origin or to that gateway")
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
	if err := errors.Join(problems...); err != nil {
		return err
	}
	worst := result.Pass
	var ceiling float64
	for _, s := range all {
		r, err := f.run(ctx, s, ceiling)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		ceiling = r.Generator.Ceiling
		worst = worse(worst, r.Verdict)
		if ctx.Err() != nil {
			break
		}
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

func (f *runFlags) run(ctx context.Context, s *scenario.Scenario, ceiling float64) (*result.Result, error) {
	dir := filepath.Join(f.out, string(s.Name))
	if err := report.Folder(dir); err != nil {
		return nil, err
	}
	hlog, err := report.NewLog(dir, s)
	if err != nil {
		return nil, err
	}
	originAddr := ""
	if f.target != "" || s.Target.URL != "" {
		originAddr = f.origin
	}
	view := console.New(os.Stdout)
	view.Note("%s: %v of load; rehearses: %s", s.Name, s.Length(), s.Rehearses)
	r, err := run.Run(ctx, run.Options{
		Scenario: s, Target: f.target, Admin: f.admin, OriginAddr: originAddr, Direct: f.direct, Program: f.program,
		AllowRemote: f.remote, CountsOnly: f.counts, Ceiling: ceiling,
		Intervals: func(i *load.Interval) { hlog.Interval(i) },
		Progress:  view.Progress, Note: view.Note,
	})
	view.Done()
	logErr := hlog.Close()
	if err != nil {
		return nil, errors.Join(err, logErr)
	}
	// What cannot be written is said all the same.
	err = errors.Join(logErr, report.Write(dir, r))
	view.Verdict(r, dir)
	return r, err
}
