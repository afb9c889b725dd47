package idempotency_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/admission"
	"sluice/idempotency"
)

func noise(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

func TestMemoryUnderPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const budget = 1 << 20
		m := newMemory(t, idempotency.CodecOptions{}, idempotency.MemoryOptions{MaxBytes: budget})
		g := newGate(t, m, uncached)
		p := holdPolicy()
		p.Wait = 0
		running, doubtful := prepare(g, "running", "", p), prepare(g, "doubtful", "", p)
		c := mustWin(t, g, running)
		mustSettle(t, g, mustWin(t, g, doubtful), admission.Unknown, idempotency.Response{}, idempotency.StatusInDoubt)
		// Ten times as much as there is room for.
		for i := range 10 * budget / 10_000 {
			k := prepare(g, fmt.Sprint(i), "", p)
			mustSettle(t, g, mustWin(t, g, k), admission.Answered, idempotency.Response{Status: 201, Body: noise(10_000)}, idempotency.StatusFresh)
			if _, bytes := m.Used(); bytes > budget+20_000 {
				t.Fatalf("holds %d bytes after %d answers, allowed are %d", bytes, i, budget)
			}
		}
		f := g.Claim(t.Context(), prepare(g, "0", "", p))
		expectReplay(t, f, 201, "")
		if !f.BodyOmitted {
			t.Error("the oldest answer should have lost its body")
		}
		if f := g.Claim(t.Context(), prepare(g, fmt.Sprint(10*budget/10_000-1), "", p)); f.BodyOmitted {
			t.Error("the newest answer has lost its body")
		}
		// Then nothing but records that must stay.
		for i := 0; ; i++ {
			if f = g.Claim(t.Context(), prepare(g, fmt.Sprint("more ", i), "", p)); f.Claim == nil {
				break
			}
			g.Settle(f.Claim, admission.Answered, idempotency.Response{Status: 201})
		}
		expectRefusal(t, f, admission.StoreUnavailable)
		expectRefusal(t, g.Claim(t.Context(), running), admission.KeyInProgress)
		expectRefusal(t, g.Claim(t.Context(), doubtful), admission.KeyInDoubt)
		mustSettle(t, g, c, admission.Answered, created("x"), idempotency.StatusFresh) // settling needs no room
		expectReplay(t, g.Claim(t.Context(), prepare(g, "1", "", p)), 201, "")

		time.Sleep(25 * time.Hour)
		g.Release(mustWin(t, g, prepare(g, "room again", "", p)))
		if records, bytes := m.Used(); records != 0 || bytes != 0 {
			t.Errorf("%d records with %d bytes are left after their retention", records, bytes)
		}
	})
}

// reopen closes a journalled store and opens it again.
func reopen(t *testing.T, m *idempotency.Memory, path string) *idempotency.Memory {
	t.Helper()
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	return newMemory(t, idempotency.CodecOptions{}, idempotency.MemoryOptions{Journal: path})
}

func TestARestartForgetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "journal")
		m := newMemory(t, idempotency.CodecOptions{}, idempotency.MemoryOptions{Journal: path})
		g := newGate(t, m, uncached)
		p, rp := holdPolicy(), releasePolicy()
		mustSettle(t, g, mustWin(t, g, prepare(g, "answered", "", p)), admission.Answered, created("x"), idempotency.StatusFresh)
		mustSettle(t, g, mustWin(t, g, prepare(g, "doubtful", "", p)), admission.Unknown, idempotency.Response{}, idempotency.StatusInDoubt)
		g.Release(mustWin(t, g, prepare(g, "released", "", p)))
		mustWin(t, g, prepare(g, "running", "", p))
		mustWin(t, g, prepare(g, "running, release", "", rp))
		time.Sleep(time.Second)
		_, before := m.Used()

		m = reopen(t, m, path)
		if _, after := m.Used(); after != before {
			t.Errorf("holds %d bytes after the restart, %d before", after, before)
		}
		g = newGate(t, m, uncached)
		expectReplay(t, g.Claim(t.Context(), prepare(g, "answered", "", p)), 201, "x")
		expectRefusal(t, g.Claim(t.Context(), prepare(g, "doubtful", "", p)), admission.KeyInDoubt)
		g.Release(mustWin(t, g, prepare(g, "released", "", p)))
		// Nobody else has the journal, so who was running is known to be gone.
		start := time.Now()
		expectRefusal(t, g.Claim(t.Context(), prepare(g, "running", "", p)), admission.KeyInDoubt)
		if c := mustWin(t, g, prepare(g, "running, release", "", rp)); c.Attempt() != 2 {
			t.Errorf("attempt %d after the restart, want 2", c.Attempt())
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("waited %v for owners that are gone", waited)
		}
		time.Sleep(25 * time.Hour)
		m = reopen(t, m, path)
		if records, _ := m.Used(); records != 0 {
			t.Errorf("%d records are left after their retention", records)
		}
	})
}

func TestAJournalBelongsToOneProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	newMemory(t, idempotency.CodecOptions{}, idempotency.MemoryOptions{Journal: path})
	_, err := idempotency.NewMemory(newCodec(t, idempotency.CodecOptions{}), idempotency.MemoryOptions{Journal: path})
	if err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("opening it twice: %v", err)
	}
}

// journalOf returns a journal with n answered records and its store's path.
func journalOf(t *testing.T, n int) (path string, ends []int64) {
	path = filepath.Join(t.TempDir(), "journal")
	m := newMemory(t, idempotency.CodecOptions{}, idempotency.MemoryOptions{Journal: path, Sync: idempotency.SyncNever})
	for i := range n {
		r := &idempotency.Record{
			State: idempotency.Completed, Owner: idempotency.Owner{Token: [16]byte{byte(i)}, Attempt: 1}, Lease: time.Second, Retention: time.Hour,
			Answer: &idempotency.Answer{Status: 200},
		}
		if err := m.Settle(t.Context(), fmt.Sprint(i), r.Owner, r); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, info.Size())
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	return path, ends
}

func TestACrashInTheMiddleOfAWriteLosesThatWriteOnly(t *testing.T) {
	path, ends := journalOf(t, 3)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	open := func(content []byte) (int, error) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := idempotency.NewMemory(newCodec(t, idempotency.CodecOptions{}), idempotency.MemoryOptions{Journal: path, Sync: idempotency.SyncNever})
		if err != nil {
			return 0, err
		}
		defer m.Close()
		records, _ := m.Used()
		return records, nil
	}
	for size := range whole {
		want := 0
		for _, end := range ends {
			if int64(size) >= end {
				want++
			}
		}
		if got, err := open(whole[:size]); got != want || err != nil {
			t.Fatalf("cut to %d bytes it has %d records (%v), want %d", size, got, err, want)
		}
	}
	for what, tail := range map[string][]byte{"zeros": make([]byte, 5000), "half a frame of noise": {0, 0, 1, 0, 9, 9, 9, 9, 1, 2, 3}} {
		if got, err := open(append(bytes.Clone(whole), tail...)); got != 3 || err != nil {
			t.Errorf("followed by %s it has %d records, %v; want 3", what, got, err)
		}
	}
	// Damage with good records after it is no crash: forgetting them silently
	// could repeat their requests.
	for at := int64(8); at < ends[1]; at++ { // beyond the header
		b := bytes.Clone(whole)
		b[at] ^= 0x40
		if got, err := open(b); err == nil && got < 3 {
			t.Fatalf("with byte %d damaged it opens with %d records", at, got)
		}
	}
	if _, err := open([]byte("#!/bin/sh\necho some other file\n")); err == nil {
		t.Error("another file is taken for a journal")
	}
}

func TestTheJournalIsCompacted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	m := newMemory(t, idempotency.CodecOptions{}, idempotency.MemoryOptions{Journal: path, Sync: idempotency.SyncNever})
	record := func(owner, body byte) *idempotency.Record {
		return &idempotency.Record{
			State: idempotency.Completed, Owner: idempotency.Owner{Token: [16]byte{owner}, Attempt: 1}, Lease: time.Second, Retention: time.Hour,
			Answer: &idempotency.Answer{Status: 200, Body: bytes.Repeat([]byte{body}, 900)},
		}
	}
	// Written and removed again and again by several at once, so that the file
	// is written anew in the middle of it; what stays must be right.
	var wg sync.WaitGroup
	for w := range byte(4) {
		wg.Go(func() {
			for i := range 5000 {
				name := fmt.Sprint(w, i%50)
				r := record(w+1, byte(i))
				if err := m.Settle(context.Background(), name, r.Owner, r); err != nil {
					t.Error(err)
				}
				if i < 4950 {
					if err := m.Release(context.Background(), name, r.Owner, true); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	m = reopen(t, m, path)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 12<<20 {
		t.Errorf("the journal has %d bytes for 200 records", info.Size())
	}
	for w := range byte(4) {
		for i := 4950; i < 5000; i++ {
			r, err := m.Read(t.Context(), fmt.Sprint(w, i%50))
			if err != nil || r.Record == nil || !bytes.Equal(r.Record.Answer.Body, bytes.Repeat([]byte{byte(i)}, 900)) {
				t.Fatalf("record %d of %d is %+v, %v", i, w, r.Record, err)
			}
		}
	}
}

func TestMemoryFullIsAnErrorOfItsOwn(t *testing.T) {
	m := newMemory(t, idempotency.CodecOptions{}, idempotency.MemoryOptions{MaxBytes: 64 << 10})
	var err error
	for i := range 1000 {
		r := &idempotency.Record{State: idempotency.InFlight, Owner: idempotency.Owner{Token: [16]byte{1, byte(i)}}, Lease: time.Second, Retention: time.Minute}
		if _, err = m.Claim(t.Context(), fmt.Sprint(i), r); err != nil {
			break
		}
	}
	if !errors.Is(err, idempotency.ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
}
