package signals

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sluice/shedding"
)

// Reader reads a queue. It is used by one goroutine at a time.
type Reader interface {
	// Read returns what the source says now. It returns an error, and no
	// sample, where the source does not answer, or says nothing, before ctx
	// ends. Read may be called again after an error; it then connects anew.
	Read(ctx context.Context) (shedding.Sample, error)
	// Close lets go of what Read holds. It is called once, after the last Read.
	Close() error
}

// Sink takes what was read; a [shedding.Gate] is one. It is safe for
// concurrent use.
type Sink interface {
	Observe(now time.Time, queue, signal string, s shedding.Sample) (shedding.Flaw, error)
	Fail(now time.Time, queue, signal string, cause error) error
}

var _ Sink = (*shedding.Gate)(nil)

// Source is one signal to be read.
type Source struct {
	Queue, Signal string
	Reader        Reader
	Every         time.Duration // between two readings; above 0
	// Timeout of one reading; 0: Every, but at most 5 s.
	Timeout time.Duration
}

func (s Source) timeout() time.Duration {
	if s.Timeout > 0 {
		return s.Timeout
	}
	return min(s.Every, 5*time.Second)
}

// Poller reads sources until it is stopped. Use [Start].
type Poller struct {
	stop context.CancelFunc
	done sync.WaitGroup
}

// Start reads each source at once, and then every period, and hands what it
// reads to sink.
func Start(sink Sink, sources ...Source) *Poller {
	ctx, stop := context.WithCancel(context.Background())
	p := &Poller{stop: stop}
	for _, s := range sources {
		p.done.Go(func() { poll(ctx, sink, s) })
	}
	return p
}

// Stop ends all reading and closes the readers. Nothing is handed to the sink
// after it has returned. It does not wait for readers that hang: those are
// closed when they come back.
func (p *Poller) Stop() {
	p.stop()
	p.done.Wait()
}

// answer is what one Read came to.
type answer struct {
	sample shedding.Sample
	err    error
}

var errBusy = errors.New("the reading before has not come back yet")

// poll reads one source until ctx ends.
func poll(ctx context.Context, sink Sink, s Source) {
	// One reading may be under way at a time. Its answer waits in here, so a
	// reader that hangs leaves behind one goroutine and nothing else.
	answers := make(chan answer, 1)
	hangs := false
	defer func() {
		if !hangs {
			_ = s.Reader.Close()
			return
		}
		go func() {
			<-answers
			_ = s.Reader.Close()
		}()
	}()
	tick := time.NewTicker(s.Every)
	defer tick.Stop()
	for {
		var a answer
		if hangs {
			select {
			case <-answers: // too late to be true
				hangs = false
			default:
				a.err = errBusy
			}
		}
		if !hangs {
			a, hangs = read(ctx, s, answers)
		}
		if ctx.Err() != nil {
			return
		}
		deliver(sink, s, a)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// read waits for one reading, for at most the source's time-out. It reports
// whether the reading is still under way.
func read(ctx context.Context, s Source, answers chan answer) (answer, bool) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout())
	go func() {
		defer cancel()
		var a answer
		defer func() {
			if p := recover(); p != nil {
				a = answer{err: fmt.Errorf("the reader panicked: %v", p)}
			}
			answers <- a
		}()
		a.sample, a.err = s.Reader.Read(ctx)
	}()
	select {
	case a := <-answers:
		return a, false
	case <-ctx.Done():
	}
	// A reader that heeds its context comes back right away.
	grace := time.NewTimer(min(s.timeout(), 100*time.Millisecond))
	defer grace.Stop()
	select {
	case a := <-answers:
		if a.err == nil {
			return a, false
		}
		return answer{err: fmt.Errorf("no answer within %v: %w", s.timeout(), a.err)}, false
	case <-grace.C:
		return answer{err: fmt.Errorf("no answer within %v", s.timeout())}, true
	}
}

func deliver(sink Sink, s Source, a answer) {
	now := time.Now()
	if a.err != nil {
		_ = sink.Fail(now, s.Queue, s.Signal, a.err)
		return
	}
	_, _ = sink.Observe(now, s.Queue, s.Signal, a.sample)
}
