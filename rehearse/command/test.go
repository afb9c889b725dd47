package command

import (
	"errors"
	"fmt"
	"os"
	"regexp"

	"github.com/spf13/cobra"

	"sluice/rehearse/policytest"
)

// Test is "sluice test".
func Test() *cobra.Command {
	var run, junit string
	var coverage bool
	var out format
	c := &cobra.Command{
		Use:   "test FILE|FOLDER...",
		Short: "Run unit tests of policies",
		Long: `Run unit tests of policies: files that give requests and the state of queues over
time, and say what is to be decided. Of a folder, all files below it that end in
` + policytest.Suffix + ` are run.

Nothing is listened on or connected to, and no time is spent waiting: the decisions
are made by the code of the running gateway, with a clock of their own, and are the
same each time.

Exit code 0: all tests passed; 1: a test failed, or a file is wrong; 2: no file or
no test was found, or the command line makes no sense.`,
		Example: `  sluice test config.test.yaml
  sluice test policies/ --coverage
  sluice test policies/ --run 'bulk|mail' --junit report.xml`,
		ValidArgsFunction: yamlFiles,
		RunE: func(c *cobra.Command, args []string) error {
			var match *regexp.Regexp
			if run != "" {
				var err error
				if match, err = regexp.Compile(run); err != nil {
					return usage(fmt.Errorf("--run: %w", err))
				}
			}
			if len(args) == 0 {
				return usage(errors.New("test: name at least one file or folder, such as: sluice test config.test.yaml"))
			}
			files, err := policytest.Find(args)
			if err != nil {
				return usage(err)
			}
			var cover *policytest.Coverage
			if coverage {
				cover = &policytest.Coverage{}
			}
			report, err := runTests(files, match, cover)
			if tests, _ := report.Count(); tests == 0 && err == nil {
				return usage(fmt.Errorf("--run %q matches no test in %d files", run, len(files)))
			}
			if cover != nil {
				report.Coverage = cover.Items()
			}
			return errors.Join(err, writeReport(c, report, out, junit))
		},
	}
	c.Flags().StringVar(&run, "run", "", "run only tests whose name matches this `regexp`")
	c.Flags().BoolVar(&coverage, "coverage", false, "tell which routes, rules, limits and bands the tests made decide")
	c.Flags().StringVar(&junit, "junit", "", "write the results to `file` as JUnit XML, too")
	out.add(c)
	return c
}

// runTests runs the tests of all files that are right. Its error is about those
// that are not.
func runTests(files []string, match *regexp.Regexp, cover *policytest.Coverage) (*policytest.Report, error) {
	report := &policytest.Report{}
	var wrong []error
	for _, file := range files {
		suite, err := policytest.Load(file)
		if err == nil {
			var result policytest.Result
			result, err = suite.Run(match, cover)
			report.Suites = append(report.Suites, result)
		}
		if err != nil {
			wrong = append(wrong, err)
		}
	}
	if len(wrong) == 0 {
		return report, nil
	}
	return report, found(errors.Join(wrong...))
}

func writeReport(c *cobra.Command, report *policytest.Report, out format, junit string) error {
	write := report.WriteText
	if out.json() {
		write = report.WriteJSON
	}
	if err := write(c.OutOrStdout()); err != nil {
		return found(err)
	}
	if junit != "" {
		f, err := os.Create(junit)
		if err != nil {
			return usage(fmt.Errorf("--junit: %w", err))
		}
		if err := errors.Join(report.WriteJUnit(f), f.Close()); err != nil {
			return found(err)
		}
	}
	if _, failed := report.Count(); failed > 0 {
		return Exit{ExitFindings, nil}
	}
	return nil
}
