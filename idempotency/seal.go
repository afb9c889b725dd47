package idempotency

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
)

// SealKey encrypts stored records.
type SealKey struct {
	ID  uint8  // names the key in the records it sealed; not 0
	Key []byte // 32 random bytes
}

// sealer seals with AES-256-GCM. Every record name has a key of its own, made
// from the configured one: a random nonce may be used 2^32 times under one key,
// and a busy gateway writes that many records in days.
type sealer struct {
	id  uint8
	key []byte
}

const (
	nonceSize    = 12
	gcmTagSize   = 16
	sealOverhead = nonceSize + gcmTagSize
)

func newSealers(keys []SealKey) ([]sealer, error) {
	var out []sealer
	seen := map[uint8]bool{}
	for _, k := range keys {
		switch {
		case k.ID == 0:
			return nil, errors.New("idempotency: a sealing key has id 0; use 1 to 255")
		case seen[k.ID]:
			return nil, fmt.Errorf("idempotency: two sealing keys have id %d", k.ID)
		case len(k.Key) != 32:
			return nil, fmt.Errorf("idempotency: sealing key %d has %d bytes; it must have 32", k.ID, len(k.Key))
		}
		seen[k.ID] = true
		out = append(out, sealer{k.ID, derive(k.Key, "sluice seal")})
	}
	return out, nil
}

func appendNonce(b []byte) []byte {
	n := len(b)
	b = append(b, make([]byte, nonceSize)...)
	rand.Read(b[n:])
	return b
}

// seal encrypts b from rest on, in place; before it stand head and nonce.
func (s *sealer) seal(name string, b []byte, rest int) []byte {
	return s.gcm(name).Seal(b[:rest], b[headSize:rest], b[rest:], associated(name, b))
}

// open returns what seal was given from rest on.
func (s *sealer) open(name string, b []byte) ([]byte, error) {
	if len(b) < headSize+sealOverhead {
		return nil, corrupt("it ends early")
	}
	nonce := b[headSize : headSize+nonceSize]
	rest, err := s.gcm(name).Open(nil, nonce, b[headSize+nonceSize:], associated(name, b))
	if err != nil {
		return nil, corrupt("its seal is broken")
	}
	return rest, nil
}

// associated is authenticated with the sealed part: the record's name and head.
func associated(name string, b []byte) []byte {
	return append(append(make([]byte, 0, len(name)+headSize), name...), b[:headSize]...)
}

func (s *sealer) gcm(name string) cipher.AEAD {
	h := hmac.New(sha256.New, s.key)
	h.Write([]byte(name))
	block, err := aes.NewCipher(h.Sum(nil))
	if err != nil {
		panic(err) // the key has 32 bytes
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // AES has the block size of GCM
	}
	return gcm
}
