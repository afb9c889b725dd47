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
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"sluice/bench/result"
)

// exitUsage is for mistakes in the command line or in a scenario.
const exitUsage = 2

// verdictError carries a verdict out of a command as an exit code.
type verdictError struct{ verdict result.Verdict }

func (e verdictError) Error() string { return "verdict: " + string(e.verdict) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := execute(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// execute runs one command and returns the exit code.
func execute(ctx context.Context, args []string) int {
	root := &cobra.Command{
		Use:   "bench",
		Short: "Load-test a gateway and rehearse failure",
		Long: `Load-test a gateway and rehearse failure.

Exit codes: 0 all is well; 1 a threshold was missed or the counts differ;
2 the command line or the scenario is wrong, or the target does not start;
3 the run is invalid, since the generator could not keep up; 4 inconclusive,
since there were too few samples.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(runCommand(), compareCommand(), peersCommand(), originCommand(), bareCommand())
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var v verdictError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &v):
		return v.verdict.ExitCode()
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	return exitUsage
}
