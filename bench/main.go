// Command bench load-tests a gateway and rehearses failure: it sends an open
// loop of requests, keeps the ledger of what was really done, and says whether
// the result is sound.
//
//	go run ./bench run bench/scenarios/overload.yaml
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"sluice/bench/result"
)

// exitUsage is for mistakes in the command line or in a scenario.
const exitUsage = 2

// exitError is an error with the exit code that it calls for; its error is nil
// where all has been said already.
type exitError struct {
	error
	code int
}

// because makes a verdict other than a pass an error; err says why, where the
// command has not.
func because(v result.Verdict, err error) error {
	if v == result.Pass {
		return nil
	}
	return exitError{err, v.ExitCode()}
}

// errInterrupted ends a command that was told to stop before it had a result.
var errInterrupted = because(result.Inconclusive, errors.New("interrupted"))

func main() { os.Exit(execute(context.Background(), os.Args[1:], os.Stderr)) }

// execute carries out one command line and returns the exit code.
func execute(ctx context.Context, args []string, stderr io.Writer) int {
	root := rootCommand()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	code := exitUsage
	var exit exitError
	if errors.As(err, &exit) {
		if code, err = exit.code, exit.error; err == nil {
			return code
		}
	}
	fmt.Fprintln(stderr, "bench:", err)
	return code
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "bench",
		Short: "Load-test a gateway and rehearse failure",
		Long: `Load-test a gateway and rehearse failure.

Exit codes: 0 all is well; 1 a threshold was missed or the counts differ;
2 the command line or the scenario is wrong, or the target does not start;
3 the run is invalid, since the generator could not keep up; 4 inconclusive,
since there were too few samples or the run was interrupted.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w\nsee: %s --help", err, c.CommandPath())
	})
	root.AddCommand(runCommand(), compareCommand(), peersCommand(), originCommand(), bareCommand())
	for _, c := range root.Commands() {
		work := c.RunE
		c.RunE = func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			// A second signal ends the process at once, and all that it has started.
			context.AfterFunc(ctx, stop)
			cmd.SetContext(ctx)
			err := work(cmd, args)
			var exit exitError
			if err != nil && ctx.Err() != nil && !errors.As(err, &exit) {
				return errInterrupted
			}
			return err
		}
	}
	return root
}
