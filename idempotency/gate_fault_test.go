package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/admission"
	"sluice/idempotency"
)

func openPolicy() *idempotency.Policy {
	p := holdPolicy()
	p.PassUnchecked = true
	return p
}

func TestStoreDownIsAnsweredAsThePolicySays(t *testing.T) {
	t.Run("closed", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *faulty) {
			g := newGate(t, s, idempotency.Options{})
			k := prepare(g, "k", "body", holdPolicy())
			s.down()
			expectRefusal(t, g.Claim(t.Context(), k), admission.StoreUnavailable)
			if _, ok := g.Lookup(t.Context(), k); ok {
				t.Error("a lookup claims to know something")
			}
			s.up()
			g.Release(mustWin(t, g, k)) // recovers by itself
			if st := g.Stats(); st.Refused != 1 || st.Store[idempotency.OpClaim].Errors != 1 {
				t.Errorf("counted %d refusals and %d errors", st.Refused, st.Store[idempotency.OpClaim].Errors)
			}
		})
	})
	t.Run("open", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *faulty) {
			g, other := newGate(t, s, idempotency.Options{}), newGate(t, s, uncached)
			k := prepare(g, "k", "body", openPolicy())
			s.down()
			f := g.Claim(t.Context(), k)
			if f.Verdict != admission.Admit || f.Status != idempotency.StatusBypassed {
				t.Fatalf("got %v, %v, want to pass as bypassed", f.Verdict, f.Status)
			}
			// Even so, repetitions on this gateway wait, and get the answer.
			var wg sync.WaitGroup
			wg.Go(func() { expectReplay(t, g.Claim(context.Background(), k), 201, "x") })
			synctest.Wait()
			mustSettle(t, g, f.Claim, admission.Answered, created("x"), idempotency.StatusBypassed)
			wg.Wait()
			// And once the store is back, everywhere.
			s.up()
			time.Sleep(5 * time.Second)
			expectReplay(t, other.Claim(t.Context(), k), 201, "x")
			if st := g.Stats(); st.Requests[idempotency.StatusBypassed] != 1 {
				t.Errorf("counted %d bypassed", st.Requests[idempotency.StatusBypassed])
			}
		})
	})
	t.Run("what is in memory is replayed all the same", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *faulty) {
			g := newGate(t, s, idempotency.Options{})
			k := prepare(g, "k", "body", holdPolicy())
			mustSettle(t, g, mustWin(t, g, k), admission.Answered, created("x"), idempotency.StatusFresh)
			s.down()
			expectReplay(t, g.Claim(t.Context(), k), 201, "x")
		})
	})
}

func TestATimeOutIsNotAMiss(t *testing.T) {
	// The store writes the claim, and its reply is lost.
	t.Run("closed withdraws the claim", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *faulty) {
			g, other := newGate(t, s, uncached), newGate(t, s, uncached)
			p := holdPolicy()
			p.Wait = 0
			k := prepare(g, "k", "body", p)
			s.fail(s.after, 1, idempotency.OpClaim)
			s.fail(s.before, 3, idempotency.OpRead, idempotency.OpRelease) // and stays away for a while
			expectRefusal(t, g.Claim(t.Context(), k), admission.StoreUnavailable)
			expectRefusal(t, other.Claim(t.Context(), k), admission.KeyInProgress)
			time.Sleep(10 * time.Second) // before the lease is over
			g.Release(mustWin(t, other, k))
		})
	})
	t.Run("open settles the claim", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *faulty) {
			g, other := newGate(t, s, uncached), newGate(t, s, uncached)
			k := prepare(g, "k", "body", openPolicy())
			s.fail(s.after, 1, idempotency.OpClaim)
			f := g.Claim(t.Context(), k)
			expectRefusal(t, other.Claim(t.Context(), k), admission.KeyInProgress)
			mustSettle(t, g, f.Claim, admission.Answered, created("x"), idempotency.StatusBypassed)
			time.Sleep(time.Second)
			expectReplay(t, other.Claim(t.Context(), k), 201, "x")
		})
	})
}

