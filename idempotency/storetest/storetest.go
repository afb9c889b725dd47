// Package storetest holds every store of idempotency records to one contract:
// the state machine, row by row, and what [idempotency.Store] says about lost
// replies, damaged records and contexts.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/idempotency"
)

// Harness is a store under test, with what a test may do behind its back.
type Harness struct {
	Store idempotency.Store
	// Age makes the record older by d, as the store's clock sees it.
	Age func(t testing.TB, name string, d time.Duration)
	// Plant puts bytes under a name that are no record.
	Plant func(t testing.TB, name string, value []byte)
}

// Run runs the suite. Tests use names of their own, so that one store serves
// all.
func Run(t *testing.T, h Harness) {
	t.Run("Claim", h.claim)
	t.Run("Read", h.read)
	t.Run("Lapse", h.lapse)
	t.Run("Settle", h.settle)
	t.Run("Release", h.release)
	t.Run("RetentionEnds", h.retentionEnds)
	t.Run("SettlingStartsRetentionAnew", h.retentionAnew)
	t.Run("RecordsComeBackWhole", h.fidelity)
	t.Run("DamagedRecordsAreErrors", h.damaged)
	t.Run("AnEndedContextIsNoMiss", h.contextOver)
	t.Run("OneOfManyClaimsWins", h.manyClaims)
	t.Run("OneOfManyTakeoversWins", h.manyTakeovers)
	t.Run("AgreesWithTheModel", h.model)
}

const (
	lease     = 5 * time.Second
	retention = 10 * time.Minute
)

var names atomic.Int64

func name() string { return fmt.Sprintf("sluice-test:%d", names.Add(1)) }

var (
	alice  = idempotency.Owner{Token: [16]byte{1}, Attempt: 1}
	bob    = idempotency.Owner{Token: [16]byte{2}, Attempt: 1}
	carol  = idempotency.Owner{Token: [16]byte{3}, Attempt: 1}
	answer = &idempotency.Answer{Status: 201, Fields: []idempotency.Field{{Name: "Location", Value: "/orders/7"}}, Body: []byte(`{"id":7}`)}
)

// record returns a record of o in state s.
func record(s idempotency.State, o idempotency.Owner) *idempotency.Record {
	r := &idempotency.Record{
		State: s, Owner: o, Lease: lease, Retention: retention,
		Claimed:     time.UnixMilli(1_700_000_000_000),
		Fingerprint: idempotency.Fingerprint{7},
	}
	if s != idempotency.InFlight {
		r.Settled = time.UnixMilli(1_700_000_000_250)
	}
	switch s {
	case idempotency.Completed:
		r.Answer = answer
	case idempotency.Tombstone:
		r.Answer = &idempotency.Answer{Status: answer.Status, Fields: answer.Fields}
	}
	return r
}

// states are all a record can be in.
var states = []idempotency.State{
	idempotency.Absent, idempotency.InFlight, idempotency.Completed, idempotency.Tombstone, idempotency.InDoubt,
}

// given brings a new record of o into state s and returns it with its name.
func (h *Harness) given(t testing.TB, s idempotency.State, o idempotency.Owner) (string, *idempotency.Record) {
	t.Helper()
	n := name()
	if s == idempotency.Absent {
		return n, nil
	}
	r := record(idempotency.InFlight, o)
	if found, err := h.Store.Claim(t.Context(), n, r); found != nil || err != nil {
		t.Fatalf("claiming a new record: %v, %v", found, err)
	}
	if s == idempotency.InFlight {
		return n, r
	}
	r = record(s, o)
	if err := h.Store.Settle(t.Context(), n, o, r); err != nil {
		t.Fatalf("settling it as %v: %v", s, err)
	}
	return n, r
}

// diff describes how two records differ.
func diff(want, got *idempotency.Record) string {
	if reflect.DeepEqual(want, got) {
		return "" // nearly always, and much quicker
	}
	return cmp.Diff(want, got, cmp.Comparer(bytes.Equal))
}

// expect checks what is stored under n; nil is nothing.
func (h *Harness) expect(t testing.TB, n string, want *idempotency.Record) {
	t.Helper()
	got, err := h.Store.Read(t.Context(), n)
	if err != nil {
		t.Fatalf("reading: %v", err)
	}
	if d := diff(want, got.Record); d != "" {
		t.Errorf("stored record (-want +got):\n%s", d)
	}
}

