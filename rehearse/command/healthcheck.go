package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// Healthcheck is "sluice healthcheck".
func Healthcheck() *cobra.Command {
	var a adminFlags
	c := &cobra.Command{
		Use:   "healthcheck",
		Short: "Ask a running gateway whether it is ready: for containers",
		Long: `Ask the admin listener of a gateway on this machine whether it takes requests.
Exit code 0: it does; 1: it does not, or does not answer.`,
		Example: "  sluice healthcheck --admin 127.0.0.1:9090",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), 3*time.Second)
			defer cancel()
			var ready struct{ Status string }
			_, err := a.get(ctx, "/readyz", &ready)
			var refused Exit
			switch {
			case err == nil:
				_, err = fmt.Fprintln(c.OutOrStdout(), "ready")
				return wrote(err)
			case errors.As(err, &refused) && refused.Code == ExitUsage:
				return err
			}
			// Whatever runs containers knows 0 and 1 only.
			return Exit{ExitFindings, err}
		},
	}
	a.add(c)
	return c
}