func TestAnAnswerThatCannotBeStoredIsStoredLater(t *testing.T) {
	for when, lost := range map[string]bool{"the store was down": false, "only the reply was lost": true} {
		t.Run(when, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *faulty) {
				g, other := newGate(t, s, idempotency.Options{}), newGate(t, s, uncached)
				k := prepare(g, "k", "body", holdPolicy())
				c := mustWin(t, g, k)
				failures := s.before
				if lost {
					failures = s.after
				}
				s.fail(failures, 3, idempotency.OpSettle)
				body := []byte("x")
				mustSettle(t, g, c, admission.Answered, idempotency.Response{Status: 200, Body: body}, idempotency.StatusNotStored)
				body[0] = 'Y' // the transport reuses its memory
				time.Sleep(5 * time.Second)
				expectReplay(t, other.Claim(t.Context(), k), 200, "x")
				if st := g.Stats(); st.Lost != 0 || st.Retrying != 0 {
					t.Errorf("%d lost, %d retrying", st.Lost, st.Retrying)
				}
			})
		})
	}
	t.Run("but not for ever", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *faulty) {
			g := newGate(t, s, idempotency.Options{RetryFor: 10 * time.Second})
			k := prepare(g, "k", "body", holdPolicy())
			c := mustWin(t, g, k)
			s.fail(s.before, -1, idempotency.OpSettle)
			mustSettle(t, g, c, admission.Answered, created("x"), idempotency.StatusNotStored)
			time.Sleep(11 * time.Second)
			if st := g.Stats(); st.Lost != 1 || st.RetriesOver != 1 || st.Retrying != 0 {
				t.Errorf("%d lost, %d given up, %d retrying; want 1, 1, 0", st.Lost, st.RetriesOver, st.Retrying)
			}
			time.Sleep(2 * time.Second)
			expectRefusal(t, g.Claim(t.Context(), k), admission.KeyInDoubt) // never a second execution
		})
	})
	t.Run("nor without bound", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *faulty) {
			g := newGate(t, s, idempotency.Options{MaxRetrying: 2, MaxRetryingBytes: 1000})
			s.fail(s.before, -1, idempotency.OpSettle)
			for i := range 5 {
				c := mustWin(t, g, prepare(g, fmt.Sprint(i), "body", holdPolicy()))
				mustSettle(t, g, c, admission.Answered, created("x"), idempotency.StatusNotStored)
			}
			if st := g.Stats(); st.Retrying != 2 || st.Lost != 3 {
				t.Errorf("%d retrying, %d lost; want 2 and 3", st.Retrying, st.Lost)
			}
		})
	})
}

func TestAReleaseThatFailsIsMadeUpFor(t *testing.T) {
	inBubble(t, func(t *testing.T, s *faulty) {
		g := newGate(t, s, idempotency.Options{})
		k := prepare(g, "k", "body", holdPolicy())
		c := mustWin(t, g, k)
		s.fail(s.before, 2, idempotency.OpRelease)
		g.Release(c)
		time.Sleep(5 * time.Second)
		g.Release(mustWin(t, g, k))
	})
}

func TestAForgetfulStoreIsReminded(t *testing.T) {
	inBubble(t, func(t *testing.T, s *faulty) {
		g := newGate(t, s, idempotency.Options{})
		k := prepare(g, "k", "body", holdPolicy())
		c := mustWin(t, g, k)
		r, err := s.Store.Read(t.Context(), c.Name())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Store.Release(t.Context(), c.Name(), r.Record.Owner, false); err != nil { // a restart without persistence
			t.Fatal(err)
		}
		mustSettle(t, g, c, admission.Answered, created("x"), idempotency.StatusFresh)
		expectReplay(t, newGate(t, s, uncached).Claim(t.Context(), k), 201, "x")
	})
}

func TestCloseTriesOnceMoreAndWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, s *faulty) {
		g := newGate(t, s, idempotency.Options{})
		k := prepare(g, "k", "body", holdPolicy())
		c := mustWin(t, g, k)
		s.fail(s.before, 2, idempotency.OpSettle)
		mustSettle(t, g, c, admission.Answered, created("x"), idempotency.StatusNotStored)
		synctest.Wait()
		start := time.Now()
		if err := g.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("closing took %v although the store was back", waited)
		}
		expectReplay(t, newGate(t, s, uncached).Claim(t.Context(), k), 201, "x")
	})
}

