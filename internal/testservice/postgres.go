package testservice

import (
	"context"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// PostgreSQL is a running server.
type PostgreSQL struct {
	*process
	URL string // of the superuser; no password is needed

	start func() *process
}

const postgresHint = "install PostgreSQL 13 or newer (Debian, Ubuntu: apt-get install postgresql)"

// StartPostgreSQL starts an empty server.
func StartPostgreSQL(t testing.TB) *PostgreSQL {
	t.Helper()
	const account = "postgres"
	initdb := program(t, "initdb", postgresHint, "/usr/lib/postgresql/*/bin/initdb")
	server := program(t, "postgres", postgresHint, "/usr/lib/postgresql/*/bin/postgres")
	dir, port := folder(t, account), FreePort(t)
	data := filepath.Join(dir, "data")
	cmd := exec.Command(initdb, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	cmd.Dir, cmd.SysProcAttr = dir, apart(credential(t, account))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("testservice: initdb: %v\n%s", err, out)
	}
	p := &PostgreSQL{URL: "postgres://postgres@127.0.0.1:" + port + "/postgres?sslmode=disable"}
	p.start = func() *process {
		s := launch(t, dir, account, nil, server, "-D", data, "-p", port, "-h", "127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off")
		s.await("answer", func() error {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			c, err := pgx.Connect(ctx, p.URL)
			if err != nil {
				return err
			}
			return c.Close(ctx)
		})
		return s
	}
	p.process = p.start()
	t.Cleanup(p.Kill) // before that of the process
	return p
}

// Kill ends the server at once, connections and all. Its children are in process
// groups of their own and would outlive a crash by a moment, in which no other
// server may have the data; so it is asked to take them along.
func (p *PostgreSQL) Kill() {
	_ = p.cmd.Process.Signal(syscall.SIGQUIT)
	<-p.exited
}

// Restart starts a server that was killed again, with the same address and
// data.
func (p *PostgreSQL) Restart() { p.process = p.start() }

// Exec runs statements on a connection of its own.
func (p *PostgreSQL) Exec(statements ...string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c, err := pgx.Connect(ctx, p.URL)
	if err != nil {
		p.t.Fatal(err)
	}
	defer c.Close(ctx)
	for _, s := range statements {
		if _, err := c.Exec(ctx, s); err != nil {
			p.t.Fatalf("testservice: %s: %v", s, err)
		}
	}
}
