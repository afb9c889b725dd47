package idempotency_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/admission"
	"sluice/idempotency"
)

// inBubble runs test with a memory store and time that passes at once.
func inBubble(t *testing.T, test func(t *testing.T, s *faulty)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, newFaulty(newMemory(t, idempotency.CodecOptions{}, idempotency.MemoryOptions{})))
	})
}

func TestARepetitionGetsTheFirstAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, s *faulty) {
		g, other := newGate(t, s, idempotency.Options{}), newGate(t, s, uncached)
		k := prepare(g, "k", "body", holdPolicy())
		if _, ok := g.Cached(k); ok {
			t.Error("something is known of a new key")
		}
		if _, ok := g.Lookup(t.Context(), k); ok {
			t.Error("the store knows a new key")
		}
		c := mustWin(t, g, k)
		if c.Attempt() != 1 {
			t.Errorf("attempt %d, want 1", c.Attempt())
		}
		body := []byte(`{"id":7}`)
		mustSettle(t, g, c, admission.Answered, idempotency.Response{
			Status: 201, Body: body, Header: fields("content-type", "application/json", "Location", "/7", "Set-Cookie", "a=b", "X-Own", "1"),
		}, idempotency.StatusFresh)
		copy(body, "XXXXXXXX") // the transport reuses its memory

		cached, ok := g.Cached(k)
		if !ok {
			t.Fatal("the answer is not in memory")
		}
		looked, ok := other.Lookup(t.Context(), k)
		if !ok {
			t.Fatal("the answer is not in the store")
		}
		for where, f := range map[string]idempotency.Finding{
			"memory": cached, "lookup": looked, "claim": g.Claim(t.Context(), k), "other gateway": other.Claim(t.Context(), k),
		} {
			expectReplay(t, f, 201, `{"id":7}`)
			want := []idempotency.Field{{Name: "Content-Type", Value: "application/json"}, {Name: "Location", Value: "/7"}}
			if f.Status != idempotency.StatusReplayed || !slices.Equal(f.Answer.Fields, want) || f.BodyOmitted {
				t.Errorf("%s: %v with %v, want %v", where, f.Status, f.Answer.Fields, want)
			}
		}
	})
}

func TestAnotherRequestUnderTheKeyIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, s *faulty) {
		g, other := newGate(t, s, idempotency.Options{}), newGate(t, s, uncached)
		first, second := prepare(g, "k", "one", holdPolicy()), prepare(g, "k", "two", holdPolicy())
		c := mustWin(t, g, first)
		start := time.Now()
		expectRefusal(t, g.Claim(t.Context(), second), admission.KeyReused)     // while it runs here
		expectRefusal(t, other.Claim(t.Context(), second), admission.KeyReused) // and elsewhere
		if waited := time.Since(start); waited != 0 {
			t.Errorf("waited %v for another request", waited)
		}
		mustSettle(t, g, c, admission.Answered, created("x"), idempotency.StatusFresh)
		expectRefusal(t, g.Claim(t.Context(), second), admission.KeyReused) // from memory
		expectRefusal(t, other.Claim(t.Context(), second), admission.KeyReused)
		f, _ := other.Lookup(t.Context(), second)
		expectRefusal(t, f, admission.KeyReused)
	})
}

func TestKeysOfTenantsAndRoutesAreApart(t *testing.T) {
	inBubble(t, func(t *testing.T, s *faulty) {
		g := newGate(t, s, idempotency.Options{})
		seen := map[string]bool{}
		for _, a := range []idempotency.Ask{
			{Tenant: "a", Scope: "r", Key: []byte("k")}, {Tenant: "b", Scope: "r", Key: []byte("k")},
			{Tenant: "a", Scope: "s", Key: []byte("k")}, {Tenant: "a", Scope: "r", Key: []byte("K")},
			{Tenant: "ar", Scope: "", Key: []byte("k")}, {Tenant: "", Scope: "ar", Key: []byte("k")}, {Tenant: "a", Scope: "rk", Key: nil},
		} {
			a.Policy = holdPolicy()
			k := g.Prepare(&a)
			if seen[g.RecordName(&k)] {
				t.Errorf("%+v shares its record", a)
			}
			seen[g.RecordName(&k)] = true
			c := mustWin(t, g, &k)
			mustSettle(t, g, c, admission.Answered, created(a.Tenant), idempotency.StatusFresh)
		}
	})
}