func (h *Harness) claim(t *testing.T) {
	for _, s := range states {
		t.Run("on "+s.String(), func(t *testing.T) {
			n, before := h.given(t, s, alice)
			found, err := h.Store.Claim(t.Context(), n, record(idempotency.InFlight, bob))
			if err != nil {
				t.Fatal(err)
			}
			if before == nil {
				if found != nil {
					t.Errorf("found %v where nothing was", found.Record)
				}
				h.expect(t, n, record(idempotency.InFlight, bob))
				return
			}
			if found == nil {
				t.Fatal("won a record that exists")
			}
			if d := diff(before, found.Record); d != "" {
				t.Errorf("found record (-want +got):\n%s", d)
			}
			h.expect(t, n, before)
		})
	}
	t.Run("again after a lost reply finds itself", func(t *testing.T) {
		n, before := h.given(t, idempotency.InFlight, alice)
		found, err := h.Store.Claim(t.Context(), n, before)
		if err != nil || found == nil || found.Record.Owner != alice {
			t.Fatalf("found %+v, %v; want the claim itself", found, err)
		}
	})
}

func (h *Harness) read(t *testing.T) {
	for _, s := range states {
		t.Run(s.String(), func(t *testing.T) {
			n, want := h.given(t, s, alice)
			got, err := h.Store.Read(t.Context(), n)
			if err != nil {
				t.Fatal(err)
			}
			if d := diff(want, got.Record); d != "" {
				t.Errorf("record (-want +got):\n%s", d)
			}
			if want != nil && (got.Left > retention || got.Left < retention-time.Minute) {
				t.Errorf("%v of its retention is left, want about %v", got.Left, retention)
			}
		})
	}
}

func (h *Harness) lapse(t *testing.T) {
	inDoubt := record(idempotency.InFlight, alice)
	inDoubt.State = idempotency.InDoubt
	takeover := record(idempotency.InFlight, idempotency.Owner{Token: bob.Token, Attempt: 2})
	for _, next := range []*idempotency.Record{inDoubt, takeover} {
		t.Run("to "+next.State.String(), func(t *testing.T) {
			for _, s := range states {
				for _, over := range []bool{false, true} {
					for _, of := range []idempotency.Owner{alice, carol} {
						t.Run(fmt.Sprintf("from %v, lease over %v, right owner %v", s, over, of == alice), func(t *testing.T) {
							n, want := h.given(t, s, alice)
							if over && want != nil {
								h.Age(t, n, lease+50*time.Millisecond)
							}
							if s == idempotency.InFlight && over && of == alice {
								want = next
							}
							for range 2 { // the second time as if the reply had been lost
								got, err := h.Store.Lapse(t.Context(), n, of, next)
								if err != nil {
									t.Fatal(err)
								}
								if d := diff(want, got.Record); d != "" {
									t.Errorf("there is now (-want +got):\n%s", d)
								}
								if want == next && got.Left < retention-time.Minute {
									t.Errorf("only %v of its retention is left", got.Left)
								}
							}
							h.expect(t, n, want)
						})
					}
				}
			}
		})
	}
	t.Run("not a moment early", func(t *testing.T) {
		n, want := h.given(t, idempotency.InFlight, alice)
		h.Age(t, n, lease-time.Second)
		if got, err := h.Store.Lapse(t.Context(), n, alice, takeover); err != nil || got.Record.Owner != alice {
			t.Fatalf("a second before its lease was over it became %+v, %v", got.Record, err)
		}
		h.expect(t, n, want)
	})
}

