package run

import (
	"context"
	"fmt"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"sluice/bench/origin"
	"sluice/bench/scenario"
)

// mirror keeps the origin's queue as a Redis stream: what arrives is added, what
// a worker starts is read by the group, and what is done is acknowledged, each
// within a few milliseconds. A gateway that reads the stream sees what it would
// see of real workers.
type mirror struct {
	client *goredis.Client
	stream *scenario.RedisStream
	origin *origin.Origin
	end    chan struct{}
	once   sync.Once
	done   sync.WaitGroup
	err    error

	added, read, acked int64
	unacked            []string // ids that were read, oldest first
}

// mirrorEvery is how far the stream may lag behind the queue.
const mirrorEvery = 10 * time.Millisecond

func startMirror(ctx context.Context, addr string, s *scenario.RedisStream, o *origin.Origin) (*mirror, error) {
	m := &mirror{client: goredis.NewClient(&goredis.Options{Addr: addr, PoolSize: 1}), stream: s, origin: o, end: make(chan struct{})}
	if err := m.client.XGroupCreateMkStream(ctx, s.Stream, s.Group, "0").Err(); err != nil {
		_ = m.client.Close()
		return nil, fmt.Errorf("run: %w", err)
	}
	m.done.Go(func() {
		t := time.NewTicker(mirrorEvery)
		defer t.Stop()
		for {
			select {
			case <-m.end:
				return
			case <-t.C:
				if err := m.follow(context.WithoutCancel(ctx)); err != nil {
					m.err = fmt.Errorf("run: the stream does not follow the queue: %w", err)
					return
				}
			}
		}
	})
	return m, nil
}

// follow makes the stream what the queue is now.
func (m *mirror) follow(ctx context.Context) error {
	s := m.origin.Signal()
	started := s.Completed + int64(s.InFlight)
	arrived := started + int64(s.Depth)
	if arrived > m.added {
		pipe := m.client.Pipeline()
		for ; m.added < arrived; m.added++ {
			pipe.XAdd(ctx, &goredis.XAddArgs{Stream: m.stream.Stream, Values: []string{"n", "1"}})
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
	}
	if n := started - m.read; n > 0 {
		got, err := m.client.XReadGroup(ctx, &goredis.XReadGroupArgs{
			Group: m.stream.Group, Consumer: "workers", Streams: []string{m.stream.Stream, ">"}, Count: n, Block: -1,
		}).Result()
		if err != nil {
			return err
		}
		for _, msg := range got[0].Messages {
			m.unacked = append(m.unacked, msg.ID)
			m.read++
		}
	}
	if n := min(s.Completed-m.acked, int64(len(m.unacked))); n > 0 {
		if err := m.client.XAck(ctx, m.stream.Stream, m.stream.Group, m.unacked[:n]...).Err(); err != nil {
			return err
		}
		m.unacked = m.unacked[n:]
		m.acked += n
	}
	return nil
}

// stop ends the mirror and returns what went wrong with it; a nil mirror was
// never started. It may be called again.
func (m *mirror) stop() error {
	if m == nil {
		return nil
	}
	m.once.Do(func() {
		close(m.end)
		m.done.Wait()
		_ = m.client.Close()
	})
	return m.err
}
