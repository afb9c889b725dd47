package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"sluice/admin/export"
	"sluice/config/value"
)

var made = map[string]func(export.Options) ([]byte, error){"grafana": export.Dashboard, "alerts": export.Alerts}

func exportCommand() *cobra.Command {
	var o export.Options
	var acceptance, completion value.Percent
	c := &cobra.Command{
		Use:   "export grafana|alerts",
		Short: "Write a Grafana dashboard or Prometheus alert rules for gateways",
		Long: `Write what gateways are watched with: a Grafana dashboard, or rules for Prometheus.
What deploy/grafana and deploy/prometheus hold is what this command writes when it is
not told otherwise. Nothing in it depends on a policy: which class matters most, and
how long work in a queue may wait, the gateways' own metrics say.

docs/runbooks has a page for each alert. Say with --runbooks where yours are to be read.`,
		Example: `  sluice export grafana > sluice.json
  sluice export alerts --acceptance 99.95% --runbooks https://wiki.example.com/sluice > alerts.yaml`,
		ValidArgs: []string{"grafana", "alerts"},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || made[args[0]] == nil {
				return errors.New("export: say what: sluice export grafana, or sluice export alerts")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			o.Acceptance, o.Completion = acceptance.Fraction(), completion.Fraction()
			text, err := made[args[0]](o)
			if err != nil {
				return fmt.Errorf("--%w", err)
			}
			_, err = c.OutOrStdout().Write(text)
			return failed(err)
		},
	}
	c.Flags().TextVar(&acceptance, "acceptance", value.Percent(100*export.DefaultAcceptance), "the `share` of the most important class's requests that is to be accepted")
	c.Flags().TextVar(&completion, "completion", value.Percent(100*export.DefaultCompletion), "the `share` of the time that queues are to be within max_useful_age")
	c.Flags().StringVar(&o.Runbooks, "runbooks", export.DefaultRunbooks, "`where` the runbooks are, as a URL or path")

	return c
}
