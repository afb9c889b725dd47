// Command sluice is an admission gateway: a reverse proxy in front of an HTTP
// API whose endpoints publish work to queues. See README.md.
//
// This file turns flags and signals into the gateway's options. What they mean
// is in package gateway.
package main

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/config"
	"sluice/config/strict"
	"sluice/demo"
	"sluice/gateway"
	"sluice/rehearse/command"
	"sluice/rehearse/replay"
)

//go:embed config.yaml
var defaultConfig []byte

const defaultName = "config.yaml (embedded)"

// Exit codes.
const (
	exitFindings = 1 // something was found to be wrong
	exitUsage    = 2 // the command line makes no sense
)

// version is set by the linker in releases.
var version = "dev"

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run executes one command line and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	root := rootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.Execute()
	var code exitError
	var exit command.Exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		if exit.Err != nil {
			fmt.Fprintln(stderr, exit)
		}
		return exit.Code
	case errors.As(err, &code):
		if code.error != nil {
			fmt.Fprintln(stderr, code.Error())
		}
		return code.code
	}
	fmt.Fprintf(stderr, "sluice: %v\n", err)
	return exitUsage
}

// exitError is an error with the exit code that it calls for. Other errors are
// those of the command line.
type exitError struct {
	error
	code int
}

func (e exitError) Unwrap() error { return e.error }

// failed makes err one for which the command line is not to blame.
func failed(err error) error {
	if err == nil {
		return nil
	}
	var code exitError
	if errors.As(err, &code) {
		return code
	}
	var problems config.Problems
	if errors.As(err, &problems) {
		return exitError{err, exitFindings}
	}
	return exitError{fmt.Errorf("sluice: %w", err), exitFindings}
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "sluice",
		Short: "An admission gateway in front of an HTTP API that publishes to queues",
		Long: `Sluice stands in front of an HTTP API whose endpoints publish work to queues.
It decides, before anything reaches a queue, what gets in: it limits each tenant's
rate and tells whom it refuses when to come back.

See it at work, with nothing else installed:

  sluice demo

Put it in front of your own API:

  sluice run --origin http://127.0.0.1:3000`,
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return explainFlag(c, err) })
	root.AddCommand(runCommand(), demoCommand(), validateCommand(), versionCommand(), exportCommand())
	root.AddCommand(command.All(builtIn)...)
	root.InitDefaultCompletionCmd()
	return root
}

func runCommand() *cobra.Command {
	var path, originURL, candidate string
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the gateway",
		Long: `Run the gateway until SIGTERM or SIGINT. It then fails its readiness check, closes
connections as it answers on them, finishes what is running, and exits with 0.

Without --config it runs on the documented config.yaml that is built in.
The file is reloaded when it changes, on SIGHUP, and by POST /reload on the admin
listener; a wrong file changes nothing.

With --candidate a second policy decides about every request beside the one in force,
and is not obeyed: metrics, decision log, /status and the dashboard tell what would
change. Its file is reloaded like that of --config; a wrong one leaves the one before.`,
		Example: `  sluice run --config config.yaml
  sluice run --config config.yaml --candidate next.yaml
  sluice run --origin http://127.0.0.1:3000`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return failed(serve(path, originURL, candidate, c.ErrOrStderr()))
		},
	}
	c.Flags().StringVarP(&path, "config", "c", "", "the configuration `file` (default: the built-in config.yaml)")
	c.Flags().StringVar(&originURL, "origin", "", "the `URL` of the API, instead of the configuration's")
	c.Flags().StringVar(&candidate, "candidate", "", "a configuration `file` with the policy to try beside the one in force")
	_ = c.MarkFlagFilename("config", "yaml", "yml")
	_ = c.MarkFlagFilename("candidate", "yaml", "yml")
	return c
}

// serve runs a gateway until it is told to stop.
func serve(path, originURL, candidate string, stderr io.Writer) error {
	load := func() (*config.Config, error) { return loadConfig(path, originURL) }
	cfg, err := load()
	if err != nil {
		return err
	}
	opts := gateway.Options{Load: load, Path: path, Explain: replay.Remembered, Version: versionText(), Log: newLogger(stderr, cfg)}
	if candidate != "" {
		opts.Candidate, opts.CandidatePath = func() (*config.Config, error) { return config.Load(candidate) }, candidate
	}
	g, err := gateway.New(opts)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)

	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	go func() {
		for {
			select {
			case <-hangups:
				_, _ = g.Reload(ctx, gateway.TriggerSignal)
			case <-ctx.Done():
				return
			}
		}
	}()
	return g.Run(ctx)
}

// loadConfig reads the configuration at path, or the built-in one. originURL
// replaces the origin's addresses unless it is empty.
func loadConfig(path, originURL string) (*config.Config, error) {
	var cfg *config.Config
	var err error
	if path == "" {
		cfg, err = config.Parse(defaultName, defaultConfig)
	} else {
		cfg, err = config.Load(path)
	}
	if err != nil {
		return nil, err
	}
	if originURL != "" {
		if cfg, err = cfg.WithOrigin(originURL); err != nil {
			return nil, exitError{fmt.Errorf("sluice: --origin: %w", err), exitUsage}
		}
	}
	return cfg, nil
}

