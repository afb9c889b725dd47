package idempotency

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// Memory keeps records in this process. It suits one gateway: others do not
// see them. Without a journal a restart forgets everything.
//
// Records are kept as bytes, as the journal has them, so that what they hold
// is known exactly and bodies stay compressed.
type Memory struct {
	codec   *Codec
	max     int64
	used    atomic.Int64
	shards  [memoryShards]memoryShard
	journal *journal // nil: none
}

// MemoryOptions configures a Memory.
type MemoryOptions struct {
	// MaxBytes bounds what the records hold. When it is reached, answered
	// records lose their bodies, oldest first; when that does not help, new
	// claims fail with ErrFull. Running records, records in doubt and
	// tombstones are never dropped before their retention is over. Zero means
	// 256 MiB.
	MaxBytes int64
	// Journal is the file in which every change is recorded, so that a restart
	// forgets nothing. Empty: none. One process uses it at a time.
	Journal string
	// Sync says when the journal is written through to the disk.
	Sync Sync
}

// NewMemory returns a memory store, with what its journal holds.
func NewMemory(codec *Codec, o MemoryOptions) (*Memory, error) {
	m := &Memory{codec: codec, max: o.MaxBytes}
	switch {
	case o.MaxBytes == 0:
		m.max = 256 << 20
	case o.MaxBytes < minMemory:
		return nil, fmt.Errorf("idempotency: memory store: max_bytes is %d; give it at least %d", o.MaxBytes, minMemory)
	}
	for i := range m.shards {
		m.shards[i].entries = map[string]*entry{}
	}
	if o.Journal == "" {
		return m, nil
	}
	var err error
	m.journal, err = openJournal(o.Journal, o.Sync, m)
	if err != nil {
		return nil, fmt.Errorf("idempotency: memory store: %w", err)
	}
	return m, nil
}

const minMemory = 64 << 10

// Close closes the journal.
func (m *Memory) Close() error {
	if m.journal == nil {
		return nil
	}
	return m.journal.close()
}

// Claim implements [Store].
func (m *Memory) Claim(ctx context.Context, name string, r *Record) (*Reading, error) {
	value := m.codec.encode(name, r)
	full := !m.makeRoom(entrySize(name, value))
	var found *Reading
	err := m.change(ctx, name, func(old *Record, left time.Duration) ([]byte, verb, error) {
		switch {
		case old != nil:
			found = &Reading{old, left}
			return nil, leave, nil
		case full:
			return nil, leave, ErrFull
		}
		return value, put, nil
	})
	return found, err
}

// Read implements [Store].
func (m *Memory) Read(ctx context.Context, name string) (r Reading, err error) {
	err = m.change(ctx, name, func(old *Record, left time.Duration) ([]byte, verb, error) {
		r = Reading{old, left}
		return nil, leave, nil
	})
	return r, err
}

// Lapse implements [Store].
func (m *Memory) Lapse(ctx context.Context, name string, of Owner, next *Record) (r Reading, err error) {
	value := m.codec.encode(name, next)
	err = m.change(ctx, name, func(old *Record, left time.Duration) ([]byte, verb, error) {
		if mayLapse(old, left, of, next) != apply {
			r = Reading{old, left}
			return nil, leave, nil
		}
		r = Reading{next, next.Retention}
		return value, put, nil
	})
	return r, err
}

// Settle implements [Store].
func (m *Memory) Settle(ctx context.Context, name string, of Owner, next *Record) error {
	value := m.codec.encode(name, next)
	if next.State == Completed && !m.makeRoom(int64(len(value))) {
		next = bodiless(next)
		value = m.codec.encode(name, next)
	}
	return m.change(ctx, name, func(old *Record, _ time.Duration) ([]byte, verb, error) {
		switch maySettle(old, of, next) {
		case apply:
			return value, put, nil
		case already:
			return nil, leave, nil
		}
		return nil, leave, ErrLost
	})
}

// bodiless is a completed record as a tombstone.
func bodiless(r *Record) *Record {
	t := *r
	t.State = Tombstone
	t.Answer = r.Answer.withoutBody()
	return &t
}

// Release implements [Store].
func (m *Memory) Release(ctx context.Context, name string, of Owner, answered bool) error {
	return m.change(ctx, name, func(old *Record, _ time.Duration) ([]byte, verb, error) {
		switch mayRelease(old, of, answered) {
		case apply:
			return nil, remove, nil
		case already:
			return nil, leave, nil
		}
		return nil, leave, ErrLost
	})
}

// verb is what a change does to a record.
type verb uint8

const (
	leave verb = iota
	put
	remove
)

// change lets decide look at a record and changes it as decide says, in one
// step. With a journal it returns once the journal has it.
func (m *Memory) change(ctx context.Context, name string, decide func(old *Record, left time.Duration) ([]byte, verb, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	written, err := m.changeLocked(name, decide)
	if err != nil || written == 0 {
		return err
	}
	return m.journal.await(written)
}

func (m *Memory) changeLocked(name string, decide func(old *Record, left time.Duration) ([]byte, verb, error)) (written int64, err error) {
	s := m.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	m.used.Add(-s.expire(now, 4))

	var old *Record
	var left time.Duration
	e := s.entries[name]
	if e != nil {
		// Rounded down like Redis does it, so that both stores agree on lapses.
		left = e.expires.Sub(now).Truncate(time.Millisecond)
		if old, err = m.codec.decode(name, e.value); err != nil {
			return 0, err
		}
	}
	value, do, err := decide(old, left)
	if err != nil || do == leave {
		return 0, err
	}
	expires := now
	if do == put {
		expires = now.Add(retentionOf(value))
	}
	if m.journal != nil {
		if written, err = m.journal.append(name, value, expires); err != nil {
			return 0, err
		}
	}
	if do == put {
		m.used.Add(s.put(name, value, expires))
	} else {
		m.used.Add(-s.remove(e))
	}
	return written, nil
}

// makeRoom reports whether need more bytes fit, after dropping what may be
// dropped.
func (m *Memory) makeRoom(need int64) bool {
	if m.used.Load()+need <= m.max {
		return true
	}
	now := time.Now()
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		m.used.Add(-s.expire(now, len(s.entries)))
		s.mu.Unlock()
	}
	// Oldest first within each shard, and shards in turns, is close enough to
	// oldest first.
	for progress := true; progress && m.used.Load()+need > m.max; {
		progress = false
		for i := range m.shards {
			s := &m.shards[i]
			s.mu.Lock()
			freed := s.shrinkOldest(m.codec)
			s.mu.Unlock()
			m.used.Add(-freed)
			progress = progress || freed > 0
		}
	}
	return m.used.Load()+need <= m.max
}

// Used returns how many records are kept and what they hold.
func (m *Memory) Used() (records int, bytes int64) {
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		records += len(s.entries)
		s.mu.Unlock()
	}
	return records, m.used.Load()
}
