package idempotency

import (
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

type oneLine [][]byte

func (l *oneLine) PeekAll(string) [][]byte { return *l }
