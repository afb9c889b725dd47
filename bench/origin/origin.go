// Package origin simulates an API that publishes work to a queue, and keeps the
// ledger of what was really recorded and done.
//
// # The model
//
// A request that publishes passes three places. The API holds at most
// Options.Concurrency of them at once and takes Options.Answer to answer each;
// others wait. It then records the work in the ledger, appends it to the queue
// and answers 202. Workers take work from the queue in order and spend
// Options.Work on each piece. A queue with w workers and a mean of m per piece
// of work serves w/m pieces a second, so [Rate] gives a distribution for a
// wanted rate.
//
// The ledger says what happened: once per recorded publication, whoever sent it
// and whatever the client was told. That makes it the judge of "exactly once"
// and of "accepted means done". The queue's state is told as JSON and as an
// answer header field, as a gateway would read it.
//
// Workers can be paused, resumed and scaled, and faults set, while the origin
// runs.
package origin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"sluice/bench/dist"
)

// Options of an origin. The zero value is one worker that does all work at
// once, on a free port of the loopback interface.
type Options struct {
	// Addr to listen on; "" is a free port of 127.0.0.1.
	Addr string
	// Seed of everything random: the same seed gives the same service times and
	// the same faults, in the order in which requests arrive.
	Seed uint64
	// Answer is how long the API takes to answer a publication.
	Answer dist.Distribution
	// Concurrency is how many publications the API handles at once; further ones
	// wait. 0 is no limit.
	Concurrency int
	// Workers that serve the queue; 0 is 1.
	Workers int
	// Work is how long a worker takes for one piece of work.
	Work dist.Distribution
	// MaxDepth is how much work may wait; publications beyond are answered 503
	// and not recorded. 0 is a million.
	MaxDepth int
	// Remember is how many entries the ledger remembers; 0 is 1<<17.
	Remember int
	// Faults from the start.
	Faults Faults
}

// Rate is the time that each of workers has to spend on a piece of work for all
// of them together to do perSecond.
func Rate(perSecond float64, workers int) dist.Distribution {
	return dist.Const(time.Duration(float64(workers) / perSecond * float64(time.Second)))
}

// Origin is a running simulator. All methods are safe for concurrent use.
type Origin struct {
	opts     Options
	server   *fasthttp.Server
	listener net.Listener
	queue    *queue
	ledger   *Ledger
	slots    chan struct{}
	served   chan error
	stop     chan struct{}
	ticker   sync.WaitGroup
	closing  sync.Once
	closed   error

	faults atomic.Pointer[faultState]
	frozen atomic.Pointer[Signal] // the state last told before the signal froze

	randMu sync.Mutex
	rand   *rand.Rand

	failed, reads atomic.Int64
}

// faultState is a set of faults and the channel that closes when it is over.
type faultState struct {
	Faults
	over chan struct{}
}

// Start checks the options, listens and serves. The caller must Close.
func Start(opts Options) (*Origin, error) {
	if opts.Addr == "" {
		opts.Addr = "127.0.0.1:0"
	}
	if opts.Workers == 0 {
		opts.Workers = 1
	}
	if opts.MaxDepth == 0 {
		opts.MaxDepth = 1_000_000
	}
	if opts.Remember == 0 {
		opts.Remember = 1 << 17
	}
	switch {
	case opts.Workers < 0 || opts.Concurrency < 0 || opts.MaxDepth < 0 || opts.Remember < 0:
		return nil, errors.New("origin: workers, concurrency, max depth and remember must not be negative")
	}
	if err := errors.Join(opts.Answer.Check(), opts.Work.Check(), opts.Faults.check()); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", opts.Addr)
	if err != nil {
		return nil, fmt.Errorf("origin: %w", err)
	}
	o := &Origin{
		opts:     opts,
		listener: l,
		ledger:   newLedger(opts.Remember),
		rand:     rand.New(rand.NewPCG(opts.Seed, 2)),
		served:   make(chan error, 1),
		stop:     make(chan struct{}),
	}
	o.queue = newQueue(opts.Workers, opts.Work, opts.Seed, time.Now(), o.ledger.done)
	if opts.Concurrency > 0 {
		o.slots = make(chan struct{}, opts.Concurrency)
	}
	o.faults.Store(&faultState{opts.Faults, make(chan struct{})})
	o.server = &fasthttp.Server{
		Handler:                      o.handle,
		Name:                         "origin",
		DisablePreParseMultipartForm: true,
		MaxRequestBodySize:           16 << 20,
		ReadBufferSize:               32 << 10,
		IdleTimeout:                  2 * time.Minute,
		CloseOnShutdown:              true,
		Logger:                       log.New(io.Discard, "", 0),
	}
	go func() { o.served <- o.server.Serve(l) }()
	o.ticker.Go(o.tick)
	return o, nil
}

