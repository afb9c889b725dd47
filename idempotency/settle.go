package idempotency

import (
	"bytes"
	"context"
	"errors"
	"time"

	"sluice/admission"
)

// Settle ends c with the outcome of its request: by the table of Judge the
// answer is stored, the record freed, or put in doubt. It returns the status
// for the client, whom the origin's answer reaches in any case: fresh, in_doubt,
// bypassed, or not_stored if the store did not confirm. In the last two cases
// storing is tried again in the background.
//
// Settle has its own time limits, so that a client that hung up changes
// nothing; it keeps nothing of r, which matters only for answered requests.
func (g *Gate) Settle(c *Claim, o admission.Outcome, r Response) Status {
	if c.ended.Swap(true) {
		return StatusNone
	}
	status := g.settle(c, o, &r)
	g.stats.count(status)
	return status
}

// Release ends c because nothing was sent: the next request with the key is
// the first again.
func (g *Gate) Release(c *Claim) { g.Settle(c, admission.NotSent, Response{}) }

func (g *Gate) settle(c *Claim, o admission.Outcome, r *Response) Status {
	// One piece of memory for all that is kept besides body and values.
	k := new(struct {
		record Record
		answer Answer
		fields [4]Field
	})
	h := &c.header
	*h = keeper{extra: c.policy.KeepHeaders, kept: k.fields[:0]}
	h.keep(r.Header)
	ending := Judge(o, r.Status, h.retryAfter, c.policy)
	if ending == Free {
		return g.free(c)
	}
	next := &k.record
	*next = *c.record
	next.Settled = time.Now()
	if o == admission.Answered {
		k.answer = Answer{Status: r.Status, Fields: h.kept}
		next.Answer = &k.answer
		next.State = Completed
		switch {
		case r.BodyOmitted || len(r.Body) > c.policy.MaxReplay:
			next.State = Tombstone
		case len(r.Body) > 0:
			next.Answer.Body = bytes.Clone(r.Body)
		}
	}
	if ending == Doubt {
		next.State = InDoubt
	}
	return g.write(c, next)
}

// write stores the settled record of c and tells those who wait for it.
func (g *Gate) write(c *Claim, next *Record) Status {
	switch next.State {
	case InDoubt:
		g.stats.inDoubt.Add(1)
	case Tombstone:
		g.stats.tombstones.Add(1)
	}
	owner := c.record.Owner
	if c.bypassed {
		// The store was down a moment ago; the client need not wait for it.
		// Repetitions on this gateway get the answer until the store is back.
		g.cache.add(c.id, next, 0, next.Settled)
		g.flights.end(c.flight, next)
		g.settleLater(c, owner, next)
		return StatusBypassed
	}
	err := g.storeSettle(context.Background(), c.name, owner, next)
	if err == nil {
		g.cache.add(c.id, next, next.Retention, next.Settled)
		g.flights.end(c.flight, next)
		if next.State == InDoubt {
			return StatusInDoubt
		}
		return StatusFresh
	}
	g.flights.end(c.flight, nil)
	if final(err) {
		g.stats.lost.Add(1)
	} else {
		g.settleLater(c, owner, next)
	}
	return StatusNotStored
}

// free removes the record of c and lets one of those who wait for it lead.
func (g *Gate) free(c *Claim) Status {
	err := errors.New("not tried") // the store was down a moment ago
	if !c.bypassed {
		err = g.storeRelease(context.Background(), c.name, c.record.Owner, false)
	}
	if err != nil && !final(err) {
		g.withdraw(c.name, c.record.Owner)
	}
	g.flights.end(c.flight, nil)
	if c.bypassed {
		return StatusBypassed
	}
	return StatusFresh
}

// final reports whether asking the store again cannot help.
func final(err error) bool { return errors.Is(err, ErrLost) || errors.Is(err, ErrCorrupt) }

// settleLater keeps trying to store the settled record of c.
func (g *Gate) settleLater(c *Claim, owner Owner, next *Record) {
	name, id := c.name, c.id
	started := g.retries.run(&g.options, next.Answer.size(), func(ctx context.Context) bool {
		err := g.storeSettle(ctx, name, owner, next)
		switch {
		case err == nil:
			g.cache.add(id, next, next.Retention, time.Now())
		case final(err):
			g.cache.remove(id)
			g.stats.lost.Add(1)
		default:
			return false
		}
		return true
	}, func() {
		g.stats.lost.Add(1)
		g.stats.over.Add(1)
	})
	if !started {
		g.stats.lost.Add(1)
		g.stats.over.Add(1)
	}
}

// withdraw removes a claim that nobody will use, without making anyone wait.
// The claim may reach the store after its withdrawal does, held up on the way;
// therefore finding nothing does not end it at once.
func (g *Gate) withdraw(name string, owner Owner) {
	misses := 0
	started := g.retries.run(&g.options, 0, func(ctx context.Context) bool {
		found, err := g.storeRead(ctx, name)
		switch {
		case err != nil:
			return errors.Is(err, ErrCorrupt)
		case found.Record == nil:
			misses++
			return misses == 3
		case !found.Record.Owner.same(owner):
			return true
		}
		err = g.storeRelease(ctx, name, owner, false)
		return err == nil || final(err)
	}, func() { g.stats.over.Add(1) })
	if !started {
		g.stats.over.Add(1)
	}
}
