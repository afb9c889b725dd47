package gateway

import (
	"testing"
	"time"

	"sluice/admin"
	"sluice/admission"
	"sluice/config"
	"sluice/shedding/signals"
)

// Live is a policy as a running gateway has it, for tests that import what
// imports this package.
type Live struct {
	*side
	Names *admin.Policy
	// Sink takes readings, and has them recorded.
	Sink signals.Sink
}

// NewLive wires cfg as a running gateway has it, with its recording in log.
func NewLive(t *testing.T, cfg *config.Config, now time.Time, seed uint64, log *admin.DecisionLog) *Live {
	t.Helper()
	s, p := liveWith(t, cfg, now, seed)
	log.SetPolicy(p.names)
	p.queues.keepers = []keeper{log}
	return &Live{s, p.names, p.queues.noting(p.queues.gate)}
}

// Decide leads one request as far as the origin.
func (l *Live) Decide(now time.Time, r *admission.Request, body string) admission.Decision {
	var d admission.Decision
	if f := l.ctl.Classify(r); f.Is() {
		d.Refuse(f)
		return d
	}
	if r.Keyed {
		l.ctl.Keys.Prepare(r, []byte(body))
	}
	l.admit(now, r, &d)
	if d.Verdict != admission.Admit {
		l.forget(r)
	}
	return d
}

// End ends an admitted request.
func (l *Live) End(now time.Time, r *admission.Request, o admission.Outcome, status int) {
	l.ctl.End(now, r, o, admission.Answer{Status: status})
	l.forget(r)
}

func (l *Live) forget(r *admission.Request) {
	if r.Keyed {
		l.ctl.Keys.Forget(r)
	}
}
