package idempotency

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"sluice/admission"
)

// What is promised about memory on the hot paths: nothing for a replay from
// memory, hashing included.
func TestAReplayFromMemoryAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes sync.Pool drop what it holds")
	}
	names, err := NewNames(NameOptions{Secrets: [][]byte{make([]byte, 16)}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewMemory(mustCodec(t, CodecOptions{}), MemoryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(m, names, Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := mustFingerprinter(t, FingerprintOptions{Headers: []string{"X-Shop"}})
	header := &oneLine{[]byte("application/json")}
	line := [][]byte{[]byte(`"8e03978e-40d5-43dd-bc93-6894a57f9324"`)}
	body := make([]byte, 1000)
	p := &Policy{Lease: time.Second, Retention: time.Hour, MaxReplay: 1000, BindCredential: true}
	ask := func() Keyed {
		key, err := ParseKey(line, false)
		if err != nil {
			t.Fatal(err)
		}
		return g.Prepare(&Ask{
			Tenant: "tenant", Scope: "create-order", Key: key, Credential: line[0], Policy: p,
			Fingerprint: f.Sum("POST", "/v1/orders", "", header, body),
		})
	}
	k := ask()
	g.Settle(g.Claim(t.Context(), &k).Claim, admission.Answered, Response{Status: 200, Body: body})
	if n := testing.AllocsPerRun(1000, func() {
		k := ask()
		if f, ok := g.Cached(&k); !ok || f.Verdict != admission.Replay {
			t.Fatal("not in memory")
		}
	}); n != 0 {
		t.Errorf("a replay from memory makes %v allocations, want 0", n)
	}
}

// winning is a store that lets everybody have what they want.
type winning struct{ Store }

func (winning) Claim(context.Context, string, *Record) (*Reading, error) { return nil, nil }
func (winning) Settle(context.Context, string, Owner, *Record) error     { return nil }
func (winning) Release(context.Context, string, Owner, bool) (_ error)   { return nil }

// What a new key costs the gate besides what its store does: flight, claim, name,
// reading the header, record, a field and the body kept, and its place in the
// cache.
func TestANewKeyAllocatesLittle(t *testing.T) {
	names, err := NewNames(NameOptions{Secrets: [][]byte{make([]byte, 16)}})
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(winning{}, names, Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := &Policy{Lease: time.Second, Retention: time.Hour, MaxReplay: 1000}
	field, value := []byte("Content-Type"), []byte("application/json")
	header := func(yield func(k, v []byte) bool) { yield(field, value) }
	body, key := make([]byte, 100), make([]byte, 8)
	if n := testing.AllocsPerRun(1000, func() {
		binary.LittleEndian.PutUint64(key, binary.LittleEndian.Uint64(key)+1)
		k := g.Prepare(&Ask{Tenant: "tenant", Scope: "create-order", Key: key, Policy: p})
		c := g.Claim(t.Context(), &k).Claim
		if g.Settle(c, admission.Answered, Response{Status: 201, Header: header, Body: body}) != StatusFresh {
			t.Fatal("not settled")
		}
	}); n > 8 && !raceEnabled {
		t.Errorf("a new key makes %v allocations, want 8 at most", n)
	}
}

type oneLine [][]byte

func (l *oneLine) PeekAll(string) [][]byte { return *l }
