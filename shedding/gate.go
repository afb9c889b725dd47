package shedding

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"sluice/admission"
)

// Gate is the admission gate of all queues. Decisions are safe for concurrent
// use, take constant time, allocate nothing and do no I/O; samples are handed
// in with [Gate.Observe].
type Gate struct {
	line    timeline
	queues  []*queue
	header  string
	tickets *Tickets
	seed    uint64 // of hashes
	idKey   uint64 // what ids of promises are made with
	drawKey uint64 // and draws
	ids     *atomic.Uint64
	beside  bool // decides beside another gate; see Beside

	promises *memory // by tenant and idempotency key
	uses     *memory // ids of promises that were made use of
}

// New returns the gate described by o, or every problem that o has. It starts
// at now; later times are measured from there.
//
// previous is the gate that the new one replaces, or nil. What it has learned
// of queues and signals that are still there, and what it has promised, is
// taken over. It may go on deciding for requests that are under way.
func New(o Options, now time.Time, previous *Gate) (*Gate, error) {
	o, err := o.filled()
	if err != nil {
		return nil, err
	}
	g := &Gate{
		line:    timeline{now},
		header:  o.KeyHeader,
		tickets: o.Tickets,
		seed:    o.Seed,
		ids:     new(atomic.Uint64),
	}
	if g.seed == 0 {
		g.seed = max(rand.Uint64(), 1)
	}
	if previous != nil {
		g.line, g.seed, g.ids = previous.line, previous.seed, previous.ids
		g.promises, g.uses, g.beside = previous.promises, previous.uses, previous.beside
		if g.tickets != nil && g.tickets.madeUp && previous.tickets != nil && previous.tickets.madeUp {
			g.tickets = previous.tickets
		}
	} else {
		g.promises, g.uses = newMemory(o.Promises, g.seed), newMemory(o.Promises, mix(g.seed))
	}
	g.idKey, g.drawKey = derive(g.seed, "ids"), derive(g.seed, "draws")
	t := g.line.at(now)
	for _, qo := range o.Queues {
		q := newQueue(g, qo, o.Tenants, t)
		if old := previous.queue(qo.Name); old != nil {
			q.adopt(old, t)
		}
		g.queues = append(g.queues, q)
	}
	return g, nil
}

// Seed is what the gate hashes tenants with, see [admission.Request.TenantHash]. It
// is to be kept secret, and never 0.
func (g *Gate) Seed() uint64 { return g.seed }

// derive makes a key from the seed, by which the seed cannot be told: clients see
// ids and draws, and could make out the key of those.
func derive(seed uint64, use string) uint64 {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(use), seed))
	return binary.BigEndian.Uint64(sum[:])
}

func (g *Gate) queue(name string) *queue {
	if g == nil {
		return nil
	}
	for _, q := range g.queues {
		if q.opts.Name == name {
			return q
		}
	}
	return nil
}

var errNoSuchSignal = errors.New("no such signal")

// Observe takes in a sample of a signal of a queue that arrived at now. It
// returns why the sample was not believed; Sound and Skewed samples were.
func (g *Gate) Observe(now time.Time, queue, signal string, s Sample) (Flaw, error) {
	q, sig, err := g.find(queue, signal)
	if err != nil {
		return Failed, err
	}
	t := g.line.at(now)
	q.mu.Lock()
	defer q.mu.Unlock()
	at := t - sig.opts.Delay.Seconds()
	if !s.At.IsZero() {
		at = g.line.at(s.At)
	}
	q.log.roll(t)
	sig.observe(s, at, t)
	q.run(t)
	return sig.flaw, nil
}

// Fail takes note of a reading of a signal that gave an error instead of a
// sample.
func (g *Gate) Fail(now time.Time, queue, signal string, cause error) error {
	q, sig, err := g.find(queue, signal)
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	t := g.line.at(now)
	sig.fail(cause, t)
	q.run(t)
	return nil
}

func (g *Gate) find(in, name string) (*queue, *signal, error) {
	q := g.queue(in)
	if q != nil {
		for _, s := range q.signals {
			if s.opts.Name == name {
				return q, s, nil
			}
		}
	}
	return nil, nil, fmt.Errorf("shedding: queue %q, signal %q: %w", in, name, errNoSuchSignal)
}

// Ready reports whether every signal has been heard, or has been silent for so
// long that its policy for that holds. A gateway that waits for it before it
// takes requests does not open the gates by being restarted.
func (g *Gate) Ready(now time.Time) bool {
	t := g.line.at(now)
	for _, q := range g.queues {
		q.mu.Lock()
		for _, s := range q.signals {
			if s.health(t) == Starting {
				q.mu.Unlock()
				return false
			}
		}
		q.mu.Unlock()
	}
	return true
}

// Anticipate implements [admission.Gate]: it asks for what is known of the tenant's
// demand, in the class that the route gives.
func (g *Gate) Anticipate(r *admission.Request) {
	if r.Route.Queue != "" {
		g.queues[r.Route.QueueAt].demand.anticipate(demandKey(r.TenantHash(g.seed), r.Route.Class))
	}
}

// Reserve implements [admission.Gate]: it takes the request's place in its
// route's queue, or refuses it for lack of capacity.
func (g *Gate) Reserve(now time.Time, r *admission.Request, d *admission.Decision) (admission.Permit, admission.Refusal) {
	if r.Route.Queue == "" || r.Class < 0 {
		return admission.Permit{}, admission.Refusal{}
	}
	return g.queues[r.Route.QueueAt].reserve(now, r, d)
}

// GiveBack implements [admission.Gate]: the place is free again, and a promise
// that was used for it is good as before.
func (g *Gate) GiveBack(now time.Time, p admission.Permit) {
	p.Ref.(*queue).giveBack(now, p)
}

// End implements [admission.Gate]. The work is in the queue now, or may be;
// the signals will tell.
func (g *Gate) End(time.Time, admission.Permit, admission.Outcome) {}
