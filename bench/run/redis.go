package run

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"sluice/bench/scenario"
	"sluice/internal/faultproxy"
)

// redis is a Redis server and the proxy through which the gateway reaches it.
type redis struct {
	addr  string
	cmd   *exec.Cmd
	done  chan struct{}
	proxy *faultproxy.Proxy
}

// startRedis starts a server that keeps nothing on disk, on a free port of the
// loopback interface.
func startRedis(ctx context.Context, dir string) (*redis, error) {
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("run: the scenario needs redis-server, which is not installed (apt-get install redis-server)")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	addr := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(addr)
	home := filepath.Join(dir, "redis")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	r := &redis{addr: addr, done: make(chan struct{})}
	r.cmd = exec.Command(bin, "--bind", "127.0.0.1", "--port", port, "--dir", home, "--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction")
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	go func() {
		_ = r.cmd.Wait()
		close(r.done)
	}()
	for end := time.Now().Add(10 * time.Second); ; {
		if c, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
			c.Close()
			break
		}
		select {
		case <-r.done:
			return nil, errors.New("run: redis-server ended at once")
		case <-ctx.Done():
			r.stop()
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(end) {
			r.stop()
			return nil, errors.New("run: redis-server does not listen")
		}
	}
	if r.proxy, err = faultproxy.New(addr); err != nil {
		r.stop()
		return nil, err
	}
	return r, nil
}

func (r *redis) url() string { return "redis://" + r.proxy.Addr() + "/0" }

// disturb does what an event says, and undoes it at its end.
func (r *redis) disturb(e *scenario.RedisEvent, end bool) error {
	if e.Down {
		r.proxy.Cut(!end)
	}
	if e.Stall {
		r.proxy.BlackHole(!end)
	}
	if e.Latency > 0 {
		d := time.Duration(e.Latency)
		if end {
			d = 0
		}
		r.proxy.Latency(d)
	}
	if e.Lose > 0 && !end {
		r.proxy.DropReplies(e.Lose)
	}
	return nil
}

// stop ends the server; a nil redis was never started.
func (r *redis) stop() {
	if r == nil {
		return
	}
	if r.proxy != nil {
		_ = r.proxy.Close()
	}
	_ = r.cmd.Process.Kill()
	<-r.done
}
