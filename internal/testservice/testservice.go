// Package testservice starts the real services that signals are read from, for
// tests: PostgreSQL, RabbitMQ and Prometheus, on free ports of loopback and
// with their files in the test's own folder. They end with the test. (Redis has
// a package of its own, testredis.)
//
// A test that needs a service fails where there is none, it does not skip: what
// is not tested is not known to work.
package testservice

import (
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// limit is how long a service may take to be what a test waits for. Starting
// one takes seconds, and much longer where the machine is busy.
const limit = 3 * time.Minute

// process is one running program.
type process struct {
	t      testing.TB
	name   string
	output string // file
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has
}

// launch starts a program as the given account ("": one's own), with what it
// says going to a file in dir.
func launch(t testing.TB, dir, account string, env []string, program string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: filepath.Base(program), output: filepath.Join(dir, filepath.Base(program)+".output")}
	out, err := os.OpenFile(p.output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p.cmd = exec.Command(program, args...)
	p.cmd.Dir, p.cmd.Env = dir, append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = apart(credential(t, account))
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("testservice: %v", err)
	}
	p.exited = make(chan struct{})
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait()
	}()
	t.Cleanup(p.Kill)
	return p
}

// Kill ends the program as a crash would, and what it has started with it.
func (p *process) Kill() {
	select {
	case <-p.exited:
	default:
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.exited
	}
}

// await asks until check is content. Another process cannot be waited for in
// any other way.
func (p *process) await(what string, check func() error) {
	p.t.Helper()
	var err error
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
		select {
		case <-p.exited:
			p.t.Fatalf("testservice: %s ended by itself\n%s", p.name, tail(p.output))
		default:
		}
	}
	p.t.Fatalf("testservice: %s does not %s within %v: %v\n%s", p.name, what, limit, err, tail(p.output))
}

func tail(file string) []byte {
	b, _ := os.ReadFile(file)
	return b[max(0, len(b)-4000):]
}

// credential is that of an account, if it is another than one's own: the
// services that come with an account refuse to run as root.
func credential(t testing.TB, account string) *syscall.Credential {
	t.Helper()
	if account == "" || os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup(account)
	if err != nil {
		t.Fatalf("testservice: %v; it comes with the service's package", err)
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// folder returns a folder that belongs to the account.
func folder(t testing.TB, account string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sluice-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if c := credential(t, account); c != nil {
		if err := os.Chown(dir, int(c.Uid), int(c.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// program finds an executable on the path or at one of the patterns, of which
// the last match is the newest version.
func program(t testing.TB, name, hint string, patterns ...string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, pattern := range patterns {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			slices.Sort(found)
			return found[len(found)-1]
		}
	}
	t.Fatalf("testservice: there is no %s; %s", name, hint)
	return ""
}

// FreePort returns a port of loopback that nothing listens on.
func FreePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}
