package idempotency

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"sluice/admission"
)

// Claim asks the store for the right to execute k, and waits up to the policy's
// Wait where the same request is running already. The finding says to send the
// request (then end its Claim), to replay an answer, or to refuse; it is never
// an error. A ctx that is over ends the waiting early.
func (g *Gate) Claim(ctx context.Context, k *Keyed) Finding {
	f := g.claim(ctx, k)
	switch {
	case f.Reason == admission.StoreUnavailable:
		g.stats.refused.Add(1)
	case f.Claim == nil: // a won claim is counted when it ends
		g.stats.count(f.Status)
	}
	return f
}

func (g *Gate) claim(ctx context.Context, k *Keyed) Finding {
	p := patience{wait: k.policy.Wait}
	for {
		// Whoever led before may have left the answer here.
		if f, ok := g.remembered(k); ok {
			return f
		}
		var f Finding
		decided := true
		if fl, leads := g.flights.join(k.ids[0], time.Now()); leads {
			f = g.lead(ctx, k, fl, &p)
		} else {
			f, decided = g.follow(ctx, k, fl, &p)
		}
		if decided {
			return f
		}
	}
}

// patience is how long one request is still willing to wait. Its clock starts
// when there is something to wait for.
type patience struct {
	wait  time.Duration
	until time.Time
}

func (p *patience) left() time.Duration {
	if p.until.IsZero() {
		p.until = time.Now().Add(p.wait)
	}
	return time.Until(p.until)
}

// lead asks the store on behalf of k and of all who follow.
func (g *Gate) lead(ctx context.Context, k *Keyed, fl *flight, p *patience) (f Finding) {
	found, err := place{}, errPanicked
	defer func() {
		if f.Claim != nil {
			f.Claim.flight = fl
			fl.executes(f.Claim)
			return
		}
		if ctx.Err() != nil {
			err = nil // says something about this caller, not about the store
		}
		g.flights.finishAsking(fl, found, err)
	}()
	f, found, err = g.ask(ctx, k, p)
	return f
}

// errPanicked is what followers see of a leader that panicked.
var errPanicked = errors.New("the store panicked")

// maxTries bounds how often a claim is tried again because what stood in its
// way went away in between.
const maxTries = 16

// ask claims k in the store until something is decided: it won, something
// stands in the way (which is also returned as found), or the store failed.
func (g *Gate) ask(ctx context.Context, k *Keyed, p *patience) (f Finding, found place, err error) {
	c := g.newClaim(k)
	for tries := 0; tries < maxTries && ctx.Err() == nil; tries++ {
		found, err = g.try(ctx, k, c)
		if err == nil {
			found, err = g.waitOut(ctx, k, c, found, p)
		}
		if err != nil {
			return g.unchecked(k, c, err), place{}, err
		}
		r := found.Record
		if r != nil && r.State == InDoubt && r.Owner.same(c.record.Owner) {
			// Its own claim, which lapsed before this gateway heard of it:
			// nothing was sent.
			err = g.storeRelease(ctx, c.name, c.record.Owner, false)
			if err != nil && !errors.Is(err, ErrLost) {
				return g.unchecked(k, c, err), place{}, err
			}
			c.renew()
			continue
		}
		switch meet(r, found.Left, k.fingerprint, c.record.Owner) {
		case mine:
			if c.record = r; found.name > 0 {
				c.id, c.name = k.ids[found.name], g.names.spell(k.ids[found.name])
			}
			return Finding{Verdict: admission.Admit, Status: StatusFresh, Claim: c}, place{}, nil
		case vacant, lapsed: // what stood in the way went away
		default:
			g.cache.add(k.ids[found.name], r, found.Left, time.Now())
			f, _ = g.tell(k, found.name, found.Reading)
			return f, found, nil
		}
	}
	return inProgress(), found, nil
}

// waitOut looks at a record that runs on another gateway until it does not run
// any more or patience ends.
func (g *Gate) waitOut(ctx context.Context, k *Keyed, c *Claim, at place, p *patience) (place, error) {
	pause := g.options.PollFrom
	for meet(at.Record, at.Left, k.fingerprint, c.record.Owner) == running && g.pause(ctx, p, &pause) {
		var err error
		if at, err = g.look(ctx, k, c, at); err != nil {
			return place{}, err
		}
	}
	return at, nil
}

// newClaim draws a new owner for k.
func (g *Gate) newClaim(k *Keyed) *Claim {
	now := time.Now()
	c := &Claim{
		policy: k.policy,
		id:     k.ids[0],
		name:   g.names.spell(k.ids[0]),
		first: Record{
			State:       InFlight,
			Owner:       newOwner(1),
			OnUnknown:   k.policy.OnUnknown,
			Lease:       k.policy.Lease.Truncate(time.Millisecond),
			Retention:   k.policy.Retention.Truncate(time.Millisecond),
			Claimed:     now,
			Fingerprint: k.fingerprint,
			Credential:  k.tags[0],
		},
	}
	c.record = &c.first
	return c
}

// renew gives c another owner, since what was written for the one it has may
// still be on its way.
func (c *Claim) renew() {
	next := *c.record
	next.Owner = newOwner(1)
	c.record = &next
}

// place is what was found, under which of the names, and when the store was
// asked for it.
type place struct {
	Reading
	name  int
	asked time.Time
}

