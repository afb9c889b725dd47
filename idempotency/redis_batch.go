package idempotency

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// batcher sends the commands of many concurrent callers in few round trips.
//
// Up to lanes exchanges with Redis are under way at a time. A caller that finds
// a lane free sends its command at once, by itself: with little load nothing is
// gained by waiting, so nobody waits. Others queue up, and whoever ends an
// exchange passes its lane to the first of them, who sends the commands of all
// that have queued as one pipeline. The busier Redis is, the larger the batches
// become, without a timer or a goroutine.
type batcher struct {
	client  redis.UniversalClient
	timeout time.Duration

	mu    sync.Mutex
	free  int // lanes; negative: no limit, every caller sends for itself
	queue []*queued
}

// queued is one command on its way into a batch.
type queued struct {
	cmd   *redis.Cmd
	taken bool           // into a batch
	leads bool           // and is to send it
	wake  chan []*queued // the batch to send, for a leader; nil when the command is done
}

const (
	batchLanes = 4
	maxBatch   = 128
)

// init readies b. In a cluster one batch would go to several servers and be as
// late as the latest, so commands are sent one by one there.
func (b *batcher) init(client redis.UniversalClient, timeout time.Duration) {
	b.client, b.timeout, b.free = client, timeout, batchLanes
	if _, cluster := client.(*redis.ClusterClient); cluster {
		b.free = -1
	}
}

// process sends cmd and returns its error. When ctx is over it returns early;
// whether the command is executed is then unknown, and cmd must not be used.
func (b *batcher) process(ctx context.Context, cmd *redis.Cmd) error {
	b.mu.Lock()
	if b.free != 0 {
		if b.free > 0 {
			b.free--
			defer b.passOn()
		}
		b.mu.Unlock()
		return b.client.Process(ctx, cmd)
	}
	q := &queued{cmd: cmd, wake: make(chan []*queued, 1)}
	b.queue = append(b.queue, q)
	b.mu.Unlock()
	select {
	case batch := <-q.wake:
		if batch != nil {
			b.send(batch)
		}
		return cmd.Err()
	case <-ctx.Done():
		if b.leave(q) {
			b.send(<-q.wake)
		}
		return ctx.Err()
	}
}

// leave takes a caller that gives up out of the queue. It reports true if that
// is too late because the others count on it to send the batch.
func (b *batcher) leave(q *queued) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if q.taken {
		return q.leads
	}
	for i := range b.queue {
		if b.queue[i] == q {
			b.queue = append(b.queue[:i], b.queue[i+1:]...)
			break
		}
	}
	return false
}

// send sends a batch on the lane that was passed on with it. It has a time limit
// of its own: that the caller who happens to lead gives up is nothing to the
// others.
func (b *batcher) send(batch []*queued) {
	defer b.passOn()
	defer func() {
		for _, q := range batch[1:] {
			q.wake <- nil
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), b.timeout)
	defer cancel()
	if len(batch) == 1 {
		b.client.Process(ctx, batch[0].cmd)
		return
	}
	p := b.client.Pipeline()
	for _, q := range batch {
		p.Process(ctx, q.cmd)
	}
	p.Exec(ctx) // each command has its own error
}

// passOn hands the lane to those who wait, or frees it.
func (b *batcher) passOn() {
	b.mu.Lock()
	n := min(len(b.queue), maxBatch)
	if n == 0 {
		b.free++
		b.mu.Unlock()
		return
	}
	batch := make([]*queued, n)
	copy(batch, b.queue)
	b.queue = append(b.queue[:0], b.queue[n:]...)
	for _, q := range batch {
		q.taken = true
	}
	batch[0].leads = true
	b.mu.Unlock()
	batch[0].wake <- batch
}