func TestADamagedRecordIsNeitherReplayedNorExecuted(t *testing.T) {
	m := newMemory(t, idempotency.CodecOptions{}, idempotency.MemoryOptions{})
	g := newGate(t, m, uncached)
	k := prepare(g, "k", "body", holdPolicy())
	m.PlantForTest(t, g.RecordName(k), []byte("SLR\x01 something else"))
	expectRefusal(t, g.Claim(t.Context(), k), admission.StoreUnavailable)
	if f := g.Claim(t.Context(), prepare(g, "k", "body", openPolicy())); f.Status != idempotency.StatusBypassed {
		t.Errorf("open: %v, want bypassed", f.Status)
	}
}

func TestChangingTheSecretForgetsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, s *faulty) {
		before := newGate(t, s, uncached, secretA)
		k := prepare(before, "k", "body", holdPolicy())
		mustSettle(t, before, mustWin(t, before, k), admission.Answered, created("x"), idempotency.StatusFresh)
		for name, g := range map[string]*idempotency.Gate{
			"first step": newGate(t, s, idempotency.Options{}, secretA, secretB), "second step": newGate(t, s, idempotency.Options{}, secretB, secretA),
		} {
			k := prepare(g, "k", "body", holdPolicy())
			f, ok := g.Lookup(t.Context(), k)
			if !ok {
				t.Fatal(name, ": lookup finds nothing")
			}
			expectReplay(t, f, 201, "x")
			expectReplay(t, g.Claim(t.Context(), k), 201, "x")
			if _, ok := g.Cached(k); !ok {
				t.Error(name, ": not in memory after a replay")
			}
			expectRefusal(t, g.Claim(t.Context(), prepare(g, "k", "other", holdPolicy())), admission.KeyReused)
		}
	})
}

func TestDuringAChangeOfSecretOneOfManyExecutes(t *testing.T) {
	m := newMemory(t, idempotency.CodecOptions{}, idempotency.MemoryOptions{})
	old, new := newGate(t, m, uncached, secretA, secretB), newGate(t, m, uncached, secretB, secretA)
	p := holdPolicy()
	p.Wait = 20 * time.Second
	for i := range 50 {
		var executions atomic.Int64
		var wg sync.WaitGroup
		for _, g := range []*idempotency.Gate{old, new, old, new} {
			wg.Go(func() {
				k := prepare(g, fmt.Sprint("change ", i), "body", p)
				f := g.Claim(context.Background(), k)
				if f.Claim == nil {
					expectReplay(t, f, 201, "x")
					return
				}
				executions.Add(1)
				mustSettle(t, g, f.Claim, admission.Answered, created("x"), idempotency.StatusFresh)
			})
		}
		wg.Wait()
		if n := executions.Load(); n != 1 {
			t.Fatalf("request %d was executed %d times", i, n)
		}
	}
}

func TestTakingOverUnderTheOldSecret(t *testing.T) {
	inBubble(t, func(t *testing.T, s *faulty) {
		before, after := newGate(t, s, uncached, secretA, secretB), newGate(t, s, uncached, secretB, secretA)
		mustWin(t, before, prepare(before, "k", "body", releasePolicy()))
		time.Sleep(13 * time.Second)
		k := prepare(after, "k", "body", releasePolicy())
		c := mustWin(t, after, k)
		if c.Attempt() != 2 {
			t.Errorf("attempt %d, want 2", c.Attempt())
		}
		mustSettle(t, after, c, admission.Answered, created("second"), idempotency.StatusFresh)
		for _, g := range []*idempotency.Gate{before, after} {
			expectReplay(t, g.Claim(t.Context(), prepare(g, "k", "body", releasePolicy())), 201, "second")
		}
	})
}