// try makes one attempt at claiming c, and returns what is then there: c's own
// record, somebody else's, or none if it vanished meanwhile.
func (g *Gate) try(ctx context.Context, k *Keyed, c *Claim) (place, error) {
	asked := time.Now()
	c.until = asked.Add(c.record.Lease)
	found, err := g.storeClaim(ctx, c)
	switch {
	case err != nil:
		return place{}, err
	case found == nil:
		found = &Reading{c.record, c.record.Retention}
	case found.Record.Owner.same(c.record.Owner):
		g.stats.recovered.Add(1)
	default:
		return g.look(ctx, k, c, place{*found, 0, asked})
	}
	own := place{*found, 0, asked}
	if k.names == 1 {
		return own, nil
	}
	// While the secret is being changed, another gateway may claim under the
	// other name. Each claims first and looks afterwards, so that at least one
	// of two sees the other, and yields.
	asked = time.Now()
	other, err := g.storeRead(ctx, g.names.spell(k.ids[1]))
	if err != nil {
		return place{}, err
	}
	if other.Record == nil {
		return own, nil
	}
	g.withdraw(c.name, c.record.Owner)
	c.renew()
	return g.look(ctx, k, c, place{other, 1, asked})
}

// look finds out more about a record in c's way: whether its lease is over, and
// what then becomes of it, is for the store to say.
func (g *Gate) look(ctx context.Context, k *Keyed, c *Claim, at place) (place, error) {
	if at.Record.State != InFlight || at.Record.Fingerprint != k.fingerprint {
		return at, nil
	}
	mine := *c.record
	mine.Credential = k.tags[at.name]
	next := successor(at.Record, mine)
	asked := time.Now()
	c.until = asked.Add(c.record.Lease)
	now, err := g.storeLapse(ctx, g.names.spell(k.ids[at.name]), at.Record.Owner, next)
	if err == nil && now.Record != nil && now.Record.State == next.State && now.Record.Owner.same(next.Owner) {
		if next.State == InDoubt {
			g.stats.lapsed.Add(1)
		} else {
			g.stats.takenOver.Add(1)
		}
	}
	return place{now, at.name, asked}, err
}

// pause waits before the next look at a request that runs on another gateway.
// It reports false when there is no time, or no room, to wait.
func (g *Gate) pause(ctx context.Context, p *patience, pause *time.Duration) bool {
	left := p.left()
	if left <= 0 || !g.enterWait() {
		return false
	}
	d := time.Duration(float64(*pause) * (0.5 + rand.Float64()))
	*pause = min(*pause*3/2, g.options.PollTo)
	start := time.Now()
	t := time.NewTimer(min(d, left))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	g.leaveWait(start)
	return ctx.Err() == nil
}

// follow waits for the leader fl. It is not decided when k has to ask for
// itself after all.
func (g *Gate) follow(ctx context.Context, k *Keyed, fl *flight, p *patience) (f Finding, decided bool) {
	joined := time.Now()
	asked, ended, ok := fl.follow(g.options.MaxWaitersPerKey)
	if !ok {
		g.stats.waitersUp.Add(1)
		return inProgress(), true
	}
	defer fl.unfollow()
	if !g.enterWait() {
		return inProgress(), true
	}
	defer g.leaveWait(time.Now())

	left := p.left() // starts the clock
	select {         // bounded by the store's time-outs and the leader's own patience
	case <-asked:
	case <-ctx.Done():
		return inProgress(), true
	}
	switch {
	case fl.err != nil:
		if !k.policy.PassUnchecked {
			return storeUnavailable(), true
		}
		return Finding{}, false
	case fl.won == nil && joined.After(fl.found.asked):
		return Finding{}, false // what the leader saw may be over since before k came
	case fl.won == nil:
		return g.heed(k, fl.found.name, fl.found.Reading, p)
	case fl.won.record.Fingerprint != k.fingerprint:
		return Finding{Reason: admission.KeyReused, Status: StatusReused}, true
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-ended:
		return g.heed(k, 0, Reading{fl.result, k.policy.Retention}, p)
	case <-timer.C:
	case <-ctx.Done():
	}
	return inProgress(), true
}

// heed judges what a leader found or left behind.
func (g *Gate) heed(k *Keyed, name int, r Reading, p *patience) (Finding, bool) {
	switch meet(r.Record, r.Left, k.fingerprint, Owner{}) {
	case vacant, lapsed:
		return Finding{}, false
	case running:
		if p.left() > 0 {
			return Finding{}, false
		}
	}
	return g.tell(k, name, r)
}

// unchecked decides about a request whose key could not be claimed because of
// err.
func (g *Gate) unchecked(k *Keyed, c *Claim, err error) Finding {
	if k.policy.PassUnchecked {
		// If the claim was written after all, or can be when the store is
		// back, the answer is not lost to later repetitions.
		c.bypassed = true
		return Finding{Verdict: admission.Admit, Status: StatusBypassed, Claim: c}
	}
	if !errors.Is(err, ErrFull) && !errors.Is(err, ErrCorrupt) {
		g.withdraw(c.name, c.record.Owner)
	}
	return storeUnavailable()
}

// enterWait counts a waiting request in, unless too many wait.
func (g *Gate) enterWait() bool {
	if g.waiters.Add(1) > int64(g.options.MaxWaiters) {
		g.waiters.Add(-1)
		g.stats.waitersUp.Add(1)
		return false
	}
	return true
}

func (g *Gate) leaveWait(start time.Time) {
	g.waiters.Add(-1)
	g.stats.waited.Add(1)
	g.stats.waitTime.Add(int64(time.Since(start)))
}
