package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"sluice/bench/console"
	"sluice/bench/result"
	"sluice/bench/scenario"
)

// batch carries scenarios out beside each other.
type batch struct {
	atOnce int
	board  *console.Board
	dir    func(*scenario.Scenario) string // where the files of a run are
	// one carries one of them out, while that many others may go on.
	one func(ctx context.Context, s *scenario.Scenario, beside int) (*result.Result, error)
}

// run carries all of them out, the longest first, and returns the worst verdict.
// An error, which is that of one without a result, lets those under way end, and
// no further one start. When ctx ends, those under way tell what they saw.
func (b *batch) run(ctx context.Context, all []*scenario.Scenario) (result.Verdict, error) {
	note := sync.OnceFunc(func() { b.board.Note("interrupted; waiting for what is under way") })
	defer context.AfterFunc(ctx, note)()
	began := time.Now()
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b *scenario.Scenario) int { return int(b.Length() - a.Length()) })
	verdicts, err := b.together(ctx, all)
	if err == nil {
		err = b.again(ctx, all, verdicts)
	}
	if ctx.Err() != nil {
		note() // what is under way can end before it is said
	}
	worst := result.Pass
	if len(verdicts) < len(all) {
		worst = result.Inconclusive
	}
	var told []result.Verdict
	for _, v := range verdicts {
		worst = worse(worst, v)
		told = append(told, v)
	}
	b.board.Sum(told, time.Since(began))
	return worst, err
}

// together carries them out, up to atOnce at a time, and returns the verdict on
// each that has a result.
func (b *batch) together(ctx context.Context, all []*scenario.Scenario) (map[*scenario.Scenario]result.Verdict, error) {
	going, stop := context.WithCancel(ctx)
	defer stop()
	verdicts := map[*scenario.Scenario]result.Verdict{}
	var mu sync.Mutex
	var problems []error
	var lanes sync.WaitGroup
	next := make(chan *scenario.Scenario, len(all))
	for _, s := range all {
		next <- s
	}
	close(next)
	n := min(b.atOnce, len(all))
	for range n {
		lanes.Go(func() {
			for s := range next {
				// Not going alone: who waits for ctx is woken before going has ended.
				if ctx.Err() != nil || going.Err() != nil {
					return
				}
				b.board.Say(s, "starts: %v of load", s.Length())
				v, err := b.result(ctx, s, n-1)
				mu.Lock()
				if v != "" {
					verdicts[s] = v
				}
				if err != nil {
					problems = append(problems, err)
					stop()
				}
				mu.Unlock()
			}
		})
	}
	lanes.Wait()
	return verdicts, errors.Join(problems...)
}

// again carries out once more, alone, what was invalid: beside others that says
// no more than that they did not leave it enough of the machine.
func (b *batch) again(ctx context.Context, all []*scenario.Scenario, verdicts map[*scenario.Scenario]result.Verdict) error {
	for _, s := range all {
		if verdicts[s] != result.Invalid || ctx.Err() != nil {
			continue
		}
		b.board.Say(s, "was invalid beside the others; once more, alone: %v of load", s.Length())
		v, err := b.result(ctx, s, 0)
		if v != "" && ctx.Err() == nil {
			verdicts[s] = v
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// result carries one out. Without one there is no verdict, and an error unless
// ctx has ended.
func (b *batch) result(ctx context.Context, s *scenario.Scenario, beside int) (result.Verdict, error) {
	r, err := b.one(ctx, s, beside)
	if err != nil && (r != nil || ctx.Err() == nil) {
		err = fmt.Errorf("%s: %w", s.Name, err)
	} else {
		err = nil
	}
	if r == nil {
		return "", err
	}
	b.board.Ends(r, b.dir(s))
	return r.Verdict, err
}
