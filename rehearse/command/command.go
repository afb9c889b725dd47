// Package command has the commands with which policies are tried, told and
// compared, and those that ask a running gateway: test, explain, replay, diff, schema,
// init, status and reload.
//
// Results go to standard output and everything else to standard error. Each
// command that has a result also writes it as JSON, with --format json. Exit
// codes are those of the whole program: 0 fine, 1 something was found, 2 the
// command line makes no sense, 4 the gateway cannot be reached. See [Exit].
package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sluice/config"
)

// Exit codes besides 0.
const (
	ExitFindings    = 1 // something was found to be wrong, or to differ
	ExitUsage       = 2 // the command line, or a file that it names, makes no sense
	ExitUnreachable = 4 // a gateway cannot be asked
)

// Exit is an error with the exit code that it calls for. Err is nil where
// everything has been said.
type Exit struct {
	Code int
	Err  error
}

func (e Exit) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

func (e Exit) Unwrap() error { return e.Err }

// ExitCode returns the exit code.
func (e Exit) ExitCode() int { return e.Code }

// found is an error that is a finding. That of a file says its place itself;
// others are given the program's name.
func found(err error) error { return exit(ExitFindings, err) }

// usage is an error of the command line.
func usage(err error) error { return exit(ExitUsage, err) }

func exit(code int, err error) error {
	var problems config.Problems
	if err == nil || errors.As(err, &problems) {
		return Exit{code, err}
	}
	return Exit{code, fmt.Errorf("sluice: %w", err)}
}

// format is the flag --format.
type format string

func (f *format) add(c *cobra.Command) {
	*f = "text"
	c.Flags().Var(f, "format", "`format` of the result: text or json")
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
}

func (f *format) json() bool { return *f == "json" }

// Set implements pflag.Value.
func (f *format) Set(s string) error {
	if s != "text" && s != "json" {
		return errors.New("write text or json")
	}
	*f = format(s)
	return nil
}

func (f *format) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *format) Type() string { return "format" }

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// yamlFiles completes names of configuration files.
func yamlFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}