func TestDuplicatesWaitForTheFirst(t *testing.T) {
	for _, where := range []string{"same gateway", "other gateway"} {
		t.Run(where, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *faulty) {
				g := newGate(t, s, idempotency.Options{})
				at := g
				if where == "other gateway" {
					at = newGate(t, s, idempotency.Options{})
				}
				k := prepare(g, "k", "body", holdPolicy())
				c := mustWin(t, g, k)
				var wg sync.WaitGroup
				var replays atomic.Int64
				start := time.Now()
				for range 5 {
					wg.Go(func() {
						f := at.Claim(context.Background(), k)
						expectReplay(t, f, 201, "first")
						replays.Add(1)
					})
				}
				time.Sleep(300 * time.Millisecond)
				mustSettle(t, g, c, admission.Answered, created("first"), idempotency.StatusFresh)
				wg.Wait()
				if replays.Load() != 5 {
					t.Errorf("%d of 5 were answered", replays.Load())
				}
				// Locally they are woken; across gateways the next look finds it.
				if limit := 300*time.Millisecond + map[string]time.Duration{"same gateway": 0, "other gateway": 300 * time.Millisecond}[where]; time.Since(start) > limit {
					t.Errorf("waited %v, want at most %v", time.Since(start), limit)
				}
				if n := s.called(idempotency.OpClaim); n > 2 {
					t.Errorf("%d claims reached the store; duplicates on one gateway should share one", n)
				}
			})
		})
	}
}

func TestADuplicateWaitsNoLongerThanThePolicySays(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Second} {
		for _, where := range []string{"same gateway", "other gateway"} {
			t.Run(fmt.Sprint(wait, " ", where), func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *faulty) {
					g := newGate(t, s, idempotency.Options{})
					at := g
					if where == "other gateway" {
						at = newGate(t, s, idempotency.Options{})
					}
					p := holdPolicy()
					p.Wait = wait
					k := prepare(g, "k", "body", p)
					c := mustWin(t, g, k)
					start := time.Now()
					f := at.Claim(t.Context(), k)
					expectRefusal(t, f, admission.KeyInProgress)
					if f.Status != idempotency.StatusInProgress {
						t.Errorf("status %v", f.Status)
					}
					if got := time.Since(start); got != wait {
						t.Errorf("waited %v, want %v", got, wait)
					}
					f, _ = at.Lookup(t.Context(), k) // which never waits
					expectRefusal(t, f, admission.KeyInProgress)
					g.Release(c)
				})
			})
		}
	}
}

func TestWaitersAreCapped(t *testing.T) {
	inBubble(t, func(t *testing.T, s *faulty) {
		g := newGate(t, s, idempotency.Options{MaxWaiters: 5, MaxWaitersPerKey: 3})
		var claims []*idempotency.Claim
		var wg sync.WaitGroup
		for _, key := range []string{"a", "b"} {
			k := prepare(g, key, "body", holdPolicy())
			claims = append(claims, mustWin(t, g, k))
			for range 4 {
				wg.Go(func() { expectRefusal(t, g.Claim(context.Background(), k), admission.KeyInProgress) })
			}
		}
		synctest.Wait()
		if st := g.Stats(); st.Waiting != 5 || st.WaitersUp != 3 {
			t.Errorf("%d wait and %d were turned away, want 5 and 3", st.Waiting, st.WaitersUp)
		}
		wg.Wait()
		for _, c := range claims {
			g.Release(c)
		}
		if st := g.Stats(); st.Waiting != 0 || st.InFlight != 0 {
			t.Errorf("%d still wait, %d in flight", st.Waiting, st.InFlight)
		}
	})
}

func TestAFreedKeyIsExecutedByOneOfThoseWhoWait(t *testing.T) {
	inBubble(t, func(t *testing.T, s *faulty) {
		g := newGate(t, s, idempotency.Options{})
		k := prepare(g, "k", "body", holdPolicy())
		c := mustWin(t, g, k)
		var wg sync.WaitGroup
		var executed, replayed atomic.Int64
		for range 6 {
			wg.Go(func() {
				switch f := g.Claim(context.Background(), k); f.Verdict {
				case admission.Admit:
					executed.Add(1)
					time.Sleep(10 * time.Millisecond)
					g.Settle(f.Claim, admission.Answered, created("second"))
				case admission.Replay:
					expectReplay(t, f, 201, "second")
					replayed.Add(1)
				}
			})
		}
		synctest.Wait()
		mustSettle(t, g, c, admission.Answered, idempotency.Response{Status: 429}, idempotency.StatusFresh)
		wg.Wait()
		if executed.Load() != 1 || replayed.Load() != 5 {
			t.Errorf("%d executed, %d replayed; want 1 and 5", executed.Load(), replayed.Load())
		}
	})
}

