package signals

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/shedding"
)

// SQLOptions describes an outbox or a table of jobs in PostgreSQL, or a query
// of one's own.
type SQLOptions struct {
	URL string // postgres://

	// Table of the work, Due the column with the time from which it could be
	// done, and Pending a condition on rows that are not done yet: parts of a
	// query, trusted as they are. An index on Due for the rows that are
	// Pending makes reading cheap; an index on Due alone does not.
	Table, Due, Pending string
	// MaxDepth is up to which depth rows are counted; a deeper queue counts as
	// this deep. 0: 100000.
	MaxDepth int

	// Query is used instead of all that. It gives one row, of which the
	// columns age (in seconds), depth, done and sampled_at are read, as far as
	// there are any.
	Query string

	// Timeout after which the server gives up; 0: 2 s.
	Timeout time.Duration
}

// SQL reads a queue that is a table in PostgreSQL. It measures age by the
// clock of the database, from when work was due and not from when it was
// written. Every reading is a read-only transaction of one statement, with a
// statement time-out.
type SQL struct {
	config *pgx.ConnConfig
	query  string
	limit  time.Duration
	conn   *pgx.Conn
}

// NewSQL returns a reader. It connects when it first reads.
func NewSQL(o SQLOptions) (*SQL, error) {
	config, err := pgx.ParseConfig(o.URL)
	if err != nil || o.URL == "" {
		return nil, errors.New("signals: sql: URL cannot be read, want postgres://user:password@host:port/database") // err may quote the password
	}
	// Works behind a connection pooler, too, which has no prepared statements.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	if o.MaxDepth == 0 {
		o.MaxDepth = 100000
	}
	if o.Timeout == 0 {
		o.Timeout = 2 * time.Second
	}
	if o.MaxDepth < 0 || o.Timeout < time.Millisecond {
		return nil, fmt.Errorf("signals: sql: MaxDepth is %d and Timeout is %v, want more than 0", o.MaxDepth, o.Timeout)
	}
	s := &SQL{config: config, query: o.Query, limit: o.Timeout}
	if s.query == "" {
		if o.Table == "" || o.Due == "" || o.Pending == "" {
			return nil, errors.New("signals: sql: want Table, Due and Pending, or Query")
		}
		from := fmt.Sprintf("FROM %s WHERE (%s) AND %s <= now()", o.Table, o.Pending, o.Due)
		s.query = fmt.Sprintf("SELECT coalesce(extract(epoch FROM now() - (SELECT min(%s) %s)), 0)::float8 AS age, (SELECT count(*) FROM (SELECT 1 %s LIMIT %d) work)::float8 AS depth", o.Due, from, from, o.MaxDepth)
	} else if o.Table != "" || o.Due != "" || o.Pending != "" {
		return nil, errors.New("signals: sql: want either Query or Table, Due and Pending, not both")
	}
	return s, nil
}

// Read implements [Reader].
func (s *SQL) Read(ctx context.Context) (sample shedding.Sample, err error) {
	if s.conn == nil {
		if s.conn, err = pgx.ConnectConfig(ctx, s.config); err != nil {
			return sample, fmt.Errorf("cannot connect to %s: %w", s.config.Host, err)
		}
	}
	sample, err = s.read(ctx)
	if err != nil && s.conn != nil {
		// Whatever state it is in, a new connection is in none.
		_ = s.conn.Close(context.WithoutCancel(ctx))
		s.conn = nil
	}
	return sample, err
}

func (s *SQL) read(ctx context.Context) (shedding.Sample, error) {
	tx, err := s.conn.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
	if err != nil {
		return shedding.Sample{}, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = "+strconv.FormatInt(s.limit.Milliseconds(), 10)); err != nil {
		return shedding.Sample{}, err
	}
	rows, err := tx.Query(ctx, s.query)
	if err != nil {
		return shedding.Sample{}, err
	}
	defer rows.Close()
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return shedding.Sample{}, err
		}
		return shedding.Sample{}, errors.New("the query gave no row")
	}
	values, err := rows.Values()
	if err != nil {
		return shedding.Sample{}, err
	}
	var sample shedding.Sample
	for i, field := range rows.FieldDescriptions() {
		if err := column(&sample, field.Name, values[i]); err != nil {
			return shedding.Sample{}, fmt.Errorf("column %s: %w", field.Name, err)
		}
	}
	if rows.Next() {
		return shedding.Sample{}, errors.New("the query gave more than one row")
	}
	if err := rows.Err(); err != nil {
		return shedding.Sample{}, err
	}
	_, age := sample.Age.Get()
	if _, depth := sample.Depth.Get(); !age && !depth {
		return shedding.Sample{}, errors.New("neither age nor depth is in the row")
	}
	return sample, nil
}

// column puts a column's value where it belongs. NULL is not known.
func column(s *shedding.Sample, name string, v any) error {
	if t, ok := v.(time.Time); ok && name == "sampled_at" {
		s.At = t
		return nil
	}
	var into *shedding.Value
	switch name {
	case "age":
		into = &s.Age
	case "depth":
		into = &s.Depth
	case "done":
		into = &s.Done
	case "sampled_at":
		return errors.New("no time with a zone")
	default:
		return errors.New("unknown, want age, depth, done or sampled_at")
	}
	if v == nil {
		return nil
	}
	if n, ok := v.(driver.Valuer); ok {
		text, err := n.Value() // numeric comes as text
		if err != nil {
			return err
		}
		v = text
	}
	value, err := number(fmt.Sprint(v), 1)
	if err != nil {
		return fmt.Errorf("%v is no number", v)
	}
	*into = value
	return nil
}

// Close implements [Reader].
func (s *SQL) Close() error {
	if s.conn == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return s.conn.Close(ctx)
}
