package signals

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/shedding"
)

// script is a reader that plays a list of readings.
type script struct {
	mu     sync.Mutex
	plays  []func(context.Context) (shedding.Sample, error)
	calls  []time.Duration // since began
	began  time.Time
	inside int
	most   int
	closed int
}

func (s *script) Read(ctx context.Context) (shedding.Sample, error) {
	s.mu.Lock()
	i := len(s.calls)
	s.calls = append(s.calls, time.Since(s.began))
	s.inside++
	s.most = max(s.most, s.inside)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.inside--
		s.mu.Unlock()
	}()
	return s.plays[i%len(s.plays)](ctx)
}

func (s *script) Close() error { s.closed++; return nil }

// sink notes what it is given.
type sink struct {
	mu      sync.Mutex
	samples []shedding.Sample
	errs    []error
}

func (s *sink) Observe(_ time.Time, _, _ string, x shedding.Sample) (shedding.Flaw, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.samples = append(s.samples, x)
	return shedding.Sound, nil
}

func (s *sink) Fail(_ time.Time, _, _ string, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs = append(s.errs, err)
	return nil
}

func fine(context.Context) (shedding.Sample, error) {
	return shedding.Sample{Age: shedding.Known(1)}, nil
}

func polled(t *testing.T, for_ time.Duration, plays ...func(context.Context) (shedding.Sample, error)) (*script, *sink) {
	t.Helper()
	r, k := &script{plays: plays, began: time.Now()}, &sink{}
	p := Start(k, Source{Queue: "q", Signal: "s", Reader: r, Every: time.Second})
	time.Sleep(for_)
	p.Stop()
	synctest.Wait()
	return r, k
}

func TestReadsAtOnceAndThenEveryPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, k := polled(t, 3500*time.Millisecond, fine)
		if len(r.calls) != 4 || r.calls[0] != 0 || r.calls[3] != 3*time.Second {
			t.Errorf("read at %v, want at 0, 1, 2 and 3 s", r.calls)
		}
		if len(k.samples) != 4 || len(k.errs) != 0 || r.closed != 1 {
			t.Errorf("%d samples, errors %v, closed %d times", len(k.samples), k.errs, r.closed)
		}
	})
}

func TestErrorsAndPanicsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("refused")
		_, k := polled(t, 2500*time.Millisecond,
			func(context.Context) (shedding.Sample, error) { return shedding.Sample{}, cause },
			func(context.Context) (shedding.Sample, error) { panic("bug") },
			fine)
		if len(k.errs) != 2 || !errors.Is(k.errs[0], cause) || !strings.Contains(k.errs[1].Error(), "bug") || len(k.samples) != 1 {
			t.Errorf("errors %v, samples %v", k.errs, k.samples)
		}
	})
}

func TestReaderThatHeedsItsTimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, k := polled(t, 3500*time.Millisecond, func(ctx context.Context) (shedding.Sample, error) {
			<-ctx.Done()
			return shedding.Sample{}, ctx.Err()
		})
		if len(k.errs) < 3 || !errors.Is(k.errs[0], context.DeadlineExceeded) || r.most != 1 {
			t.Errorf("errors %v, %d at a time", k.errs, r.most)
		}
	})
}

// A reader that hangs never blocks, and is not called again until it is back.
func TestReaderThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := make(chan struct{})
		calls := 0
		r, k := &script{began: time.Now()}, &sink{}
		r.plays = append(r.plays, func(context.Context) (shedding.Sample, error) {
			if calls++; calls == 1 {
				<-back
			}
			return fine(t.Context())
		})
		p := Start(k, Source{Queue: "q", Signal: "s", Reader: r, Every: time.Second})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if len(r.calls) != 1 || len(k.samples) != 0 || len(k.errs) < 8 {
			t.Errorf("%d calls, %d samples, %d errors while it hangs", len(r.calls), len(k.samples), len(k.errs))
		}
		close(back)
		time.Sleep(3*time.Second + time.Millisecond)
		synctest.Wait()
		if len(k.samples) < 2 || r.most != 1 {
			t.Errorf("%d samples after it came back, %d readings at a time", len(k.samples), r.most)
		}
		p.Stop()
		synctest.Wait()
		if r.closed != 1 {
			t.Errorf("closed %d times", r.closed)
		}
	})
}

func TestStopDoesNotWaitForAReaderThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := make(chan struct{})
		r := &script{began: time.Now(), plays: []func(context.Context) (shedding.Sample, error){
			func(context.Context) (shedding.Sample, error) { <-back; return fine(t.Context()) },
		}}
		k := &sink{}
		p := Start(k, Source{Queue: "q", Signal: "s", Reader: r, Every: time.Second})
		time.Sleep(5 * time.Second)
		began := time.Now()
		p.Stop()
		if took := time.Since(began); took > time.Second {
			t.Errorf("stopping took %v", took)
		}
		n := len(k.samples)
		close(back)
		synctest.Wait()
		if len(k.samples) != n || r.closed != 1 {
			t.Errorf("%d samples after stopping, closed %d times", len(k.samples)-n, r.closed)
		}
	})
}
