package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"sluice/bench/dist"
	"sluice/bench/origin"
	"sluice/bench/wire"
)

// originCommand serves the simulated origin by itself.
func originCommand() *cobra.Command {
	var listen string
	var workers, concurrency int
	var rate float64
	var answer time.Duration
	var seed uint64
	cmd := &cobra.Command{
		Use:   "origin",
		Short: "Serve the simulated API, to put a gateway in front of",
		Long: `Serve the simulated API: what is sent to it with POST, PUT, PATCH or DELETE is
recorded and queued, and workers do it at the rate given. The state of its queue
is at ` + wire.SignalPath + ` and in the answer field ` + wire.Signal + `,
the ledger's totals are at ` + wire.LedgerPath + `. It runs until interrupted.`,
		Example: "  go run ./bench origin --listen 127.0.0.1:3000 --rate 400",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if rate <= 0 || workers < 1 {
				return fmt.Errorf("--rate must be above 0 and --workers at least 1, not %v and %d", rate, workers)
			}
			o, err := origin.Start(origin.Options{
				Addr: listen, Seed: seed, Answer: dist.Const(answer), Concurrency: concurrency,
				Workers: workers, Work: origin.Rate(rate, workers),
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "origin at %s, %v pieces of work a second by %d workers\n", o.URL(), rate, workers)
			<-cmd.Context().Done()
			if err := o.Close(); err != nil {
				return err
			}
			t := o.Ledger().Totals()
			fmt.Fprintf(cmd.OutOrStdout(), "recorded %d, executed %d, recorded again %d\n", t.Recorded, t.Executed, t.Duplicates)
			return nil
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&listen, "listen", "127.0.0.1:3000", "address to listen on")
	fl.IntVar(&workers, "workers", 4, "workers that serve the queue")
	fl.Float64Var(&rate, "rate", 100, "pieces of work a second that they do together")
	fl.IntVar(&concurrency, "concurrency", 0, "requests that the API handles at once; 0 is no limit")
	fl.DurationVar(&answer, "answer", 2*time.Millisecond, "time that the API takes to answer")
	fl.Uint64Var(&seed, "seed", 1, "seed of everything random")
	return cmd
}
