// Package target starts the real gateway as a process of its own, drives it as
// an operator does (reload, restart, kill, stop), and reads what it says and
// costs: its counters and its CPU time.
package target

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options of a gateway.
type Options struct {
	// Program is the gateway's binary.
	Program string
	// Config is the file to start it with. It is copied, so that a reload can
	// change it.
	Config string
	// Origin is the base URL of the origin.
	Origin string
	// Env are further variables for the config, as NAME=value.
	Env []string
	// CPUs to bind the process to, as taskset writes them; "" is all.
	CPUs string
}

// Gateway is a running gateway. It is for one goroutine, but for Counters and
// Usage.
type Gateway struct {
	opts   Options
	dir    string
	listen string
	admin  string
	// release gives the addresses back, which a restart needs again.
	release []func()

	mu   sync.Mutex
	proc *process
	past time.Duration // CPU time of processes that have ended
}

type process struct {
	cmd  *exec.Cmd
	said *tail
	done chan struct{}
	err  error
}

// Build compiles the program of the module that the working directory is in,
// into dir, and returns its path.
func Build(ctx context.Context, dir string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	mod := strings.TrimSpace(string(out))
	if err != nil || mod == "" || mod == os.DevNull {
		return "", errors.New("target: the gateway's source is not here to build it from; name its binary with --sluice, or a running gateway with --target")
	}
	bin := filepath.Join(dir, "sluice")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", bin, ".")
	cmd.Dir = filepath.Dir(mod)
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("target: go build in %s: %w\n%s", cmd.Dir, err, said)
	}
	return bin, nil
}

// Start starts a gateway and waits until it is ready. The caller must Stop it.
func Start(ctx context.Context, o Options) (*Gateway, error) {
	dir, err := os.MkdirTemp("", "bench-gateway-")
	if err != nil {
		return nil, fmt.Errorf("target: %w", err)
	}
	g := &Gateway{opts: o, dir: dir}
	for _, addr := range []*string{&g.listen, &g.admin} {
		var release func()
		if *addr, release, err = reserve(); err != nil {
			break
		}
		g.release = append(g.release, release)
	}
	if err == nil {
		err = g.install(o.Config)
	}
	if err == nil {
		err = g.start(ctx)
	}
	if err != nil {
		g.clear()
		return nil, err
	}
	return g, nil
}

// clear leaves nothing behind.
func (g *Gateway) clear() {
	for _, release := range g.release {
		release()
	}
	g.release = nil
	os.RemoveAll(g.dir)
}

func (g *Gateway) config() string { return filepath.Join(g.dir, "config.yaml") }

// install puts a config in place, in one step as a careful operator does.
func (g *Gateway) install(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("target: %w", err)
	}
	next := g.config() + ".next"
	if err := os.WriteFile(next, data, 0o600); err != nil {
		return fmt.Errorf("target: %w", err)
	}
	return os.Rename(next, g.config())
}

func (g *Gateway) start(ctx context.Context) error {
	args := []string{g.opts.Program, "run", "--config", g.config(), "--origin", g.opts.Origin}
	if g.opts.CPUs != "" {
		args = append([]string{"taskset", "-c", g.opts.CPUs}, args...)
	}
	p := &process{cmd: exec.Command(args[0], args[1:]...), said: &tail{}, done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "BENCH_LISTEN="+g.listen, "BENCH_ADMIN="+g.admin, "BENCH_ORIGIN="+g.opts.Origin)
	p.cmd.Env = append(p.cmd.Env, g.opts.Env...)
	p.cmd.Stdout, p.cmd.Stderr = p.said, p.said
	ended, err := Spawn(p.cmd)
	if err != nil {
		return fmt.Errorf("target: %w", err)
	}
	go func() {
		p.err = <-ended
		close(p.done)
	}()
	g.mu.Lock()
	g.proc = p
	g.mu.Unlock()
	if err := g.awaitReady(ctx, p); err != nil {
		_ = p.cmd.Process.Kill()
		<-p.done
		return err
	}
	return nil
}

func (g *Gateway) awaitReady(ctx context.Context, p *process) error {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		resp, err := client.Get("http://" + g.admin + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-p.done:
			return fmt.Errorf("target: the gateway ended before it was ready (%v):\n%s", p.err, p.said)
		case <-ctx.Done():
			return fmt.Errorf("target: the gateway was not ready on %s within 10s:\n%s", g.admin, p.said)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// URL that requests go to.
func (g *Gateway) URL() string { return "http://" + g.listen }

// Admin is the base URL of the admin listener.
func (g *Gateway) Admin() string { return "http://" + g.admin }

// Reload puts another config in place and waits until the gateway says that it
// has taken it.
func (g *Gateway) Reload(ctx context.Context, file string) error {
	if err := g.install(file); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.Admin()+"/reload", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("target: reload: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		var why bytes.Buffer
		_, _ = why.ReadFrom(http.MaxBytesReader(nil, resp.Body, 4096))
		return fmt.Errorf("target: reload: %s: %s", resp.Status, why.String())
	}
	return nil
}

// Stop asks the gateway to stop and waits until it has. It is an error if it
// does not, or does not exit with 0.
func (g *Gateway) Stop() error {
	err := g.end(syscall.SIGTERM)
	g.clear()
	return err
}

// Restart stops the gateway and starts it again at the same address.
func (g *Gateway) Restart(ctx context.Context) error {
	if err := g.end(syscall.SIGTERM); err != nil {
		return err
	}
	return g.start(ctx)
}

// Kill kills the gateway and starts it again at the same address.
func (g *Gateway) Kill(ctx context.Context) error {
	if err := g.end(syscall.SIGKILL); err != nil {
		return err
	}
	return g.start(ctx)
}

func (g *Gateway) end(sig syscall.Signal) error {
	g.mu.Lock()
	p := g.proc
	g.mu.Unlock()
	if p == nil {
		return nil
	}
	err := p.cmd.Process.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	select {
	case <-p.done:
	case <-time.After(45 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
		err = errors.New("target: the gateway did not stop within 45s of SIGTERM")
	}
	g.mu.Lock()
	g.proc = nil
	if s := p.cmd.ProcessState; s != nil {
		g.past += s.UserTime() + s.SystemTime()
	}
	g.mu.Unlock()
	if err == nil && p.err != nil && sig == syscall.SIGTERM {
		err = fmt.Errorf("target: the gateway ended badly (%w):\n%s", p.err, p.said)
	}
	return err
}

// Usage is what the gateway has cost so far.
func (g *Gateway) Usage() Usage {
	g.mu.Lock()
	defer g.mu.Unlock()
	u := Usage{CPU: g.past}
	if g.proc != nil {
		now := ProcessUsage(g.proc.cmd.Process.Pid)
		u.CPU += now.CPU
		u.PeakMemory = now.PeakMemory
	}
	return u
}

// tail keeps the last of what a process says.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailMax = 8 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if over := len(t.buf) - tailMax; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}
