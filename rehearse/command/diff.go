package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"sluice/config"
)

// Diff is "sluice diff".
func Diff() *cobra.Command {
	var a adminFlags
	var live bool
	var out format
	c := &cobra.Command{
		Use:   "diff BEFORE AFTER",
		Short: "Compare two configurations by what they mean",
		Long: `Compare two configurations by what they mean: order of keys, spelling and comments do
not count, defaults do. Secrets are compared and never shown.

With --live, one file is compared with what a gateway runs. It tells the hash of its
file's text, so only whether that is the same can be said.

Exit code 0: they are the same; 1: they differ; 2: one cannot be read; 4: the gateway
cannot be asked.`,
		Example: `  sluice diff config.yaml candidate.yaml
  sluice diff config.yaml --live --admin 127.0.0.1:9090`,
		ValidArgsFunction: yamlFiles,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case live && len(args) != 1:
				return usage(errors.New("diff --live: name one file, such as: sluice diff config.yaml --live"))
			case !live && len(args) != 2:
				return usage(errors.New("diff: name two files, such as: sluice diff config.yaml candidate.yaml"))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			cfgs := make([]*config.Config, len(args))
			for i, file := range args {
				var err error
				if cfgs[i], err = config.Load(file); err != nil {
					return usage(err)
				}
			}
			if live {
				return diffLive(c, &a, cfgs[0], out)
			}
			changes := config.Diff(cfgs[0], cfgs[1])
			return writeDiff(c, changes, out)
		},
	}
	c.Flags().BoolVar(&live, "live", false, "compare one file with what a gateway runs")
	a.add(c)
	out.add(c)
	return c
}

func writeDiff(c *cobra.Command, changes []config.Change, out format) error {
	w := c.OutOrStdout()
	if out.json() {
		if changes == nil {
			changes = []config.Change{}
		}
		if err := writeJSON(w, map[string]any{"same": len(changes) == 0, "changes": changes}); err != nil {
			return found(err)
		}
	} else {
		for _, change := range changes {
			fmt.Fprintln(w, change)
		}
		if len(changes) == 0 {
			fmt.Fprintln(w, "the same")
		}
	}
	if len(changes) > 0 {
		return Exit{ExitFindings, nil}
	}
	return nil
}

func diffLive(c *cobra.Command, a *adminFlags, cfg *config.Config, out format) error {
	ctx, cancel := context.WithTimeout(c.Context(), 5*time.Second)
	defer cancel()
	var st status
	if _, err := a.get(ctx, "/status", &st); err != nil {
		return err
	}
	same := st.Config.Hash == cfg.Source.Hash
	w := c.OutOrStdout()
	switch {
	case out.json():
		if err := writeJSON(w, map[string]any{"same": same, "file": cfg.Source.Hash, "live": st.Config.Hash}); err != nil {
			return found(err)
		}
	case same:
		fmt.Fprintf(w, "the same: the gateway runs this text (%s)\n", st.Config.Hash)
	default:
		fmt.Fprintf(w, "different: the gateway runs %s, %s is %s\n", st.Config.Hash, cfg.Source.File, cfg.Source.Hash)
	}
	if !same {
		return Exit{ExitFindings, nil}
	}
	return nil
}
