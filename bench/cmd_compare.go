package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"sluice/bench/compare"
	"sluice/bench/report"
	"sluice/bench/result"
	"sluice/bench/run"
	"sluice/bench/scenario"
	"sluice/bench/target"
	"sluice/config/value"
)

// side is one of the two that are compared.
type side struct {
	program string
	direct  bool
}

func compareCommand() *cobra.Command {
	var a, b side
	var pairs int
	var tolerance, out string
	var force bool
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "Say whether B is worse than A, from runs taken in turn",
		Long: `Say whether B is worse than A, from runs taken in turn.

A and B are scenarios, and may be the same one with different binaries of the
gateway or, with --a-direct, once without any: then the difference is what the
gateway costs. Each pair is measured one right after the other, in an order that
alternates.

A and B may also be what earlier runs have left, as folders or as result.json.
Those make one pair, and so show a difference and never prove one.

Exit codes: 0 B is no worse; 1 it is, or its counts differ; 2 the runs cannot be
compared; 3 a run was invalid; 4 more pairs are needed to tell.`,
		Example: `  go run ./bench compare bench/scenarios/steady.yaml bench/scenarios/steady.yaml --a-direct
  go run ./bench compare bench/scenarios/steady.yaml bench/scenarios/steady.yaml --a-sluice ./old --b-sluice ./new`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("compare: name two scenarios, or the results of two runs, not %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var tol value.Percent
			if err := tol.UnmarshalText([]byte(tolerance)); err != nil {
				return fmt.Errorf("--tolerance: %w", err)
			}
			if pairs < 1 {
				return fmt.Errorf("--pairs: %d are none; write at least 1, and 5 to prove something", pairs)
			}
			as, bs, err := sides(cmd.Context(), args[0], args[1], a, b, pairs, force)
			if err != nil {
				return err
			}
			rep, err := compare.Compare(args[0], args[1], as, bs, tol.Fraction(), force)
			if compare.Invalid(err) {
				return because(result.Invalid, err)
			}
			if err != nil {
				return err
			}
			if err := writeCompare(filepath.Join(out, "compare"), rep); err != nil {
				return err
			}
			return because(rep.Verdict(), nil)
		},
	}
	fl := cmd.Flags()
	fl.IntVar(&pairs, "pairs", 5, "pairs of runs; fewer than five prove nothing")
	fl.StringVar(&a.program, "a-sluice", "", "binary of the gateway for A; built from the checkout if not given")
	fl.StringVar(&b.program, "b-sluice", "", "binary of the gateway for B; built from the checkout if not given")
	fl.BoolVar(&a.direct, "a-direct", false, "send A's load straight to the origin: the control")
	fl.BoolVar(&b.direct, "b-direct", false, "send B's load straight to the origin")
	fl.StringVar(&tolerance, "tolerance", "5%", "by how much B may be worse")
	fl.BoolVar(&force, "force", false, "compare runs of different machines or scenarios, and invalid ones, all the same")
	fl.StringVar(&out, "out", "bench-results", "folder for the results")
	return cmd
}

// sides returns the results of both sides, pair by pair.
func sides(ctx context.Context, fileA, fileB string, a, b side, pairs int, force bool) (as, bs []*result.Result, err error) {
	switch kept := isResult(fileA); {
	case kept != isResult(fileB):
		return nil, nil, fmt.Errorf("%s and %s: one is a scenario and one the result of an earlier run; name two of a kind", fileA, fileB)
	case kept:
		ra, errA := report.Read(fileA)
		rb, errB := report.Read(fileB)
		if err := errors.Join(errA, errB); err != nil {
			return nil, nil, err
		}
		if !force && ra.Fingerprint.Scenario != rb.Fingerprint.Scenario {
			return nil, nil, fmt.Errorf("the runs are of different scenarios (%s %s, %s %s), so that their figures cannot be compared; --force does it all the same",
				ra.Name, ra.Fingerprint.Scenario, rb.Name, rb.Fingerprint.Scenario)
		}
		return []*result.Result{ra}, []*result.Result{rb}, nil
	}
	sa, errA := scenario.Read(fileA)
	sb, errB := scenario.Read(fileB)
	if err := errors.Join(errA, errB); err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("", "bench-bin-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	for _, s := range []struct {
		*side
		of *scenario.Scenario
	}{{&a, sa}, {&b, sb}} {
		if s.program != "" || s.direct || s.of.Target.Config == "" {
			continue
		}
		if s.program, err = target.Build(ctx, dir); err != nil {
			return nil, nil, err
		}
	}
	ceiling, err := run.Calibrate(ctx)
	if err != nil {
		return nil, nil, err
	}
	fmt.Printf("· on this machine the generator manages %.0f requests a second\n", ceiling)
	one := func(name string, s *scenario.Scenario, of side, into *[]*result.Result) error {
		r, err := run.Run(ctx, run.Options{Scenario: s, Program: of.program, Direct: of.direct, Ceiling: max(ceiling, 1)})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if ctx.Err() != nil {
			return errInterrupted
		}
		fmt.Printf("  %s: %s\n", name, r.Verdict)
		*into = append(*into, r)
		return nil
	}
	for i := range pairs {
		fmt.Printf("· pair %d of %d\n", i+1, pairs)
		first := func() error { return one("A", sa, a, &as) }
		second := func() error { return one("B", sb, b, &bs) }
		if i%2 == 1 {
			first, second = second, first
		}
		if err := first(); err != nil {
			return nil, nil, err
		}
		if err := second(); err != nil {
			return nil, nil, err
		}
	}
	return as, bs, nil
}

// isResult reports whether path is what an earlier run has left: its folder, or
// the result.json in it.
func isResult(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir() || filepath.Ext(path) == ".json"
}

func writeCompare(dir string, r *compare.Report) error {
	if err := report.Folder(dir); err != nil {
		return err
	}
	js, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	md := r.Markdown()
	fmt.Printf("\n%s", md)
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "compare.json"), append(js, '\n'), 0o644),
		os.WriteFile(filepath.Join(dir, "compare.md"), []byte(md), 0o644),
	)
}
