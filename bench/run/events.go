package run

import (
	"context"
	"fmt"
	"sort"
	"time"

	"sluice/bench/origin"
	"sluice/bench/scenario"
)

// step is one thing to do at one time: an event begins, or ends.
type step struct {
	at    time.Duration
	event *scenario.Event
	end   bool
}

// events makes the scenario's events happen when they are due.
func (r *runner) events(ctx context.Context) {
	var steps []step
	for i := range r.s.Events {
		e := &r.s.Events[i]
		steps = append(steps, step{time.Duration(e.At), e, false})
		if e.For > 0 {
			steps = append(steps, step{time.Duration(e.At + e.For), e, true})
		}
	}
	sort.SliceStable(steps, func(i, j int) bool { return steps[i].at < steps[j].at })
	for r.generator.Start().IsZero() {
		if ctx.Err() != nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
	for _, s := range steps {
		select {
		case <-ctx.Done():
			// Ends are made up for, so that accepted work can get done.
			if s.end {
				r.fail(r.do(context.WithoutCancel(ctx), s))
			}
			continue
		case <-time.After(time.Until(r.generator.Start().Add(s.at))):
		}
		word := "begins"
		if s.end {
			word = "ends"
		}
		r.Note("%s (%s)", s.event.What(), word)
		if err := r.do(ctx, s); err != nil {
			r.fail(fmt.Errorf("event at %v (%s): %w", s.at, s.event.What(), err))
		}
	}
}

// do carries out one step.
func (r *runner) do(ctx context.Context, s step) error {
	e := s.event
	switch {
	case e.Origin != nil:
		return r.disturb(e.Origin, s.end)
	case e.Signal != "":
		f := origin.SignalOK
		if !s.end {
			var err error
			if f, err = origin.ParseSignalFault(string(e.Signal)); err != nil {
				return err
			}
		}
		r.faults.Signal = f
		return r.origin.SetFaults(r.faults)
	case e.Redis != nil && r.redis != nil:
		return r.redis.disturb(e.Redis, s.end)
	case e.Gateway != nil && r.gateway != nil:
		if s.end {
			return nil
		}
		return r.operate(ctx, e.Gateway)
	}
	// The scenario's own gateway was not started: the load goes elsewhere.
	r.Note("left out: %s", e.What())
	return nil
}

// disturb sets what an event says about the origin, and sets it back at its
// end.
func (r *runner) disturb(o *scenario.OriginEvent, end bool) error {
	if o.Pause {
		if end {
			r.origin.Resume()
		} else {
			r.origin.Pause()
		}
	}
	if o.Workers != nil {
		if end {
			r.origin.Scale(r.s.Origin.Workers)
		} else {
			r.origin.Scale(int(*o.Workers))
		}
	}
	if o.Poison > 0 {
		if end {
			r.origin.Cure()
		} else {
			r.origin.Poison(o.Poison)
		}
	}
	set := func(in *float64, v float64) {
		if v > 0 {
			if end {
				v = 0
			}
			*in = v
		}
	}
	set(&r.faults.ErrorShare, o.Errors.Fraction())
	set(&r.faults.ResetShare, o.Resets.Fraction())
	set(&r.faults.LostShare, o.Lost.Fraction())
	if o.Latency > 0 {
		r.faults.Latency = time.Duration(o.Latency)
		if end {
			r.faults.Latency = 0
		}
	}
	if o.Stall {
		r.faults.Stall = !end
	}
	return r.origin.SetFaults(r.faults)
}

// operate does to the gateway what an operator, or bad luck, does.
func (r *runner) operate(ctx context.Context, g *scenario.GatewayEvent) error {
	switch {
	case g.Reload != "":
		return r.gateway.Reload(ctx, r.s.Relative(g.Reload))
	case g.Kill:
		r.countersLost = "the gateway was killed during the run, and its counters with it"
		return r.gateway.Kill(ctx)
	default:
		r.countersLost = "the gateway was restarted during the run, and its counters with it"
		return r.gateway.Restart(ctx)
	}
}
