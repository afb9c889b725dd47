package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"sluice/bench/peers"
	"sluice/bench/report"
	"sluice/bench/run"
	"sluice/bench/target"
)

// pinnedEnv names the core that is left to the measured program, in the
// environment of the copy of this program that is bound to the others.
const pinnedEnv = "BENCH_PEERS_CPU"

func peersCommand() *cobra.Command {
	var o peers.Options
	var out, fiber string
	var works []string
	var pin bool
	cmd := &cobra.Command{
		Use:   "peers",
		Short: "Measure Sluice and other programs at the same work",
		Long: `Measure Sluice and other programs at the same work: forwarding requests that
are within their tenant's limit, refusing requests that are over it, and
replaying the answers to keys that have been answered before, and recording
requests with new keys in Redis.

The others are a bare fasthttp proxy, nginx with limit_req, HAProxy with a stick
table (both as installed) and Fiber's middleware. Each is bound to one core and
measured in rounds, one after the other; CPU time is read from /proc. Do this on
a machine that does nothing else.`,
		Example: "  go run ./bench peers --rounds 9",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if pin && os.Getenv(pinnedEnv) == "" {
				if err := rebind(); err != nil {
					return fmt.Errorf("--pin: %w", err)
				}
			}
			o.CPU = os.Getenv(pinnedEnv)
			o.Note = func(format string, args ...any) { fmt.Printf("· "+format+"\n", args...) }
			for _, w := range works {
				o.Works = append(o.Works, peers.Work(w))
			}
			dir, err := os.MkdirTemp("", "bench-bin-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			if o.Sluice == "" {
				if o.Sluice, err = target.Build(ctx, dir); err != nil {
					return err
				}
			}
			if o.Self, err = os.Executable(); err != nil {
				return err
			}
			if fileExists(filepath.Join(fiber, "go.mod")) {
				o.GoFiber = fiber
			}
			r, err := peers.Run(ctx, o)
			if err != nil {
				return err
			}
			r.Machine, r.Go = run.Machine()
			return writePeers(filepath.Join(out, "peers"), r)
		},
	}
	fl := cmd.Flags()
	fl.IntVar(&o.Rounds, "rounds", 5, "rounds in which every program is measured once")
	fl.DurationVar(&o.Span, "span", 3*time.Second, "length of one measurement")
	fl.Float64Var(&o.Rate, "rate", 2000, "requests a second at which CPU and response times are measured")
	fl.IntVar(&o.Connections, "connections", 64, "connections kept busy to find the highest throughput")
	fl.StringSliceVar(&o.Only, "only", nil, "programs to measure besides the bare proxy: sluice, nginx, nginx-return, haproxy, gofiber")
	fl.StringSliceVar(&works, "work", []string{"forward", "refuse", "replay", "keyed"}, "kinds of work to measure")
	fl.StringVar(&o.Sluice, "sluice", "", "binary of the gateway; built from the checkout if not given")
	fl.StringVar(&fiber, "gofiber", "bench/peers/gofiber", "source of the gofiber program")
	fl.StringVar(&out, "out", "bench-results", "folder for the results")
	fl.BoolVar(&pin, "pin", true, "bind the measured program to a core of its own")
	return cmd
}

func fileExists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func writePeers(dir string, r *peers.Result) error {
	if err := report.Folder(dir); err != nil {
		return err
	}
	js, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	html, err := r.HTML()
	if err != nil {
		return err
	}
	md := r.Markdown()
	fmt.Printf("\n%s\n  %s\n", md, filepath.Join(dir, "peers.html"))
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "peers.json"), append(js, '\n'), 0o644),
		os.WriteFile(filepath.Join(dir, "peers.md"), []byte(md), 0o644),
		os.WriteFile(filepath.Join(dir, "peers.html"), html, 0o644),
	)
}

// rebind makes this process run anew, bound to all cores but the last, which is
// left to the measured programs. It returns where that cannot be done: the
// machine has only one core or no taskset.
func rebind() error {
	taskset, err := exec.LookPath("taskset")
	cpus := allowedCPUs()
	if err != nil || len(cpus) < 2 {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ours, theirs := cpus[:len(cpus)-1], cpus[len(cpus)-1]
	args := append([]string{taskset, "-c", strings.Join(ours, ","), self}, os.Args[1:]...)
	return syscall.Exec(taskset, args, append(os.Environ(), pinnedEnv+"="+theirs))
}

// allowedCPUs are the cores that this process may use.
func allowedCPUs() (all []string) {
	data, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(data)) {
		list, ok := strings.CutPrefix(line, "Cpus_allowed_list:")
		if !ok {
			continue
		}
		for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
			lo, hi, isRange := strings.Cut(part, "-")
			if !isRange {
				hi = lo
			}
			first, err1 := strconv.Atoi(lo)
			last, err2 := strconv.Atoi(hi)
			if err1 != nil || err2 != nil {
				return nil
			}
			for n := first; n <= last; n++ {
				all = append(all, strconv.Itoa(n))
			}
		}
	}
	return all
}

// bareCommand serves the bare proxy of the comparison.
func bareCommand() *cobra.Command {
	var listen, origin string
	cmd := &cobra.Command{
		Use: "bare-proxy", Hidden: true, Args: cobra.NoArgs,
		Short: "Serve the bare proxy that peers compares with",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return peers.Bare(cmd.Context(), listen, origin)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "address to listen on")
	cmd.Flags().StringVar(&origin, "origin", "", "base URL of the origin")
	return cmd
}
