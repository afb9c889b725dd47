package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
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

With --live, one file is compared with what a gateway runs: the left side is what runs,
the right side the file. A gateway does not tell its secrets, so of those only whether
they are set is compared, unless its file's text is the same.

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
	changes, err := a.changes(ctx, cfg)
	if err != nil {
		return err
	}
	w := c.OutOrStdout()
	switch {
	case out.json():
		err = writeJSON(w, map[string]any{
			"same": len(changes) == 0, "changes": changes, "file": cfg.Source.Hash, "live": st.Config.Hash,
		})
	case len(changes) > 0:
		for _, change := range changes {
			fmt.Fprintln(w, change)
		}
	case st.Config.Hash == cfg.Source.Hash:
		fmt.Fprintf(w, "the same: the gateway runs this text (%s)\n", cfg.Source.Hash)
	default:
		fmt.Fprintf(w, "the same, in other words: the gateway runs %s, %s is %s; secrets are not compared\n", st.Config.Hash, cfg.Source.File, cfg.Source.Hash)
	}
	if err != nil {
		return found(err)
	}
	if len(changes) > 0 {
		return Exit{ExitFindings, nil}
	}
	return nil
}

// changes are from what a gateway runs to cfg, as far as it shows that.
func (a *adminFlags) changes(ctx context.Context, cfg *config.Config) ([]config.Change, error) {
	res, _, err := a.open(ctx, http.MethodGet, "/config")
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, exit(ExitUnreachable, fmt.Errorf("the gateway at %s broke off its answer: %w", a.address, err))
	}
	running, err := config.ParseShown("the configuration of "+a.address, text)
	if err != nil {
		return nil, exit(ExitUnreachable, fmt.Errorf("the gateway at %s is of a version whose configuration cannot be compared: %w", a.address, err))
	}
	// The file is looked at as the gateway shows its own.
	file, err := config.ParseShown(cfg.Source.File, cfg.Shown())
	if err != nil {
		return nil, found(err)
	}
	return append([]config.Change{}, config.Diff(running, file)...), nil
}