// builtIn loads a file, or the built-in configuration where none is named.
func builtIn(path string) (*config.Config, error) { return loadConfig(path, "") }

func newLogger(w io.Writer, cfg *config.Config) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(cfg.Log.Level))
	opts := &slog.HandlerOptions{Level: level}
	if cfg.Log.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

func demoCommand() *cobra.Command {
	var opts demo.Options
	var outage string
	var printConfig bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "See Sluice at work: a simulated origin, the gateway and a load in one process",
		Long: `Run a simulated API with a queue and workers, the gateway in front of it, and a load
that is a little more than the workers can do, from tenants of which one asks for more
than its limit. A line a second shows what happens; totals at the end. Press Enter to
stop the workers, and again to let them go on.

Everything stays on the loopback interface. It ends with Ctrl-C, or after --for.`,
		Example: `  sluice demo --for 30s
  sluice demo --outage 10s+15s
  sluice demo --print-config > demo.yaml
  sluice demo --config demo.yaml`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if printConfig {
				_, err := c.OutOrStdout().Write(demo.Policy)
				return failed(err)
			}
			if opts.For < 0 {
				return errors.New("--for: a negative time; write one such as 30s")
			}
			var err error
			if opts.OutageAt, opts.OutageFor, err = parseOutage(outage); err != nil {
				return err
			}
			opts.Version, opts.Out = versionText(), c.OutOrStdout()
			opts.Log = slog.New(slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			opts.Toggle = enterPressed(ctx)
			return failed(demo.Run(ctx, opts))
		},
	}
	c.Flags().DurationVar(&opts.For, "for", 0, "how long to run, such as 30s (default: until Ctrl-C)")
	c.Flags().StringVarP(&opts.Path, "config", "c", "", "a configuration `file` to show instead of the built-in one")
	c.Flags().BoolVar(&printConfig, "print-config", false, "print the built-in configuration, and do nothing else")
	c.Flags().StringVar(&outage, "outage", "", "when the workers stop and for how long, such as `10s+15s`")
	c.Flags().StringVar(&opts.Record, "record", "", "the `file` that all decisions are recorded in, for \"sluice replay\" (default: one in the folder for temporary files)")
	c.Flags().Uint64Var(&opts.Seed, "seed", 1, "seed of the load")
	_ = c.MarkFlagFilename("config", "yaml", "yml")
	return c
}

// parseOutage reads when the workers stop and for how long: 10s+15s.
func parseOutage(text string) (at, lasts time.Duration, err error) {
	if text == "" {
		return 0, 0, nil
	}
	first, second, ok := strings.Cut(text, "+")
	if ok {
		var err1, err2 error
		at, err1 = time.ParseDuration(first)
		lasts, err2 = time.ParseDuration(second)
		ok = err1 == nil && err2 == nil && at >= 0 && lasts > 0
	}
	if !ok {
		return 0, 0, fmt.Errorf("--outage: %q does not say when and for how long; write it as 10s+15s", text)
	}
	return at, lasts, nil
}

// enterPressed gives something each time a line is typed on a terminal.
func enterPressed(ctx context.Context) <-chan struct{} {
	if info, err := os.Stdin.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	pressed := make(chan struct{})
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			select {
			case pressed <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return pressed
}

func validateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check configuration files without running them",
		Long: `Check configuration files. Everything that is wrong is reported at once, with its
place and with what would be right. Nothing is touched but the files themselves, and
the files and environment variables that they name.

Exit code 0: all are fine (there may be warnings); 1: something is wrong; 2: usage.`,
		Example: "  sluice validate config.yaml",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("validate: name at least one file, such as: sluice validate config.yaml")
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(c *cobra.Command, files []string) error {
			wrong := false
			for _, file := range files {
				cfg, err := config.Load(file)
				if err != nil {
					wrong = true
					fmt.Fprintln(c.ErrOrStderr(), err)
					continue
				}
				for _, w := range cfg.Source.Warnings {
					fmt.Fprintf(c.ErrOrStderr(), "warning: %v\n", w)
				}
				fmt.Fprintf(c.OutOrStdout(), "%s: fine\n", file)
			}
			if wrong {
				return exitError{nil, exitFindings}
			}
			return nil
		},
	}
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run: func(c *cobra.Command, _ []string) {
			fmt.Fprintf(c.OutOrStdout(), "sluice %s %s %s/%s\n", versionText(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}

// versionText is the release, or what the build knows of its commit.
func versionText() string {
	info, ok := debug.ReadBuildInfo()
	if version != "dev" || !ok {
		return version
	}
	commit, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			commit = "-" + s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	return version + commit + dirty
}

// explainFlag adds to a wrong flag what may have been meant.
func explainFlag(c *cobra.Command, err error) error {
	_, name, ok := strings.Cut(err.Error(), "unknown flag: --")
	if !ok {
		return fmt.Errorf("%w\nsee: %s --help", err, c.CommandPath())
	}
	var flags []string
	c.Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
	best := strict.Nearest(name, flags)
	if best == "" {
		return fmt.Errorf("%s has no flag --%s\nsee: %s --help", c.CommandPath(), name, c.CommandPath())
	}
	return fmt.Errorf("%s has no flag --%s; did you mean --%s?\nsee: %s --help", c.CommandPath(), name, best, c.CommandPath())
}