func TestASilentOwnersRecordIsInDoubtUnderHold(t *testing.T) {
	for _, where := range []string{"same gateway", "other gateway"} {
		t.Run(where, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *faulty) {
				g := newGate(t, s, uncached)
				at := g
				if where == "other gateway" {
					at = newGate(t, s, uncached)
				}
				p := holdPolicy()
				p.Wait = 0
				k := prepare(g, "k", "body", p)
				c := mustWin(t, g, k)
				time.Sleep(time.Until(c.LeaseEnds()))
				expectRefusal(t, at.Claim(t.Context(), k), admission.KeyInProgress)
				time.Sleep(2 * time.Millisecond)
				f, _ := at.Lookup(t.Context(), k) // knows without changing anything
				expectRefusal(t, f, admission.KeyInDoubt)
				for range 3 {
					expectRefusal(t, at.Claim(t.Context(), k), admission.KeyInDoubt)
				}
				if n := at.Stats().Lapsed; n != 1 {
					t.Errorf("%d lapses counted, want 1", n)
				}
				expectRefusal(t, at.Claim(t.Context(), prepare(g, "k", "other", holdPolicy())), admission.KeyReused)
				// The owner was only slow.
				mustSettle(t, g, c, admission.Answered, created("late"), idempotency.StatusFresh)
				expectReplay(t, at.Claim(t.Context(), k), 201, "late")
			})
		})
	}
}

func TestASilentOwnersRecordIsTakenOverUnderRelease(t *testing.T) {
	inBubble(t, func(t *testing.T, s *faulty) {
		g, other := newGate(t, s, idempotency.Options{}), newGate(t, s, idempotency.Options{})
		k := prepare(g, "k", "body", releasePolicy())
		c := mustWin(t, g, k)
		time.Sleep(13 * time.Second)
		if _, ok := other.Lookup(t.Context(), k); ok {
			t.Error("a record that can be taken over stands in the way")
		}
		second := mustWin(t, other, k)
		if second.Attempt() != 2 {
			t.Errorf("attempt %d, want 2", second.Attempt())
		}
		mustSettle(t, other, second, admission.Answered, created("second"), idempotency.StatusFresh)
		mustSettle(t, g, c, admission.Answered, created("first"), idempotency.StatusNotStored)
		expectReplay(t, g.Claim(t.Context(), k), 201, "second")
		if a, b := other.Stats(), g.Stats(); a.TakenOver != 1 || b.Lost != 1 {
			t.Errorf("%d takeovers and %d lost answers counted, want 1 and 1", a.TakenOver, b.Lost)
		}
	})
}

func TestAClaimedRecordKeepsThePolicyItWasClaimedUnder(t *testing.T) {
	inBubble(t, func(t *testing.T, s *faulty) {
		g := newGate(t, s, uncached)
		mustWin(t, g, prepare(g, "k", "body", holdPolicy()))
		time.Sleep(13 * time.Second)
		expectRefusal(t, g.Claim(t.Context(), prepare(g, "k", "body", releasePolicy())), admission.KeyInDoubt)
	})
}

func TestAnUnknownOutcome(t *testing.T) {
	t.Run("is in doubt under hold", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *faulty) {
			g := newGate(t, s, idempotency.Options{})
			k := prepare(g, "k", "body", holdPolicy())
			mustSettle(t, g, mustWin(t, g, k), admission.Unknown, idempotency.Response{}, idempotency.StatusInDoubt)
			expectRefusal(t, g.Claim(t.Context(), k), admission.KeyInDoubt)
		})
	})
	t.Run("with an answer of the origin replays that", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *faulty) {
			g := newGate(t, s, idempotency.Options{})
			k := prepare(g, "k", "body", holdPolicy())
			mustSettle(t, g, mustWin(t, g, k), admission.Answered, idempotency.Response{Status: 500, Body: []byte("oops")}, idempotency.StatusInDoubt)
			f := g.Claim(t.Context(), k)
			expectReplay(t, f, 500, "oops")
			if f.Status != idempotency.StatusInDoubt {
				t.Errorf("status %v", f.Status)
			}
		})
	})
	t.Run("frees the key under release", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *faulty) {
			g := newGate(t, s, idempotency.Options{})
			k := prepare(g, "k", "body", releasePolicy())
			mustSettle(t, g, mustWin(t, g, k), admission.Unknown, idempotency.Response{}, idempotency.StatusFresh)
			g.Release(mustWin(t, g, k))
		})
	})
}

func TestABodyTooLargeToKeepLeavesATombstone(t *testing.T) {
	for name, r := range map[string]idempotency.Response{
		"too large": {Status: 200, Header: fields("ETag", `"1"`), Body: make([]byte, 11)},
		"streamed":  {Status: 200, Header: fields("ETag", `"1"`), BodyOmitted: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *faulty) {
				g, other := newGate(t, s, idempotency.Options{}), newGate(t, s, uncached)
				p := holdPolicy()
				p.MaxReplay = 10
				k := prepare(g, "k", "body", p)
				mustSettle(t, g, mustWin(t, g, k), admission.Answered, r, idempotency.StatusFresh)
				for _, at := range []*idempotency.Gate{g, other} {
					f := at.Claim(t.Context(), k)
					expectReplay(t, f, 200, "")
					if !f.BodyOmitted || len(f.Answer.Fields) != 1 {
						t.Errorf("replay %+v, want the kept field and a sign that the body is missing", f)
					}
				}
			})
		})
	}
}

func TestABodyIsReplayedToItsCredentialOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, s *faulty) {
		g := newGate(t, s, idempotency.Options{})
		p := holdPolicy()
		ask := func(p *idempotency.Policy, credential string) *idempotency.Keyed {
			k := g.Prepare(&idempotency.Ask{Tenant: "t", Scope: "r", Key: []byte("k"), Credential: []byte(credential), Policy: p})
			return &k
		}
		p.BindCredential = true
		mustSettle(t, g, mustWin(t, g, ask(p, "mine")), admission.Answered, created("private"), idempotency.StatusFresh)
		expectReplay(t, g.Claim(t.Context(), ask(p, "mine")), 201, "private")
		for _, other := range []string{"yours", ""} {
			f := g.Claim(t.Context(), ask(p, other))
			expectReplay(t, f, 201, "")
			if !f.BodyOmitted {
				t.Error("nothing says that a body is missing")
			}
		}
		expectReplay(t, g.Claim(t.Context(), ask(p, "mine")), 201, "private") // which the others have not spoilt
	})
}

func TestAClaimEndsOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, s *faulty) {
		g := newGate(t, s, idempotency.Options{})
		k := prepare(g, "k", "body", holdPolicy())
		c := mustWin(t, g, k)
		mustSettle(t, g, c, admission.Answered, created("kept"), idempotency.StatusFresh)
		g.Release(c)
		mustSettle(t, g, c, admission.Unknown, idempotency.Response{}, idempotency.StatusNone)
		expectReplay(t, g.Claim(t.Context(), k), 201, "kept")
		if n := s.called(idempotency.OpSettle) + s.called(idempotency.OpRelease); n != 1 {
			t.Errorf("%d endings reached the store, want 1", n)
		}
	})
}

func TestRecordsAreForgottenAfterTheirRetention(t *testing.T) {
	inBubble(t, func(t *testing.T, s *faulty) {
		g := newGate(t, s, idempotency.Options{CacheFor: 48 * time.Hour})
		k := prepare(g, "k", "body", holdPolicy())
		mustSettle(t, g, mustWin(t, g, k), admission.Answered, created("x"), idempotency.StatusFresh)
		time.Sleep(24*time.Hour - time.Millisecond)
		expectReplay(t, g.Claim(t.Context(), k), 201, "x") // which does not prolong it
		time.Sleep(time.Millisecond)
		g.Release(mustWin(t, g, k))
	})
}

func TestACallerThatGivesUpDoesNotSpoilTheOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, s *faulty) {
		g, other := newGate(t, s, idempotency.Options{}), newGate(t, s, idempotency.Options{})
		k := prepare(g, "k", "body", holdPolicy())
		c := mustWin(t, other, k)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { g.Claim(ctx, k) }) // leads, and polls
		synctest.Wait()
		wg.Go(func() { expectReplay(t, g.Claim(context.Background(), k), 201, "x") })
		synctest.Wait()
		cancel()
		synctest.Wait()
		mustSettle(t, other, c, admission.Answered, created("x"), idempotency.StatusFresh)
		wg.Wait()
	})
}

func TestOneOfManyExecutes(t *testing.T) {
	s := newMemory(t, idempotency.CodecOptions{}, idempotency.MemoryOptions{})
	testOneOfManyExecutes(t, s)
}

// testOneOfManyExecutes sends repetitions of many requests through several
// gateways at once.
func testOneOfManyExecutes(t *testing.T, s idempotency.Store) {
	const keys, callers = 40, 12
	gates := []*idempotency.Gate{newGate(t, s, idempotency.Options{}), newGate(t, s, idempotency.Options{}), newGate(t, s, uncached)}
	p := holdPolicy()
	p.Wait = 20 * time.Second
	var executions [keys]atomic.Int64
	var wg sync.WaitGroup
	for i := range keys {
		for j := range callers {
			wg.Go(func() {
				g := gates[j%len(gates)]
				k := prepare(g, fmt.Sprint("many ", i), "body", p)
				f := g.Claim(context.Background(), k)
				if f.Claim != nil {
					executions[i].Add(1)
					mustSettle(t, g, f.Claim, admission.Answered, created(fmt.Sprint(i)), idempotency.StatusFresh)
					return
				}
				expectReplay(t, f, 201, fmt.Sprint(i))
			})
		}
	}
	wg.Wait()
	for i := range executions {
		if n := executions[i].Load(); n != 1 {
			t.Errorf("request %d was executed %d times", i, n)
		}
	}
}
