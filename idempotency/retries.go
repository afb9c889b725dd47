package idempotency

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// retries runs changes that the store did not confirm, each in its own
// goroutine, bounded in number, bytes and time.
type retries struct {
	stop chan struct{} // closed: try once more, at once, then give up

	mu     sync.Mutex
	closed bool
	count  int
	bytes  int
	wg     sync.WaitGroup
}

// Pauses between two tries of one change.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 2 * time.Second
)

// run calls try until it reports that it is done, with growing pauses, and
// givenUp if that does not happen in time. size is what try holds, in bytes.
// It reports false, having started nothing, if too much is under way.
func (r *retries) run(o *Options, size int, try func(context.Context) (done bool), givenUp func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.count >= o.MaxRetrying || r.bytes+size > o.MaxRetryingBytes {
		return false
	}
	r.count++
	r.bytes += size
	r.wg.Go(func() {
		defer func() {
			r.mu.Lock()
			r.count--
			r.bytes -= size
			r.mu.Unlock()
		}()
		ctx, cancel := context.WithTimeout(context.Background(), o.RetryFor)
		defer cancel()
		if !r.until(ctx, try) {
			givenUp()
		}
	})
	return true
}

func (r *retries) until(ctx context.Context, try func(context.Context) bool) bool {
	pause := firstRetry
	for {
		if try(ctx) {
			return true
		}
		t := time.NewTimer(time.Duration(float64(pause) * (0.5 + rand.Float64())))
		select {
		case <-t.C:
		case <-r.stop:
			t.Stop()
			return try(ctx)
		case <-ctx.Done():
			t.Stop()
			return false
		}
		pause = min(2*pause, lastRetry)
	}
}

func (r *retries) running() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

// close lets every change be tried once more and waits for that.
func (r *retries) close(ctx context.Context) error {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.stop)
	}
	r.mu.Unlock()
	done := make(chan struct{})
	go func() {
		r.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