func (h *Harness) settle(t *testing.T) {
	for _, s := range states {
		for _, to := range []idempotency.State{idempotency.Completed, idempotency.Tombstone, idempotency.InDoubt} {
			for _, who := range []idempotency.Owner{alice, bob} {
				t.Run(fmt.Sprintf("%v to %v, own %v", s, to, who == alice), func(t *testing.T) {
					n, want := h.given(t, s, alice)
					next := record(to, who)
					var wantErr error
					switch {
					case s == idempotency.Absent: // the store has lost the claim
						want = next
					case who != alice:
						wantErr = idempotency.ErrLost
					case s == idempotency.InFlight || s == idempotency.InDoubt:
						want = next
					}
					for range 2 { // the second time as if the reply had been lost
						if err := h.Store.Settle(t.Context(), n, who, next); !errors.Is(err, wantErr) {
							t.Fatalf("got error %v, want %v", err, wantErr)
						}
						h.expect(t, n, want)
					}
				})
			}
		}
	}
	t.Run("by an operator, under a new owner", func(t *testing.T) {
		n, _ := h.given(t, idempotency.InDoubt, alice)
		resolved := record(idempotency.Completed, bob)
		for range 2 {
			if err := h.Store.Settle(t.Context(), n, alice, resolved); err != nil {
				t.Fatal(err)
			}
			h.expect(t, n, resolved)
		}
		if err := h.Store.Settle(t.Context(), n, alice, record(idempotency.Completed, alice)); !errors.Is(err, idempotency.ErrLost) {
			t.Errorf("the first owner's late answer: %v, want ErrLost", err)
		}
		h.expect(t, n, resolved)
	})
	t.Run("after a takeover the first owner has lost", func(t *testing.T) {
		n, _ := h.given(t, idempotency.InFlight, alice)
		h.Age(t, n, lease+50*time.Millisecond)
		takeover := record(idempotency.InFlight, idempotency.Owner{Token: bob.Token, Attempt: 2})
		if got, err := h.Store.Lapse(t.Context(), n, alice, takeover); err != nil || got.Record.Owner.Token != bob.Token {
			t.Fatalf("taking over: %+v, %v", got.Record, err)
		}
		if err := h.Store.Settle(t.Context(), n, alice, record(idempotency.Completed, alice)); !errors.Is(err, idempotency.ErrLost) {
			t.Errorf("settling: %v, want ErrLost", err)
		}
		if err := h.Store.Release(t.Context(), n, alice, false); !errors.Is(err, idempotency.ErrLost) {
			t.Errorf("releasing: %v, want ErrLost", err)
		}
		h.expect(t, n, takeover)
	})
}

func (h *Harness) release(t *testing.T) {
	for _, s := range states {
		for _, who := range []idempotency.Owner{alice, bob} {
			for _, asAnswered := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v, own %v, as answered %v", s, who == alice, asAnswered), func(t *testing.T) {
					n, want := h.given(t, s, alice)
					answered := s == idempotency.Completed || s == idempotency.Tombstone
					var wantErr error
					switch {
					case who == alice && answered == asAnswered:
						want = nil
					case s != idempotency.Absent:
						wantErr = idempotency.ErrLost
					}
					for range 2 {
						if err := h.Store.Release(t.Context(), n, who, asAnswered); !errors.Is(err, wantErr) {
							t.Fatalf("got error %v, want %v", err, wantErr)
						}
						h.expect(t, n, want)
					}
				})
			}
		}
	}
}

func (h *Harness) retentionEnds(t *testing.T) {
	for _, s := range states[1:] {
		t.Run(s.String(), func(t *testing.T) {
			n, _ := h.given(t, s, alice)
			h.Age(t, n, retention)
			h.expect(t, n, nil)
			if found, err := h.Store.Claim(t.Context(), n, record(idempotency.InFlight, bob)); found != nil || err != nil {
				t.Errorf("claiming anew: %v, %v", found, err)
			}
		})
	}
}

func (h *Harness) retentionAnew(t *testing.T) {
	n, _ := h.given(t, idempotency.InFlight, alice)
	h.Age(t, n, retention/2)
	if err := h.Store.Settle(t.Context(), n, alice, record(idempotency.Completed, alice)); err != nil {
		t.Fatal(err)
	}
	got, err := h.Store.Read(t.Context(), n)
	if err != nil || got.Left < retention-time.Minute {
		t.Errorf("%v is left (%v), want about %v", got.Left, err, retention)
	}
}

func (h *Harness) fidelity(t *testing.T) {
	big := make([]byte, 300<<10)
	for i := range big {
		big[i] = byte(i / 1000)
	}
	odd := &idempotency.Record{
		State: idempotency.Completed, OnUnknown: idempotency.Release,
		Owner: idempotency.Owner{Token: [16]byte{0, 0xff, '\r', '\n', 0}, Attempt: 1<<32 - 1},
		Lease: time.Millisecond, Retention: 366 * 24 * time.Hour,
		Claimed: time.UnixMilli(1), Settled: time.UnixMilli(1 << 42),
		Fingerprint: idempotency.Fingerprint{0, 1, 2, 0xff}, Credential: idempotency.Tag{9},
		Answer: &idempotency.Answer{
			Status: 599,
			Fields: []idempotency.Field{{Name: "Link", Value: "<a>"}, {Name: "Link", Value: "<b>"}, {Name: "ETag", Value: ""}},
			Body:   big,
		},
	}
	n := name()
	if err := h.Store.Settle(t.Context(), n, odd.Owner, odd); err != nil {
		t.Fatal(err)
	}
	h.expect(t, n, odd)
}

