// Package testredis starts real Redis servers for tests: one, a cluster of
// three, or a master watched by Sentinels, on free ports of loopback and with
// their files in the test's own folder. They end with the test.
//
// A test that needs Redis fails where there is none, it does not skip: what is
// not tested is not known to work.
package testredis

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/internal/testservice"
)

// Server is one running redis-server.
type Server struct {
	Addr string

	t       testing.TB
	args    []string
	dir     string
	process *exec.Cmd
	output  string // file
}

// limit is how long a server may take to be what a test waits for.
const limit = 20 * time.Second

// Start starts a server that evicts nothing and persists every write, plus
// args, each an option of redis-server with its values.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := prepare(t, append([]string{"--appendonly", "yes", "--appendfsync", "always"}, args...))
	s.run()
	return s
}

func prepare(t testing.TB, args []string) *Server {
	t.Helper()
	port := testservice.FreePort(t)
	dir := t.TempDir()
	s := &Server{
		Addr:   net.JoinHostPort("127.0.0.1", port),
		t:      t,
		dir:    dir,
		output: filepath.Join(dir, "output"),
		args: append([]string{
			"--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", "",
			"--maxmemory-policy", "noeviction", "--loglevel", "warning",
		}, args...),
	}
	t.Cleanup(s.Kill)
	return s
}

// run starts the server and waits until it answers.
func (s *Server) run() {
	s.t.Helper()
	s.launch("redis-server", s.args...)
	s.await("answer", func() error {
		reply, err := s.Do("PING")
		if err == nil && reply != "PONG" {
			err = errors.New(reply)
		}
		return err
	})
}

func (s *Server) launch(program string, args ...string) {
	s.t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		s.t.Fatalf("testredis: %v; install Redis 7 or newer (Debian, Ubuntu: apt-get install redis-server redis-sentinel)", err)
	}
	out, err := os.OpenFile(s.output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer out.Close()
	s.process = exec.Command(path, args...)
	s.process.Stdout, s.process.Stderr = out, out
	s.process.SysProcAttr = endWithTest()
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
}

// Kill ends the server as a crash would.
func (s *Server) Kill() {
	if s.process == nil {
		return
	}
	s.process.Process.Kill()
	s.process.Wait()
	s.process = nil
}

// Restart starts a server that was killed again, with the same address and
// files.
func (s *Server) Restart() {
	s.t.Helper()
	s.run()
}

// Do sends one command on a connection of its own and returns the reply as
// text, bulk strings and integers alike. An error reply is an error.
func (s *Server) Do(args ...string) (string, error) {
	c, err := net.DialTimeout("tcp", s.Addr, time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	request := fmt.Sprintf("*%d\r\n", len(args))
	for _, a := range args {
		request += fmt.Sprintf("$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(c, request); err != nil {
		return "", err
	}
	return readReply(bufio.NewReader(c))
}

func readReply(in *bufio.Reader) (string, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\r\n")
	switch kind, rest := line[0], line[1:]; kind {
	case '+', ':':
		return rest, nil
	case '-':
		return "", errors.New(rest)
	case '$', '*':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 {
			return "", err
		}
		if kind == '$' {
			b := make([]byte, n+2)
			_, err = io.ReadFull(in, b)
			return string(b[:n]), err
		}
		items := make([]string, n)
		for i := range items {
			if items[i], err = readReply(in); err != nil {
				return "", err
			}
		}
		return strings.Join(items, " "), nil
	}
	return "", fmt.Errorf("testredis: unexpected reply %q", line)
}

// Must is Do for commands that cannot fail.
func (s *Server) Must(args ...string) string {
	s.t.Helper()
	reply, err := s.Do(args...)
	if err != nil {
		s.t.Fatalf("testredis: %v: %v", args, err)
	}
	return reply
}

// await asks until check is content. Another process cannot be waited for in
// any other way.
func (s *Server) await(what string, check func() error) {
	s.t.Helper()
	var err error
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	log, _ := os.ReadFile(s.output)
	s.t.Fatalf("testredis: %s does not %s within %v: %v\n%s", s.Addr, what, limit, err, log)
}
