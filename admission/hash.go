package admission

import (
	"math/bits"
	"unsafe"
)

// Hash hashes s by folded multiplication, the construction of wyhash (Wang Yi,
// 2019). Whoever knows the seed can choose strings whose hashes meet.
func Hash(seed uint64, s string) uint64 {
	const k0, k1 = 0xa0761d6478bd642f, 0xe7037ed1a0b428db
	h, k := seed^k0, seed^k1 // a multiplier that is known lets some differences pass
	rest := s
	for len(rest) > 8 {
		h = fold(h^eight(rest), k)
		rest = rest[8:]
	}
	var last uint64
	if len(s) >= 8 {
		last = eight(s[len(s)-8:]) // again some of what was taken before
	} else {
		for i := range len(s) {
			last |= uint64(s[i]) << (8 * i)
		}
	}
	return fold(fold(h^last, k)^uint64(len(s)), k0)
}

// hashed is a tenant's name with its hash.
type hashed struct {
	tenant     *byte
	length     int
	seed, hash uint64
}

// TenantHash returns [Hash] of r.Tenant under a seed other than 0. It is made once a
// request as long as all who ask have one seed.
func (r *Request) TenantHash(seed uint64) uint64 {
	if h := &r.hashed; h.seed == seed && h.tenant == unsafe.StringData(r.Tenant) && h.length == len(r.Tenant) {
		return h.hash // of the same bytes in the same place: strings do not change
	}
	return r.hashTenant(seed)
}

func (r *Request) hashTenant(seed uint64) uint64 {
	r.hashed = hashed{unsafe.StringData(r.Tenant), len(r.Tenant), seed, Hash(seed, r.Tenant)}
	return r.hashed.hash
}

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

func eight(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}
