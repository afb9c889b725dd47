package tenant

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
)

// keyring holds API keys by the first 64 bits of their hash. See the package
// comment for what the time of a look-up can tell.
type keyring map[uint64][]Key

func newKeyring(keys []Key) keyring {
	ring := make(keyring, len(keys))
	for _, k := range keys {
		i := binary.BigEndian.Uint64(k.SHA256[:])
		ring[i] = append(ring[i], k)
	}
	return ring
}

// tenant returns whose key it is.
func (ring keyring) tenant(key string) (string, bool) {
	if key == "" || len(key) > MaxKey {
		return "", false
	}
	var text [MaxKey]byte // on the stack, where converting would allocate
	hash := sha256.Sum256(text[:copy(text[:], key)])
	for _, k := range ring[binary.BigEndian.Uint64(hash[:])] {
		if subtle.ConstantTimeCompare(k.SHA256[:], hash[:]) == 1 {
			return k.Tenant, true
		}
	}
	return "", false
}
