package storetest

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/idempotency"
)

// model is what a store should hold under one name, written down a second time
// in the plainest way: a record and its age.
type model struct {
	h    *Harness
	name string
	rec  *idempotency.Record
	age  time.Duration
}

// slack keeps the model clear of moments that depend on how fast a test runs.
const slack = 500 * time.Millisecond

func (h *Harness) model(t *testing.T) {
	owners := []idempotency.Owner{alice, bob, carol}
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{h: h, name: name()}
		pick := func(label string) idempotency.Owner { return rapid.SampledFrom(owners).Draw(rt, label) }
		rt.Repeat(map[string]func(*rapid.T){
			"claim":   func(rt *rapid.T) { m.claim(rt, pick("owner")) },
			"settle":  func(rt *rapid.T) { m.settle(rt, pick("of"), pick("by"), rapid.SampledFrom(states[2:]).Draw(rt, "to")) },
			"release": func(rt *rapid.T) { m.release(rt, pick("of"), rapid.Bool().Draw(rt, "answered")) },
			"lapse":   func(rt *rapid.T) { m.lapse(rt, pick("of"), pick("by"), rapid.Bool().Draw(rt, "hold")) },
			"age": func(rt *rapid.T) {
				m.grow(t, rapid.SampledFrom([]time.Duration{lease - slack, 2 * slack, lease + slack, retention - slack}).Draw(rt, "by"))
			},
			"": func(rt *rapid.T) { m.same(rt) },
		})
	})
}

func (m *model) put(r *idempotency.Record) { m.rec, m.age = r, 0 }

func (m *model) claim(t *rapid.T, by idempotency.Owner) {
	r := record(idempotency.InFlight, by)
	found, err := m.h.Store.Claim(t.Context(), m.name, r)
	if err != nil {
		t.Fatal(err)
	}
	if (found == nil) != (m.rec == nil) {
		t.Fatalf("claim found %v, model has %v", found, m.rec)
	}
	if m.rec == nil {
		m.put(r)
	}
}

func (m *model) settle(t *rapid.T, of, by idempotency.Owner, to idempotency.State) {
	next := record(to, by)
	err := m.h.Store.Settle(t.Context(), m.name, of, next)
	var want error
	switch {
	case m.rec == nil:
		m.put(next)
	case m.rec.State == idempotency.Completed || m.rec.State == idempotency.Tombstone:
		if m.rec.Owner != by {
			want = idempotency.ErrLost
		}
	case m.rec.Owner == of:
		m.put(next)
	default:
		want = idempotency.ErrLost
	}
	if !errors.Is(err, want) {
		t.Fatalf("settle gave %v, model %v", err, want)
	}
}

func (m *model) release(t *rapid.T, of idempotency.Owner, answered bool) {
	err := m.h.Store.Release(t.Context(), m.name, of, answered)
	switch {
	case m.rec == nil || m.rec.Owner == of && answered == (m.rec.State == idempotency.Completed || m.rec.State == idempotency.Tombstone):
		if err != nil {
			t.Fatalf("release gave %v", err)
		}
		m.rec = nil
	case !errors.Is(err, idempotency.ErrLost):
		t.Fatalf("release gave %v, want ErrLost", err)
	}
}

func (m *model) lapse(t *rapid.T, of, by idempotency.Owner, hold bool) {
	next := record(idempotency.InFlight, by)
	if hold {
		next = record(idempotency.InFlight, of)
		next.State = idempotency.InDoubt
	}
	got, err := m.h.Store.Lapse(t.Context(), m.name, of, next)
	if err != nil {
		t.Fatal(err)
	}
	if m.rec != nil && m.rec.State == idempotency.InFlight && m.rec.Owner == of && m.age > lease {
		m.put(next)
	}
	if d := diff(m.rec, got.Record); d != "" {
		t.Fatalf("lapse left (-model +store):\n%s", d)
	}
}

func (m *model) grow(t testing.TB, by time.Duration) {
	if m.rec == nil {
		return
	}
	if m.age+by == lease {
		by += slack // whether it has lapsed by now is a matter of microseconds
	}
	m.h.Age(t, m.name, by)
	if m.age += by; m.age >= retention-slack/2 {
		m.rec = nil
	}
}

func (m *model) same(t *rapid.T) {
	got, err := m.h.Store.Read(t.Context(), m.name)
	if err != nil {
		t.Fatal(err)
	}
	if d := diff(m.rec, got.Record); d != "" {
		t.Fatalf("stored (-model +store):\n%s", d)
	}
}
