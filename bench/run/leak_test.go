package run

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"sluice/bench/result"
	"sluice/bench/scenario"
)

// The test binary can be a gateway: one that forwards, counts as a gateway does,
// and leaks what its config says.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "run" {
		if err := leaky(os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func leaky(config string) error {
	what, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var received atomic.Int64
	var mu sync.Mutex
	var heap [][]byte
	var files []*os.File
	leak := func() {
		mu.Lock()
		defer mu.Unlock()
		switch strings.TrimSpace(string(what)) {
		case "heap":
			heap = append(heap, make([]byte, 32<<10))
		case "goroutines":
			go func() { <-ctx.Done() }()
		case "descriptors":
			if f, err := os.Open(os.DevNull); err == nil {
				files = append(files, f)
			}
		}
	}
	http.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	http.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		open, _ := os.ReadDir("/proc/self/fd")
		n := received.Load()
		fmt.Fprintf(w, "sluice_requests_received_total %d\nsluice_decisions_total{mode=\"enforce\",verdict=\"admit\",reason=\"none\"} %d\n", n, n)
		fmt.Fprintf(w, "process_resident_memory_bytes %d\ngo_memstats_heap_alloc_bytes %d\ngo_goroutines %d\nprocess_open_fds %d\n", m.Sys, m.HeapAlloc, runtime.NumGoroutine(), len(open))
	})
	admin := &http.Server{Addr: os.Getenv("BENCH_ADMIN")}
	go func() { _ = admin.ListenAndServe() }()
	l, err := net.Listen("tcp", os.Getenv("BENCH_LISTEN"))
	if err != nil {
		return err
	}
	client := &fasthttp.HostClient{Addr: strings.TrimPrefix(os.Getenv("BENCH_ORIGIN"), "http://"), MaxConns: 4096, MaxIdemponentCallAttempts: 1}
	s := &fasthttp.Server{CloseOnShutdown: true, Handler: func(c *fasthttp.RequestCtx) {
		received.Add(1)
		leak()
		if err := client.Do(&c.Request, &c.Response); err != nil {
			c.SetStatusCode(http.StatusBadGateway)
		}
	}}
	go func() { _ = s.Serve(l) }()
	<-ctx.Done()
	return s.Shutdown()
}

const growing = `
version: 1
name: growing
rehearses: A gateway that leaks.
healthy: It is found out.
target: {config: leak}
classes: [{name: only, share: 100%, path: /x}]
load: {arrivals: uniform}
stages:
  - {name: before, rate: 100/s, for: 10s}
  - {name: after, rate: 100/s, for: 10s}
thresholds:
  - {metric: heap_growth, since: before, stage: after, at_most: 30%}
  - {metric: goroutines_growth, since: before, stage: after, at_most: 100%}
  - {metric: descriptors_growth, since: before, stage: after, at_most: 100%}
  - {metric: response_p50_growth, since: before, stage: after, at_most: 100%}
`

// A gateway that holds more and more is found out, by the figure that is about
// what it holds, and one that does not is not accused.
func TestLeaksAreFound(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"nothing", "heap", "goroutines", "descriptors"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "leak"), []byte(kind), 0o644); err != nil {
				t.Fatal(err)
			}
			s, err := scenario.Parse(filepath.Join(dir, "growing.yaml"), []byte(growing))
			if err != nil {
				t.Fatal(err)
			}
			r, err := Run(t.Context(), Options{Scenario: s, CountsOnly: true, Program: self})
			if err != nil {
				t.Fatal(err)
			}
			for _, th := range r.Thresholds {
				metric, _, _ := strings.Cut(th.What, "_")
				want := "met"
				switch {
				case metric == kind:
					want = "missed"
				case metric == "response":
					want = "not_judged"
				case kind != "nothing" || metric != "heap":
					continue // connections come and go with how busy the machine is
				}
				if th.Result != want {
					t.Errorf("%s is %s (%s) and %s, wanted %s", th.What, th.Value, th.Why, th.Result, want)
				}
			}
		})
	}
}

// Without its admin listener, nothing is known about what a gateway holds, which
// is no pass.
func TestUnwatchedGrowthIsUnknown(t *testing.T) {
	t.Parallel()
	r := runWith(t, "", "  - {name: more, rate: 50/s, for: 2s}\nthresholds: [{metric: heap_growth, since: hold, stage: more, at_most: 10%}]", honest)
	wants(t, r, result.Inconclusive, "the gateway was not watched")
}

// What was seen until an interruption is told, and nothing is judged by it.
func TestAnInterruptedRunTellsWhatItSaw(t *testing.T) {
	t.Parallel()
	s, err := scenario.Parse("test.yaml", fmt.Appendf(nil, base, "", "  - {name: more, rate: 200/s, for: 60s}\nthresholds: [{metric: admitted_share, at_least: 100%}]"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	begin := time.Now()
	r, err := Run(ctx, Options{Scenario: s, CountsOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	wants(t, r, result.Inconclusive, "interrupted after")
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("it took %v to end", took)
	}
	if r.Interrupted < 1 || r.Interrupted > 20 || r.Seconds > r.Interrupted+0.1 || r.Total.Offered < 100 || r.Thresholds[0].Result != "not_judged" {
		t.Errorf("interrupted after %v of %v seconds, %d offered, threshold %s", r.Interrupted, r.Seconds, r.Total.Offered, r.Thresholds[0].Result)
	}
	for _, c := range r.Checks {
		if !c.OK {
			t.Errorf("%s: %s", c.Name, c.Detail)
		}
	}
}
