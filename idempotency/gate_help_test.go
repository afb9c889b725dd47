package idempotency_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"iter"
	"sync"
	"testing"
	"time"

	"sluice/admission"
	"sluice/idempotency"
)

var secretA, secretB = []byte("secret of the first kind"), []byte("secret of the second kind")

func newGate(t testing.TB, s idempotency.Store, o idempotency.Options, secrets ...[]byte) *idempotency.Gate {
	t.Helper()
	if secrets == nil {
		secrets = [][]byte{secretA}
	}
	names, err := idempotency.NewNames(idempotency.NameOptions{Prefix: "sluice-test", Secrets: secrets})
	if err != nil {
		t.Fatal(err)
	}
	g, err := idempotency.New(s, names, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := g.Close(ctx); err != nil {
			t.Errorf("closing the gate: %v", err)
		}
	})
	return g
}

// uncached is a gate that asks the store every time.
var uncached = idempotency.Options{CacheBytes: -1}

func holdPolicy() *idempotency.Policy {
	return &idempotency.Policy{
		Lease: 12 * time.Second, Retention: idempotency.DefaultRetention,
		Wait: idempotency.DefaultWait, MaxReplay: idempotency.DefaultMaxReplay,
	}
}

func releasePolicy() *idempotency.Policy {
	p := holdPolicy()
	p.OnUnknown = idempotency.Release
	return p
}

// prepare makes a request of tenant t on route r.
func prepare(g *idempotency.Gate, key, body string, p *idempotency.Policy) *idempotency.Keyed {
	k := g.Prepare(&idempotency.Ask{Tenant: "t", Scope: "r", Key: []byte(key), Fingerprint: sha256.Sum256([]byte(body)), Policy: p})
	return &k
}

func fields(pairs ...string) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		for i := 0; i < len(pairs); i += 2 {
			if !yield([]byte(pairs[i]), []byte(pairs[i+1])) {
				return
			}
		}
	}
}

func created(body string) idempotency.Response {
	return idempotency.Response{Status: 201, Header: fields("Content-Type", "application/json", "Date", "today"), Body: []byte(body)}
}

// mustWin claims k, and fails the test unless it may be executed.
func mustWin(t testing.TB, g *idempotency.Gate, k *idempotency.Keyed) *idempotency.Claim {
	t.Helper()
	f := g.Claim(context.Background(), k)
	if f.Verdict != admission.Admit || f.Claim == nil {
		t.Fatalf("claim: %v because of %v (%v), want to win", f.Verdict, f.Reason, f.Status)
	}
	return f.Claim
}

func mustSettle(t testing.TB, g *idempotency.Gate, c *idempotency.Claim, o admission.Outcome, r idempotency.Response, want idempotency.Status) {
	t.Helper()
	if got := g.Settle(c, o, r); got != want {
		t.Fatalf("settling gave %v, want %v", got, want)
	}
}

func expectReplay(t testing.TB, f idempotency.Finding, status int, body string) {
	t.Helper()
	switch {
	case f.Verdict != admission.Replay:
		t.Errorf("got %v because of %v (%v), want a replay", f.Verdict, f.Reason, f.Status)
	case f.Answer.Status != status || string(f.Answer.Body) != body:
		t.Errorf("replayed %d %q, want %d %q", f.Answer.Status, f.Answer.Body, status, body)
	}
}

func expectRefusal(t testing.TB, f idempotency.Finding, want admission.Reason) {
	t.Helper()
	if f.Verdict != admission.Refuse || f.Reason != want {
		t.Errorf("got %v because of %v, want a refusal because of %v", f.Verdict, f.Reason, want)
	}
	if f.Claim != nil || f.Answer != nil {
		t.Errorf("a refusal carries a claim or an answer: %+v", f)
	}
	if want.Retryable() != (f.RetryAfter > 0) {
		t.Errorf("%v with Retry-After %v", want, f.RetryAfter)
	}
}

var errBroken = errors.New("broken on purpose")

// faulty is a store whose operations fail: before they have done anything, or
// after, as if the reply had been lost.
type faulty struct {
	idempotency.Store
	mu            sync.Mutex
	before, after map[idempotency.Op]int // failures still to come; -1: always
	calls         map[idempotency.Op]int
}

func newFaulty(s idempotency.Store) *faulty {
	return &faulty{Store: s, before: map[idempotency.Op]int{}, after: map[idempotency.Op]int{}, calls: map[idempotency.Op]int{}}
}

func (f *faulty) fail(when map[idempotency.Op]int, n int, ops ...idempotency.Op) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range ops {
		when[o] = n
	}
}

var allOps = []idempotency.Op{idempotency.OpClaim, idempotency.OpRead, idempotency.OpLapse, idempotency.OpSettle, idempotency.OpRelease}

func (f *faulty) down() { f.fail(f.before, -1, allOps...) }
func (f *faulty) up()   { f.fail(f.before, 0, allOps...) }

func (f *faulty) called(o idempotency.Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[o]
}

func (f *faulty) due(when map[idempotency.Op]int, o idempotency.Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if when[o] == 0 {
		return nil
	}
	if when[o] > 0 {
		when[o]--
	}
	return errBroken
}

func (f *faulty) do(o idempotency.Op, op func() error) error {
	f.mu.Lock()
	f.calls[o]++
	f.mu.Unlock()
	if err := f.due(f.before, o); err != nil {
		return err
	}
	if err := op(); err != nil {
		return err
	}
	return f.due(f.after, o)
}

func (f *faulty) Claim(ctx context.Context, name string, r *idempotency.Record) (found *idempotency.Reading, err error) {
	err = f.do(idempotency.OpClaim, func() error { found, err = f.Store.Claim(ctx, name, r); return err })
	return found, err
}

func (f *faulty) Read(ctx context.Context, name string) (r idempotency.Reading, err error) {
	err = f.do(idempotency.OpRead, func() error { r, err = f.Store.Read(ctx, name); return err })
	return r, err
}

func (f *faulty) Lapse(ctx context.Context, name string, of idempotency.Owner, next *idempotency.Record) (r idempotency.Reading, err error) {
	err = f.do(idempotency.OpLapse, func() error { r, err = f.Store.Lapse(ctx, name, of, next); return err })
	return r, err
}

func (f *faulty) Settle(ctx context.Context, name string, of idempotency.Owner, next *idempotency.Record) error {
	return f.do(idempotency.OpSettle, func() error { return f.Store.Settle(ctx, name, of, next) })
}

func (f *faulty) Release(ctx context.Context, name string, of idempotency.Owner, answered bool) error {
	return f.do(idempotency.OpRelease, func() error { return f.Store.Release(ctx, name, of, answered) })
}
