package command

import (
	"errors"

	"github.com/spf13/cobra"

	"sluice/rehearse/recording"
	"sluice/rehearse/replay"
)

// Replay is "sluice replay".
func Replay(load Loader) *cobra.Command {
	var file string
	var seed uint64
	var out format
	c := &cobra.Command{
		Use:   "replay DECISIONS.ndjson...",
		Short: "Make recorded decisions again under an edited policy, and show what changes",
		Long: `Make recorded decisions again and show what changes: how many, of which classes,
tenants and routes, why, and what share of each class gets in over time.

The files are what a gateway writes with decision_log.output; with
decision_log.complete: true they hold every decision. - is standard input, what ends
in .gz is unpacked. With the configuration that was recorded, the replay is a check
of itself.

Nothing is listened on or connected to, and no time is spent waiting: the decisions
are made by the code of the running gateway, at the times at which they were made.
What cannot be made again is taken as recorded, and counted by name.

Exit code 0: all decisions are the same; 1: some change, or the configuration is
wrong; 2: a file cannot be read or is no recording, or the command line makes no
sense.`,
		Example: `  sluice replay decisions.jsonl --config candidate.yaml
  zcat decisions.*.gz | sluice replay - -c candidate.yaml --format json`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(errors.New("replay: name at least one file, such as: sluice replay decisions.jsonl --config candidate.yaml"))
			}
			cfg, err := load(file)
			if err != nil {
				return found(err)
			}
			rec, err := recording.ReadFiles(c.InOrStdin(), args...)
			if err != nil {
				return usage(err)
			}
			if len(rec.Decisions) == 0 {
				return usage(errors.New("replay: there is no decision in what was read; does the gateway write a decision_log?"))
			}
			report, err := replay.Run(cfg, rec, seed)
			if err != nil {
				return usage(err)
			}
			if out.json() {
				err = report.WriteJSON(c.OutOrStdout())
			} else {
				err = report.WriteText(c.OutOrStdout())
			}
			if err != nil {
				return found(err)
			}
			if report.Changed > 0 {
				return Exit{ExitFindings, nil}
			}
			return nil
		},
	}
	c.Flags().StringVarP(&file, "config", "c", "", "the configuration `file` to replay under (default: the built-in config.yaml)")
	c.Flags().Uint64Var(&seed, "seed", 1, "`seed` of what was not drawn when it was recorded")
	out.add(c)
	_ = c.MarkFlagFilename("config", "yaml", "yml")
	return c
}
