package shedding

import "sluice/admission"

// Action says in which words a class is refused.
type Action uint8

const (
	// Shed is the zero value: refuse.
	Shed Action = iota
	// Defer refuses as well, and names the time at which the request is
	// expected back.
	Defer
)

func (a Action) reason() admission.Reason {
	if a == Defer {
		return admission.Deferred
	}
	return admission.Shed
}

// Band says how one class gives way as the predicted wait rises. The zero
// value admits everything up to the limit.
type Band struct {
	// From is where refusing starts and Full where only MinAdmit is left, as
	// shares of the queue's limit; equal values make a step. Both zero: 1.
	From, Full float64
	// MinAdmit is the share of the class's requests that is admitted up to
	// the limit, however long the wait.
	MinAdmit float64
	// Action says in which words the class is refused.
	Action Action
	// Status of a refusal; 0: the reason's own, 503.
	Status int
	// Mode Shadow counts refusals of this class without enforcing them.
	Mode admission.Mode

	cut float64 // what MinAdmit and the probe are lowered to; 0: not at all
}

// probe is the share of requests that passes whatever the signals say: without
// it, a source that only speaks when there is traffic would fall silent for
// good.
const probe = 0.005

// share is what the band admits at strain x: the predicted wait, or the depth,
// as a share of what the queue allows.
func (b Band) share(x float64) float64 {
	p := 1.0
	switch {
	case x > 1:
		return probe * b.scale()
	case x >= b.Full && x >= b.From:
		p = 0
	case x > b.From:
		p = 1 - (x-b.From)/(b.Full-b.From)
	}
	return max(p, b.floor())
}

// floor is the share that is admitted up to the limit in any case.
func (b Band) floor() float64 { return max(b.MinAdmit, probe) * b.scale() }

func (b Band) scale() float64 {
	if b.cut == 0 {
		return 1
	}
	return b.cut
}

// middle is the strain at which the band admits half.
func (b Band) middle() float64 { return (b.From + b.Full) / 2 }

// above is the band in which returners of class i stand: that of the class
// above, and for the first class the last fifth of its own.
func above(bands []Band, i int) Band {
	b := bands[i]
	if i > 0 {
		up := bands[i-1]
		b.From, b.Full, b.MinAdmit = up.From, up.Full, max(b.MinAdmit, up.MinAdmit)
		return b
	}
	b.From += 0.8 * (b.Full - b.From)
	return b
}

// shares fills in what each class, and those of each class who come back when
// told, get at strain x. No class gets less than the one below it.
func shares(bands []Band, x float64, fresh, back []float64) {
	for i, b := range bands {
		fresh[i] = b.share(x)
		back[i] = above(bands, i).share(x)
		if i > 0 {
			fresh[i] = min(fresh[i], fresh[i-1])
			back[i] = min(back[i], back[i-1])
		}
		back[i] = max(back[i], fresh[i])
	}
}

// capShares lowers fresh so that offered requests, most important class first,
// fit into rate.
func capShares(bands []Band, rate float64, offered, fresh []float64) {
	left := max(0, rate)
	for i, b := range bands {
		p := 1.0
		if offered[i] > 0 {
			p = min(1, left/offered[i])
		}
		p = max(p, b.floor())
		fresh[i] = min(fresh[i], p)
		if i > 0 {
			fresh[i] = min(fresh[i], fresh[i-1])
		}
		left = max(0, left-fresh[i]*offered[i])
	}
}
