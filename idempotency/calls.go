package idempotency

import (
	"context"
	"errors"
	"time"
)

// Every call of the store goes through here, and is counted.

func (g *Gate) storeClaim(ctx context.Context, c *Claim) (*Reading, error) {
	start := time.Now()
	found, err := g.store.Claim(ctx, c.name, c.record)
	g.stats.called(OpClaim, start, failed(err))
	return found, err
}

func (g *Gate) storeRead(ctx context.Context, name string) (Reading, error) {
	start := time.Now()
	r, err := g.store.Read(ctx, name)
	g.stats.called(OpRead, start, failed(err))
	return r, err
}

func (g *Gate) storeLapse(ctx context.Context, name string, of Owner, next *Record) (Reading, error) {
	start := time.Now()
	r, err := g.store.Lapse(ctx, name, of, next)
	g.stats.called(OpLapse, start, failed(err))
	return r, err
}

func (g *Gate) storeSettle(ctx context.Context, name string, of Owner, next *Record) error {
	start := time.Now()
	err := g.store.Settle(ctx, name, of, next)
	g.stats.called(OpSettle, start, failed(err))
	if err == nil && next.Answer != nil {
		g.stats.storedBytes.Add(uint64(len(next.Answer.Body)))
	}
	return err
}

func (g *Gate) storeRelease(ctx context.Context, name string, of Owner, answered bool) error {
	start := time.Now()
	err := g.store.Release(ctx, name, of, answered)
	g.stats.called(OpRelease, start, failed(err))
	return err
}

// failed reports whether err says something about the store rather than about
// one record.
func failed(err error) bool { return err != nil && !errors.Is(err, ErrLost) }