// tick settles work in time even when nobody asks.
func (o *Origin) tick() {
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case now := <-t.C:
			o.queue.advance(now)
		case <-o.stop:
			return
		}
	}
}

// Addr is the address that the origin listens on.
func (o *Origin) Addr() string { return o.listener.Addr().String() }

// URL is the origin's base URL.
func (o *Origin) URL() string { return "http://" + o.Addr() }

// Close ends all faults, finishes running requests and stops. The ledger stays
// readable.
func (o *Origin) Close() error {
	o.closing.Do(func() {
		_ = o.SetFaults(Faults{})
		ctx, cancel := context.WithTimeout(context.Background(), 6*time.Second)
		defer cancel()
		o.closed = o.server.ShutdownWithContext(ctx)
		close(o.stop)
		o.ticker.Wait()
		o.queue.advance(time.Now())
		// A server that has not got round to serving does not know its listener
		// yet, and so has not closed it.
		_ = o.listener.Close()
		if err := <-o.served; o.closed == nil && !errors.Is(err, net.ErrClosed) {
			o.closed = err
		}
	})
	return o.closed
}

// Ledger of what was recorded and done.
func (o *Origin) Ledger() *Ledger { return o.ledger }

// Signal is the true state of the queue, whatever the signal fault says.
func (o *Origin) Signal() Signal { return o.queue.state(time.Now()) }

// Pause stops the workers from starting work: an outage behind the API.
func (o *Origin) Pause() { o.queue.pause(time.Now(), true) }

// Resume ends a pause.
func (o *Origin) Resume() { o.queue.pause(time.Now(), false) }

// Scale changes the number of workers; those that leave finish their work.
func (o *Origin) Scale(workers int) { o.queue.scale(time.Now(), max(0, workers)) }

// SetWork changes how long work takes that starts from now on.
func (o *Origin) SetWork(d dist.Distribution) error {
	if err := d.Check(); err != nil {
		return err
	}
	o.queue.setWork(time.Now(), d)
	return nil
}

// Poison makes the next n pieces of work get stuck at the head of the queue
// while workers go on with what is behind them: the oldest age grows though
// work gets done.
func (o *Origin) Poison(n int) { o.queue.poisonNext(n) }

// Cure lets stuck work be done.
func (o *Origin) Cure() { o.queue.cure(time.Now()) }

// SetFaults replaces the faults in force. Requests held by a stall go on.
func (o *Origin) SetFaults(f Faults) error {
	if err := f.check(); err != nil {
		return err
	}
	if f.Signal == SignalFrozen {
		s := o.Signal()
		o.frozen.Store(&s)
	}
	old := o.faults.Swap(&faultState{f, make(chan struct{})})
	close(old.over)
	return nil
}

// Faults in force.
func (o *Origin) Faults() Faults { return o.faults.Load().Faults }

// Failed is how many publications were answered with an error by a fault or a
// full queue; nothing was recorded for them.
func (o *Origin) Failed() int64 { return o.failed.Load() }

// Reads is how many requests did not publish (GET and HEAD).
func (o *Origin) Reads() int64 { return o.reads.Load() }

// draw returns a service time and a uniform number for one request.
func (o *Origin) draw() (time.Duration, float64) {
	o.randMu.Lock()
	defer o.randMu.Unlock()
	return o.opts.Answer.Sample(o.rand), o.rand.Float64()
}
