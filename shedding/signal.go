package shedding

import "time"

// Health says how far a signal can be relied on.
type Health uint8

const (
	// Starting is the zero value: no sample was believed yet, and none is
	// overdue.
	Starting Health = iota
	Fresh
	Late // the last sample is overdue
	Lost // three periods without a sample
)

var healthNames = [...]string{Starting: "starting", Fresh: "fresh", Late: "late", Lost: "lost"}

func (h Health) String() string { return healthNames[h] }

const (
	latePeriods = 1.5
	lostPeriods = 3
)

// signal is one source of samples of a queue, and what was learned from it.
// The queue's lock guards it.
type signal struct {
	opts    SignalOptions
	every   float64
	inspect inspector
	est     *estimator

	began   float64 // when waiting for the first sample began
	arrived float64 // when the last believed sample did
	heard   bool
	last    Sample // as it came, believed or not
	lastAt  float64
	err     error // of the last reading; nil: it gave a sample
	flaws   [flawCount]uint64
	flaw    Flaw // of the last sample
}

func newSignal(o SignalOptions, log *admissions, now float64) *signal {
	every := o.Every.Seconds()
	return &signal{
		opts:  o,
		every: every,
		inspect: inspector{
			retention: o.Retention.Seconds(),
			horizon:   o.Delay.Seconds() + lostPeriods*every + maxSkew,
		},
		est:   newEstimator(log),
		began: now,
	}
}

// lag is the longest time until something that happened shows in a sample.
func (s *signal) lag() float64 { return s.every + s.opts.Delay.Seconds() }

// observe takes in a sample and reports whether it was believed.
func (s *signal) observe(sample Sample, at, now float64) bool {
	s.last, s.lastAt, s.err = sample, now, nil
	r, flaw := s.inspect.inspect(sample, at, now, float64(s.est.log.total.Load()))
	s.flaw = flaw
	s.flaws[flaw]++
	if flaw > Skewed {
		return false
	}
	s.arrived, s.heard = now, true
	s.est.observe(r, now)
	return true
}

// fail takes note of a reading that gave no sample.
func (s *signal) fail(err error, now float64) {
	s.err, s.lastAt, s.flaw = err, now, Failed
	s.flaws[Failed]++
}

func (s *signal) health(now float64) Health {
	since := s.arrived
	if !s.heard {
		since = s.began
	}
	switch silent := now - since; {
	case silent > lostPeriods*s.every:
		return Lost
	case !s.heard:
		return Starting
	case silent > latePeriods*s.every:
		return Late
	}
	return Fresh
}

// view is what a signal has to say at one time.
type view struct {
	wait   Value   // predicted
	depth  Value   // projected
	rate   float64 // most that may be admitted per second; 0: any
	closed bool
}

// say is the signal's say at now, by its policy where it is lost.
func (s *signal) say(now float64) view {
	h := s.health(now)
	if h == Lost || h == Starting && s.opts.OnLoss == Closed {
		switch s.opts.OnLoss {
		case Closed:
			return view{closed: true}
		case Cap:
			return view{rate: 0.9 * s.est.long}
		case Open:
			return view{}
		case Hold:
			if !s.est.busy() {
				return view{}
			}
		}
	}
	v := view{wait: s.est.wait(now)}
	if s.inspect.last.depth.known {
		v.depth = Known(s.est.backlog(now))
	}
	return v
}

// adopt takes over what another signal of the same name has learned.
func (s *signal) adopt(old *signal) {
	log := s.est.log
	*s.est = *old.est
	s.est.log = log
	s.began, s.arrived, s.heard = old.began, old.arrived, old.heard
	s.last, s.lastAt, s.err, s.flaws, s.flaw = old.last, old.lastAt, old.err, old.flaws, old.flaw
	limits := s.inspect
	s.inspect = old.inspect
	s.inspect.retention, s.inspect.horizon = limits.retention, limits.horizon
}

// timeline turns clock times into seconds on a queue's time line.
type timeline struct{ epoch time.Time }

func (l timeline) at(t time.Time) float64 { return float64(t.Sub(l.epoch)) * 1e-9 }

func (l timeline) time(t float64) time.Time {
	return l.epoch.Add(time.Duration(t * float64(time.Second)))
}
