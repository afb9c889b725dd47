package command

import "github.com/spf13/cobra"

// All are the commands of this package. load reads the configuration of those
// that run without naming one.
func All(load Loader) []*cobra.Command {
	return []*cobra.Command{Test(), Explain(load), Replay(load), Diff(), Schema(), Init(), Status(), Reload(), Drain(), Tail(), Top(), Healthcheck()}
}
