package idempotency

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// batcher sends the commands of many concurrent callers in few round trips.
//
// Who finds no batch being gathered begins one and leads it: waits for a lane,
// lets everybody join who can run by then, sends all their commands as one
// pipeline and tells them when it is answered. A lane is one exchange with Redis
// under way. With little load nobody can run besides the leader, and nobody
// waits; the busier gateway or Redis is, the larger the batches become.
//
// How many lanes there are follows from the time that the way to Redis takes. Near
// a quick server a few large batches cost both ends the least. Far from it they
// would make a command wait for a batch to come back before it can even be sent;
// so there are more lanes then, and batches leave in even steps.
type batcher struct {
	client  redis.UniversalClient
	timeout time.Duration
	cluster bool // commands are sent one by one
	max     int  // lanes, at most
	joining joining

	mu      sync.Mutex
	open    *batch          // being gathered; nil: none
	busy    int             // lanes
	waiting []chan struct{} // leaders that wait for a lane, the first first
	way     wayTime
	next    time.Time // before which no batch leaves
}

// batch is what is sent at once.
type batch struct {
	commands []*command
	bytes    int
	deadline time.Time     // of its leader, who came first: nobody's is earlier
	done     chan struct{} // closed when every command has its reply or error
}

const (
	nearLanes     = 4 // lanes where the way to Redis takes no time
	maxBatch      = 256
	maxBatchBytes = 1 << 20
)

// init readies b. In a cluster one batch would go to several servers and be as
// late as the latest, so commands are sent one by one there.
func (b *batcher) init(client redis.UniversalClient, timeout time.Duration, connections int) {
	b.client, b.timeout, b.max = client, timeout, connections
	_, b.cluster = client.(*redis.ClusterClient)
}

// process sends c and returns its reply. When ctx is over it returns early, with
// gone: whether the command is executed is then unknown, and c must not be
// touched again. It takes no longer than the store's timeout.
func (b *batcher) process(ctx context.Context, c *command) (reply any, gone bool, err error) {
	deadline := time.Now().Add(b.timeout)
	if b.cluster {
		ctx, cancel := context.WithDeadline(ctx, deadline)
		defer cancel()
		_ = b.client.Process(ctx, c.cmd) // which has its error
		reply, err = c.reply()
		return reply, false, err
	}
	b.mu.Lock()
	into := b.open
	leads := into == nil
	if leads {
		into = &batch{deadline: deadline, done: make(chan struct{})}
		b.open = into
	}
	into.commands = append(into.commands, c)
	into.bytes += len(c.record)
	if len(into.commands) == maxBatch || into.bytes >= maxBatchBytes {
		b.open = nil // full: the next to come begins another
	}
	b.mu.Unlock()
	if ctx.Done() == nil { // as it is on a request's way
		if leads {
			b.lead(into)
		} else {
			<-into.done
		}
		reply, err = c.reply()
		return reply, false, err
	}
	if leads {
		go b.lead(into) // others count on it, even if this caller gives up
	}
	select {
	case <-into.done:
		reply, err = c.reply()
		return reply, false, err
	case <-ctx.Done():
		b.mu.Lock()
		c.gone = true
		b.mu.Unlock()
		return nil, true, ctx.Err()
	}
}

// lead sees a batch through.
func (b *batcher) lead(it *batch) {
	defer close(it.done)
	start, err := b.enter(it.deadline)
	if err != nil {
		for _, c := range b.close(it) {
			c.cmd.SetErr(err)
		}
		return
	}
	defer b.leave()
	// Whoever can run now may have something to send as well.
	runtime.Gosched()
	if pause := time.Until(start); pause > 0 {
		time.Sleep(pause)
	}
	commands := b.close(it)
	if len(commands) == 0 {
		return // all have given up
	}
	ctx, cancel := context.WithDeadline(context.Background(), it.deadline)
	defer cancel()
	cmds, settles, asked := b.arrange(commands)
	pipe := b.client.Pipeline()
	pipe.BatchProcess(ctx, cmds...)
	sent := time.Now()
	_, err = pipe.Exec(ctx) // the first command's; each has its own
	if settles != nil {
		b.joining.refused(settles.call.Err())
		settles.share()
	}
	if asked != nil {
		b.joining.heard(asked)
	}
	if err == nil || err == redis.Nil {
		b.took(time.Since(sent))
	}
}

// close ends the gathering of it, and returns the commands of those who still
// wait for them.
func (b *batcher) close(it *batch) []*command {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == it {
		b.open = nil
	}
	n := 0
	for _, c := range it.commands {
		if !c.gone {
			it.commands[n] = c
			n++
		}
	}
	return it.commands[:n]
}

var errNoLane = errors.New("every exchange with the server takes too long")

// enter takes a lane, and returns when the batch may leave.
func (b *batcher) enter(deadline time.Time) (start time.Time, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busy >= b.lanesLocked() || len(b.waiting) > 0 {
		turn := make(chan struct{})
		b.waiting = append(b.waiting, turn)
		b.mu.Unlock()
		t := time.NewTimer(time.Until(deadline))
		defer t.Stop()
		select {
		case <-turn:
			b.mu.Lock() // the lane has been taken for this caller
		case <-t.C:
			b.mu.Lock()
			if b.forgetLocked(turn) {
				return time.Time{}, errNoLane
			}
		}
	} else {
		b.busy++
	}
	now := time.Now()
	if now.Before(b.next) {
		start = b.next
	} else {
		b.next = now
	}
	b.next = b.next.Add(b.stepLocked())
	return start, nil
}

// forgetLocked removes a leader that waits no longer. It reports false if it has
// been given a lane meanwhile.
func (b *batcher) forgetLocked(turn chan struct{}) bool {
	for i := range b.waiting {
		if b.waiting[i] == turn {
			b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// leave gives a lane back, to those who wait for one.
func (b *batcher) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy--
	for len(b.waiting) > 0 && b.busy < b.lanesLocked() {
		b.busy++
		close(b.waiting[0])
		b.waiting = append(b.waiting[:0], b.waiting[1:]...)
	}
}

// took notes how long an exchange took.
func (b *batcher) took(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.way.add(d, time.Now())
}

// lanesLocked is how many exchanges may be under way at a time.
func (b *batcher) lanesLocked() int {
	return min(nearLanes+int(b.way.least()/time.Millisecond), b.max)
}

// stepLocked is the pause between two batches that makes the lanes last until the
// first is free again. A pause that no timer can keep is none.
func (b *batcher) stepLocked() time.Duration {
	if step := b.way.least() / time.Duration(b.lanesLocked()); step >= time.Millisecond/2 {
		return step
	}
	return 0
}

// wayTime is the least time that an exchange took lately: that of the way there
// and back, without what load adds to it. The zero value knows of none.
type wayTime struct {
	now, before time.Duration // least of this span and of the last; 0: none
	until       time.Time     // end of this span
}

const waySpan = 5 * time.Second

func (w *wayTime) add(d time.Duration, now time.Time) {
	if now.After(w.until) {
		w.before, w.now, w.until = w.now, 0, now.Add(waySpan)
	}
	if w.now == 0 || d < w.now {
		w.now = max(d, 1)
	}
}

func (w *wayTime) least() time.Duration {
	if w.before == 0 || w.now != 0 && w.now < w.before {
		return w.now
	}
	return w.before
}
