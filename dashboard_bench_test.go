package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/testbuffer"
)

// BenchmarkDashboardReaders tells what ten readers of the live stream, one of
// them stuck, cost the gateway for each request: rounds without and with them
// take turns against one running process, and the median of the pairs' ratios
// is reported. Instructions are counted where perf can count them, CPU time
// always. What the stream takes does not depend on the number of requests, so it
// is told by itself as well: CPU milliseconds a second, while nothing is asked.
//
//	go test -run '^$' -bench DashboardReaders -benchtime 5x .
func BenchmarkDashboardReaders(b *testing.B) {
	const readers, perRound = 10, 3 * time.Second
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(202) }))
	defer origin.Close()
	file := filepath.Join(b.TempDir(), "config.yaml")
	text := fmt.Sprintf(`version: 1
listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0}
origin: {url: %s}
tenants: {from: [{header: X-Tenant-Id}], limit: {rate: 50/s, burst: 50}}
routes: [{id: order, match: {method: POST, path: /orders}, class: standard}]
shutdown: {drain: 0s}
`, origin.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	cmd, log := exec.Command(program, "run", "--config", file), &testbuffer.Buffer{}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	var client, admin string
	for deadline := time.Now().Add(30 * time.Second); client == ""; time.Sleep(10 * time.Millisecond) {
		if m := serving.FindStringSubmatch(log.String()); m != nil {
			client, admin = m[1], m[2]
		} else if time.Now().After(deadline) {
			b.Fatalf("sluice does not serve:\n%s", log)
		}
	}

	round := func(open bool) (cpu, instructions float64) {
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		var reading sync.WaitGroup
		defer reading.Wait()
		defer cancel()
		for n := range readers {
			if open {
				readStream(ctx, b, &reading, admin, n == 0)
			}
		}
		count := perfCount(b, cmd.Process.Pid)
		before := cpuTime(b, cmd.Process.Pid)
		sent := offer(b, client, perRound)
		cpu = float64(cpuTime(b, cmd.Process.Pid)-before) / float64(sent)
		return cpu, count() / float64(sent)
	}
	// streaming is what the process uses in a second without requests.
	streaming := func(open bool) float64 {
		ctx, cancel := context.WithCancel(b.Context())
		var reading sync.WaitGroup
		for n := range readers {
			if open {
				readStream(ctx, b, &reading, admin, n == 0)
			}
		}
		before := cpuTime(b, cmd.Process.Pid)
		time.Sleep(perRound)
		used := float64(cpuTime(b, cmd.Process.Pid)-before) / 1e6 / perRound.Seconds()
		cancel()
		reading.Wait()
		return used
	}
	round(true) // warm
	var cpus, instructions, streams []float64
	for range b.N {
		streams = append(streams, -streaming(false)+streaming(true))
		cpuA, insA := round(false)
		cpuB, insB := round(true)
		cpus = append(cpus, cpuB/cpuA)
		if insA > 0 {
			instructions = append(instructions, insB/insA)
		}
		b.Logf("without: %.0f ns, %.0f instructions a request; with: %.0f ns, %.0f instructions", cpuA, insA, cpuB, insB)
	}
	b.ReportMetric(median(cpus), "cpu-ratio")
	b.ReportMetric(median(streams), "stream-ms/s")
	if len(instructions) > 0 {
		b.ReportMetric(median(instructions), "instructions-ratio")
	}
}

func median(list []float64) float64 {
	slices.Sort(list)
	return (list[len(list)/2] + list[(len(list)-1)/2]) / 2
}

// readStream opens the live stream; a stuck reader never reads from it.
func readStream(ctx context.Context, b *testing.B, reading *sync.WaitGroup, admin string, stuck bool) {
	if stuck {
		c, err := net.Dial("tcp", admin)
		if err != nil {
			b.Fatal(err)
		}
		fmt.Fprintf(c, "GET /api/v1/stream HTTP/1.1\r\nHost: %s\r\n\r\n", admin)
		context.AfterFunc(ctx, func() { c.Close() })
		return
	}
	req, _ := http.NewRequestWithContext(ctx, "GET", "http://"+admin+"/api/v1/stream", nil)
	res, err := http.DefaultClient.Do(req)
	if err != nil || res.StatusCode != 200 {
		b.Fatal(err, res)
	}
	reading.Go(func() {
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
	})
}

// offer sends requests one after another on two connections for a while, and
// returns how many.
func offer(b *testing.B, client string, lasts time.Duration) int {
	var sent [2]int
	var sending sync.WaitGroup
	end := time.Now().Add(lasts)
	for i := range sent {
		sending.Go(func() {
			transport := &http.Transport{MaxIdleConnsPerHost: 1}
			defer transport.CloseIdleConnections()
			for ; time.Now().Before(end); sent[i]++ {
				req, _ := http.NewRequest("POST", "http://"+client+"/orders", nil)
				req.Header.Set("X-Tenant-Id", fmt.Sprint("tenant-", sent[i]%50))
				res, err := transport.RoundTrip(req)
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
		})
	}
	sending.Wait()
	return sent[0] + sent[1]
}

// cpuTime is what a process has used so far, in nanoseconds, all threads
// together.
func cpuTime(b *testing.B, pid int) (ns int64) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(tasks) == 0 {
		b.Skip("this system does not tell what threads use")
	}
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		field, _, _ := strings.Cut(string(text), " ")
		n, _ := strconv.ParseInt(field, 10, 64)
		ns += n
	}
	return ns
}

// perfCount begins to count a process' instructions in user mode; the function
// returned ends that, and is 0 where perf is not to be had.
func perfCount(b *testing.B, pid int) func() float64 {
	cmd := exec.Command("perf", "stat", "-x", ",", "-e", "instructions:u", "-p", strconv.Itoa(pid))
	var out strings.Builder
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		return func() float64 { return 0 }
	}
	return func() float64 {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		field, _, _ := strings.Cut(strings.TrimSpace(out.String()), ",")
		n, _ := strconv.ParseFloat(field, 64)
		return n
	}
}
