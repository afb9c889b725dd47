//go:build unix

package chaos

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/internal/testbuffer"
)

var program string

// TestMain builds the program once: it is started hundreds of times.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "sluice-chaos")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "sluice")
		args := []string{"build", "-buildvcs=false", "-ldflags=-s -w", "-o", program}
		if os.Getenv("CHAOS_RACE") != "" {
			args = append(args, "-race")
		}
		if out, err := exec.Command("go", append(args, "sluice")...).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
			return 1
		}
		// Histories mostly wait, so all of them can be made at once.
		flag.Parse()
		if err := flag.Set("test.parallel", "8"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

// limit is how long a process may take to do what a test waits for, on a machine
// that is busy.
const limit = 30 * time.Second

// gateway is one place at which a gateway runs: process after process, each a
// generation.
type gateway struct {
	w      *world
	n      int
	config string // file

	busy    sync.Mutex // held by who kills, stops or replaces it
	now     atomic.Pointer[process]
	stopped atomic.Bool // by SIGSTOP; clients then come seldom
}

// process is one running gateway.
type process struct {
	cmd           *exec.Cmd
	client, admin string // addresses
	gen           int
	log           *testbuffer.Buffer
	done          chan struct{} // closed once it has ended
	err           error         // set before

	killed   atomic.Bool
	draining atomic.Bool
}

var serving = regexp.MustCompile(`msg="sluice is serving".* listen=(\S+) admin=(\S+)`)

// start starts the next generation and lets clients come to it.
func (g *gateway) start() {
	p := &process{cmd: exec.Command(program, "run", "--config", g.config), log: &testbuffer.Buffer{}, done: make(chan struct{})}
	if before := g.now.Load(); before != nil {
		p.gen = before.gen + 1
	}
	p.cmd.Stderr = p.log
	p.cmd.SysProcAttr = endWithTest()
	if err := p.cmd.Start(); err != nil {
		g.w.fatal("%v", err)
		return
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	g.w.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
	})
	for end := time.Now().Add(limit); ; {
		if m := serving.FindStringSubmatch(p.log.String()); m != nil {
			p.client, p.admin = m[1], m[2]
			break
		}
		select {
		case <-p.done:
			g.w.fatal("gateway %d ended instead of serving: %v\n%s", g.n, p.err, p.log)
			return
		case <-time.After(2 * time.Millisecond):
		}
		if time.Now().After(end) {
			g.w.fatal("gateway %d does not serve within %v\n%s", g.n, limit, p.log)
			return
		}
	}
	g.now.Store(p)
}

// kill ends the process as a crash would.
func (g *gateway) kill() {
	p := g.now.Load()
	p.killed.Store(true)
	_ = p.cmd.Process.Kill()
	<-p.done
	g.inspect(p)
}

// replace starts a new process, lets clients come to that, and ends the old one
// in good order.
func (g *gateway) replace() {
	old := g.now.Load()
	if g.w.opts.journal { // which one process has at a time
		g.end(old)
		g.start()
		return
	}
	g.start()
	g.end(old)
}

// end ends p in good order.
func (g *gateway) end(p *process) {
	p.draining.Store(true)
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		if p.err != nil {
			g.w.violate("gateway %d: SIGTERM ended it with %v\n%s", g.n, p.err, p.log)
		}
	case <-time.After(limit):
		g.w.violate("gateway %d: SIGTERM did not end it within %v\n%s", g.n, limit, p.log)
	}
	g.inspect(p)
}

// pause stops the process for d, without its knowing.
func (g *gateway) pause(d time.Duration) {
	p := g.now.Load()
	g.stopped.Store(true)
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	time.Sleep(d)
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	g.stopped.Store(false)
}

// inspect looks for what no log of a gateway may hold.
func (g *gateway) inspect(p *process) {
	log := p.log.String()
	for _, sign := range []string{"panic", "DATA RACE", "fatal error", "goroutine "} {
		if i := strings.Index(log, sign); i >= 0 {
			g.w.violate("gateway %d: its log says:\n%s", g.n, log[max(0, i-200):min(len(log), i+4000)])
			return
		}
	}
}
