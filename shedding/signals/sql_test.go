package signals

import (
	"context"
	"strings"
	"testing"
	"time"

	"sluice/internal/testservice"
)

func TestSQL(t *testing.T) {
	server := testservice.StartPostgreSQL(t)
	server.Exec(
		`CREATE TABLE outbox (id bigserial PRIMARY KEY, due_at timestamptz NOT NULL, done_at timestamptz)`,
		`CREATE INDEX ON outbox (due_at) WHERE done_at IS NULL`,
	)
	table := SQLOptions{URL: server.URL, Table: "outbox", Due: "due_at", Pending: "done_at IS NULL", MaxDepth: 5}
	r, err := NewSQL(table)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, r)
	s := readOnce(t, r)
	near(t, "age of an empty table", s.Age, 0, 0)
	near(t, "depth of an empty table", s.Depth, 0, 0)

	server.Exec(
		`INSERT INTO outbox (due_at, done_at) VALUES (now() - interval '1 day', now())`,
		`INSERT INTO outbox (due_at) VALUES (now() + interval '1 hour')`,
	)
	near(t, "age of what is done or not yet due", readOnce(t, r).Age, 0, 0)
	server.Exec(`INSERT INTO outbox (due_at) SELECT now() - interval '90 seconds' FROM generate_series(1, 3)`)
	s = readOnce(t, r)
	near(t, "age", s.Age, 105, 15)
	near(t, "depth", s.Depth, 3, 0)
	server.Exec(`INSERT INTO outbox (due_at) SELECT now() FROM generate_series(1, 100)`)
	near(t, "depth beyond what is counted", readOnce(t, r).Depth, 5, 0)

	t.Run("own query", func(t *testing.T) {
		own := func(query string) *SQL {
			r, err := NewSQL(SQLOptions{URL: server.URL, Query: query, Timeout: 500 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			closing(t, r)
			return r
		}
		s := readOnce(t, own(`SELECT 1.5::numeric AS age, NULL::bigint AS depth, 7 AS done, now() AS sampled_at`))
		near(t, "age", s.Age, 1.5, 0)
		unknown(t, "depth", s.Depth)
		near(t, "done", s.Done, 7, 0)
		if d := time.Since(s.At); d < -time.Second || d > time.Minute {
			t.Errorf("sampled %v ago", d)
		}
		for query, want := range map[string]string{
			`SELECT 1 AS lag`:                       "unknown",
			`SELECT 'x' AS age`:                     "no number",
			`SELECT NULL::float8 AS age`:            "neither",
			`SELECT 1 AS age WHERE false`:           "no row",
			`SELECT 1 AS age UNION ALL SELECT 2`:    "more than one",
			`SELECT pg_sleep(60), 1 AS age`:         "statement timeout",
			`DELETE FROM outbox RETURNING 1 AS age`: "read-only",
			`SELECT 1 AS age; SELECT 2 AS age`:      "multiple commands",
			`SELECT nonsense`:                       "nonsense",
		} {
			r := own(query)
			if err := readError(t, r); !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want one with %q", query, err, want)
			}
		}
	})

	t.Run("restart", func(t *testing.T) {
		server.Kill()
		if err := readError(t, r); err == nil {
			t.Error("no error from a dead server")
		}
		server.Restart()
		near(t, "depth", readAgain(t, r).Depth, 5, 0)
	})

	t.Run("time-out", func(t *testing.T) {
		slow, err := NewSQL(SQLOptions{URL: server.URL, Query: "SELECT pg_sleep(60), 1 AS age", Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		closing(t, slow)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		began := time.Now()
		if _, err := slow.Read(ctx); err == nil || time.Since(began) > 20*time.Second {
			t.Errorf("error %v after %v", err, time.Since(began))
		}
	})
}

func TestSQLOptions(t *testing.T) {
	for name, o := range map[string]SQLOptions{
		"no URL":  {Query: "SELECT 1"},
		"bad URL": {URL: "postgres://u:hunter2@h:port/db", Query: "SELECT 1"},
		"nothing": {URL: "postgres://h/db"},
		"half":    {URL: "postgres://h/db", Table: "t", Due: "d"},
		"both":    {URL: "postgres://h/db", Query: "SELECT 1", Table: "t"},
		"depth":   {URL: "postgres://h/db", Query: "SELECT 1", MaxDepth: -1},
	} {
		if _, err := NewSQL(o); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}
