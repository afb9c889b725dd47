package target

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Redis is a server that keeps nothing on disk, on a free port of the loopback
// interface.
type Redis struct {
	Addr    string
	release func() // gives Addr back
	cmd     *exec.Cmd
	done    chan struct{}
}

// ErrNoRedis says that redis-server is not installed.
var ErrNoRedis = errors.New("redis-server is not installed (apt-get install redis-server)")

// StartRedis starts a server whose home is made in dir, and waits until it
// listens. The caller must Stop it.
func StartRedis(ctx context.Context, dir string) (*Redis, error) {
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, ErrNoRedis
	}
	home := filepath.Join(dir, "redis")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, err
	}
	r := &Redis{done: make(chan struct{})}
	if r.Addr, r.release, err = reserve(); err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(r.Addr)
	r.cmd = exec.Command(bin, "--bind", "127.0.0.1", "--port", port, "--dir", home, "--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction")
	ended, err := Spawn(r.cmd)
	if err != nil {
		r.release()
		return nil, fmt.Errorf("redis-server: %w", err)
	}
	go func() {
		<-ended
		r.release()
		close(r.done)
	}()
	for end := time.Now().Add(10 * time.Second); ; {
		if c, err := net.DialTimeout("tcp", r.Addr, time.Second); err == nil {
			c.Close()
			return r, nil
		}
		select {
		case <-r.done:
			return nil, errors.New("redis-server ended at once")
		case <-ctx.Done():
			r.Stop()
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(end) {
			r.Stop()
			return nil, errors.New("redis-server does not listen")
		}
	}
}

// Stop ends the server.
func (r *Redis) Stop() {
	_ = r.cmd.Process.Kill()
	<-r.done
}