func (h *Harness) damaged(t *testing.T) {
	r := record(idempotency.InFlight, alice)
	for what, value := range map[string][]byte{
		"text":         []byte("not a record"),
		"empty":        {},
		"other maker":  append([]byte("SLR\x02"), make([]byte, 200)...),
		"cut short":    []byte("SLR\x01\x01\x00"),
		"wrong inside": append([]byte("SLR\x01\x01\x00\x00\x00"), make([]byte, 200)...),
	} {
		t.Run(what, func(t *testing.T) {
			n := name()
			h.Plant(t, n, value)
			_, claim := h.Store.Claim(t.Context(), n, r)
			_, read := h.Store.Read(t.Context(), n)
			_, lapse := h.Store.Lapse(t.Context(), n, alice, record(idempotency.InDoubt, alice))
			for op, err := range map[string]error{"claim": claim, "read": read, "lapse": lapse} {
				if !errors.Is(err, idempotency.ErrCorrupt) {
					t.Errorf("%s: %v, want ErrCorrupt", op, err)
				}
			}
			// A store need not look inside a record to see whose it is.
			for op, err := range map[string]error{
				"settle":  h.Store.Settle(t.Context(), n, alice, record(idempotency.Completed, alice)),
				"release": h.Store.Release(t.Context(), n, alice, false),
			} {
				if !errors.Is(err, idempotency.ErrCorrupt) && !errors.Is(err, idempotency.ErrLost) {
					t.Errorf("%s: %v, want ErrCorrupt or ErrLost", op, err)
				}
			}
			if _, err := h.Store.Read(t.Context(), n); !errors.Is(err, idempotency.ErrCorrupt) {
				t.Errorf("afterwards reading gives %v: it has been changed", err)
			}
		})
	}
}

func (h *Harness) contextOver(t *testing.T) {
	n, want := h.given(t, idempotency.InFlight, alice)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	found, claim := h.Store.Claim(ctx, n, record(idempotency.InFlight, bob))
	_, read := h.Store.Read(ctx, n)
	_, lapse := h.Store.Lapse(ctx, n, alice, record(idempotency.InDoubt, alice))
	settle := h.Store.Settle(ctx, n, alice, record(idempotency.Completed, alice))
	release := h.Store.Release(ctx, n, alice, false)
	for op, err := range map[string]error{"claim": claim, "read": read, "lapse": lapse, "settle": settle, "release": release} {
		if err == nil {
			t.Errorf("%s succeeded (found %v) after its context was over", op, found)
		}
	}
	h.expect(t, n, want)
}

func (h *Harness) manyClaims(t *testing.T) {
	n := name()
	var won atomic.Int64
	h.many(t, func(i int) {
		found, err := h.Store.Claim(context.Background(), n, record(idempotency.InFlight, owner(i)))
		if err != nil {
			t.Error(err)
		}
		if found == nil {
			won.Add(1)
		}
	})
	if won.Load() != 1 {
		t.Errorf("%d claims won, want 1", won.Load())
	}
}

func (h *Harness) manyTakeovers(t *testing.T) {
	n, _ := h.given(t, idempotency.InFlight, alice)
	h.Age(t, n, lease+50*time.Millisecond)
	var won atomic.Int64
	h.many(t, func(i int) {
		next := record(idempotency.InFlight, owner(i))
		got, err := h.Store.Lapse(context.Background(), n, alice, next)
		if err != nil {
			t.Error(err)
			return
		}
		if got.Record != nil && got.Record.Owner == next.Owner {
			won.Add(1)
		}
	})
	if won.Load() != 1 {
		t.Errorf("%d takeovers won, want 1", won.Load())
	}
}

func owner(i int) idempotency.Owner {
	return idempotency.Owner{Token: [16]byte{0xee, byte(i), byte(i >> 8)}, Attempt: 1}
}

func (h *Harness) many(t *testing.T, do func(i int)) {
	t.Helper()
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range 64 {
		wg.Go(func() {
			<-start
			do(i)
		})
	}
	close(start)
	wg.Wait()
}