func TestAnOperatorResolvesADoubt(t *testing.T) {
	rk := idempotency.RecordKey{Tenant: "t", Scope: "r", Key: "k"}
	doubt := func(t *testing.T, s *faulty) (*idempotency.Gate, *idempotency.Keyed, *idempotency.Claim) {
		g := newGate(t, s, uncached)
		p := holdPolicy()
		p.Wait = 0
		k := prepare(g, "k", "body", p)
		if _, err := g.Find(t.Context(), rk); !errors.Is(err, idempotency.ErrNoRecord) {
			t.Errorf("finding what is not there: %v", err)
		}
		c := mustWin(t, g, k)
		if _, err := g.Resolve(t.Context(), rk, idempotency.Resolution{}); !errors.Is(err, idempotency.ErrRunning) {
			t.Errorf("resolving a running request: %v, want ErrRunning", err)
		}
		time.Sleep(13 * time.Second)
		expectRefusal(t, g.Claim(t.Context(), k), admission.KeyInDoubt)
		v, err := g.Find(t.Context(), rk)
		if err != nil || v.State != idempotency.InDoubt || v.Name != g.RecordName(k) || v.Attempt != 1 || v.OnUnknown != "hold" {
			t.Errorf("found %+v, %v", v, err)
		}
		return g, k, c
	}
	t.Run("to completed", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *faulty) {
			g, k, c := doubt(t, s)
			change, err := g.Resolve(t.Context(), rk, idempotency.Resolution{Answer: &idempotency.Answer{Status: 201, Body: []byte("by hand")}})
			if err != nil || change.Before.State != idempotency.InDoubt || change.After == nil || change.After.State != idempotency.Completed {
				t.Errorf("changed %+v, %v", change, err)
			}
			expectReplay(t, g.Claim(t.Context(), k), 201, "by hand")
			mustSettle(t, g, c, admission.Answered, created("late"), idempotency.StatusNotStored)
			expectReplay(t, g.Claim(t.Context(), k), 201, "by hand")
			if _, err := g.Resolve(t.Context(), rk, idempotency.Resolution{Answer: &idempotency.Answer{Status: 200}}); !errors.Is(err, idempotency.ErrAnswered) {
				t.Errorf("resolving it again: %v, want ErrAnswered", err)
			}
		})
	})
	t.Run("to absent", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *faulty) {
			g, k, _ := doubt(t, s)
			change, err := g.Resolve(t.Context(), rk, idempotency.Resolution{})
			if err != nil || change.After != nil {
				t.Errorf("changed %+v, %v", change, err)
			}
			c := mustWin(t, g, k)
			mustSettle(t, g, c, admission.Answered, created("again"), idempotency.StatusFresh)
			if _, err := g.Resolve(t.Context(), rk, idempotency.Resolution{}); err != nil {
				t.Errorf("removing an answered record: %v", err)
			}
			g.Release(mustWin(t, g, k))
		})
	})
	t.Run("not to nonsense", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *faulty) {
			g, k, _ := doubt(t, s)
			if _, err := g.Resolve(t.Context(), rk, idempotency.Resolution{Answer: &idempotency.Answer{Status: 99}}); err == nil {
				t.Error("accepted status 99")
			}
			expectRefusal(t, g.Claim(t.Context(), k), admission.KeyInDoubt)
		})
	})
}

// stopped is a store at a gateway that is stopped for a while between a claim's
// being written and its reply; by then the connection has timed out, so the
// claim is made once more, as Redis does it.
type stopped struct {
	idempotency.Store
	once  sync.Once
	pause time.Duration
}

func (s *stopped) Claim(ctx context.Context, name string, r *idempotency.Record) (*idempotency.Reading, error) {
	found, err := s.Store.Claim(ctx, name, r)
	s.once.Do(func() {
		time.Sleep(s.pause)
		found, err = s.Store.Claim(ctx, name, r)
	})
	return found, err
}

// Others have to assume that a silent gateway has sent its request. That gateway
// itself knows that it has not, and leaves nothing in doubt.
func TestAClaimThatLapsedUnheardIsMadeAnew(t *testing.T) {
	inBubble(t, func(t *testing.T, s *faulty) {
		p := holdPolicy()
		g, other := newGate(t, &stopped{Store: s, pause: p.Lease + 2*time.Second}, uncached), newGate(t, s, uncached)
		k := prepare(g, "k", "body", p)
		var wg sync.WaitGroup
		wg.Go(func() {
			mustSettle(t, g, mustWin(t, g, k), admission.Answered, created("x"), idempotency.StatusFresh)
		})
		time.Sleep(p.Lease + time.Second)
		expectRefusal(t, other.Claim(t.Context(), k), admission.KeyInDoubt)
		wg.Wait()
		expectReplay(t, other.Claim(t.Context(), k), 201, "x")
	})
}
