package command

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"sluice/config"
	"sluice/rehearse/policytest"
)

//go:embed starter.yaml
var starter []byte

// Schema is "sluice schema".
func Schema() *cobra.Command {
	var tests bool
	c := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of configuration files, for editors",
		Long: `Print the JSON Schema (draft-07) of configuration files, or with --tests of files of
policy tests. Editors complete and check with it; "sluice validate" knows more.`,
		Example: `  sluice schema > config.schema.json
  # and as the first line of config.yaml:
  # yaml-language-server: $schema=config.schema.json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			schema := config.Schema()
			if tests {
				schema = policytest.Schema()
			}
			_, err := c.OutOrStdout().Write(schema)
			return wrote(err)
		},
	}
	c.Flags().BoolVar(&tests, "tests", false, "the schema of files of policy tests")
	return c
}

// Init is "sluice init".
func Init() *cobra.Command {
	return &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a configuration to start from",
		Long: `Write a commented configuration to start from, to config.yaml unless another file is
named, or to standard output for -. It asks nothing, and never overwrites a file.

Exit code 0: it is written; 1: the file is there already, or cannot be written.`,
		Example: `  sluice init
  sluice init - | less`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			file := "config.yaml"
			if len(args) == 1 {
				file = args[0]
			}
			if file == "-" {
				_, err := c.OutOrStdout().Write(starter)
				return wrote(err)
			}
			f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
			if errors.Is(err, fs.ErrExist) {
				return found(fmt.Errorf("%s is there already and stays as it is; name another file, such as: sluice init new.yaml", file))
			}
			if err != nil {
				return found(err)
			}
			if _, err := f.Write(starter); err != nil {
				return found(errors.Join(err, f.Close()))
			}
			if err := f.Close(); err != nil {
				return found(err)
			}
			fmt.Fprintf(c.OutOrStdout(), "%s is written. Put your API's address in it, then:\n\n  sluice validate %s\n  sluice run --config %s\n", file, file, file)
			return nil
		},
	}
}
