package admission

import (
	"math/bits"
	"strings"
	"testing"
	"unsafe"
)

// Texts that differ in one bit, in their length, or in the seed have hashes that
// have nothing to do with each other.
func TestHashSpreads(t *testing.T) {
	differing, pairs := 0, 0
	pair := func(a, b uint64, what string, args ...any) {
		n := bits.OnesCount64(a ^ b)
		if n < 8 || n > 56 {
			t.Errorf("hashes of "+what+" differ in %d bits", append(args, n)...)
		}
		differing += n
		pairs++
	}
	seen := map[uint64]string{}
	for length := range 70 {
		text := strings.Repeat("t", length)
		h := Hash(1, text)
		if other, twice := seen[h]; twice {
			t.Errorf("%q and %q have one hash", text, other)
		}
		seen[h] = text
		pair(h, Hash(2, text), "%d bytes under two seeds", length)
		pair(h, Hash(1, text+"\x00"), "%d bytes and one more, of zero", length)
		for i := range length {
			for bit := range 8 {
				changed := []byte(text)
				changed[i] ^= 1 << bit
				pair(h, Hash(1, string(changed)), "%d bytes with bit %d of byte %d changed", length, bit, i)
			}
		}
	}
	if mean := float64(differing) / float64(pairs); mean < 31.9 || mean > 32.1 {
		t.Errorf("hashes differ in %.2f of 64 bits on average", mean)
	}
}

// A request's hash is that of the tenant that it has now, under the seed asked for.
func TestTenantHashIsOfTheTenant(t *testing.T) {
	var r Request
	for range 2 {
		for _, tenant := range []string{"", "a", "acme", "acme-and-sons", "acme"} {
			r.Tenant = tenant
			for _, seed := range []uint64{1, 2, 1} {
				for range 2 {
					if got, want := r.TenantHash(seed), Hash(seed, tenant); got != want {
						t.Fatalf("the hash of %q under seed %d is %x, want %x", tenant, seed, got, want)
					}
				}
			}
		}
	}
	// A transport puts the next request where the last one was.
	name := []byte("tenant-1")
	r.Tenant = unsafe.String(&name[0], len(name))
	r.TenantHash(1)
	name[7] = '2'
	r.Reset()
	r.Tenant = unsafe.String(&name[0], len(name))
	if r.TenantHash(1) != Hash(1, "tenant-2") {
		t.Error("the hash is that of the request before")
	}
}
