package idempotency

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash"
	"strings"
	"sync"
)

// Names makes record names: prefix:base64url(HMAC-SHA-256(secret, tenant,
// scope, key)), each field preceded by its length. Raw keys therefore never
// reach the store, and who can read the store cannot test guesses.
//
// To change the secret without forgetting a record, roll it out in two steps:
// first give every gateway [old, new], then every gateway [new, old]; once the
// longest retention is over, [new]. Every gateway claims under the first secret
// and then looks under the second, so that of two gateways with opposite orders
// at least one sees the other.
//
// Names is safe for concurrent use.
type Names struct {
	prefix  string
	secrets []secret
}

// NameOptions configures Names.
type NameOptions struct {
	// Prefix precedes every record name, to keep several gateways apart on one
	// store. Empty means "sluice".
	Prefix string
	// Secrets: records are written under the first and looked for under each.
	// One or two, of at least 16 bytes each.
	Secrets [][]byte
}

// id is a record's name before it is spelt out; it also keys what is kept in
// this process.
type id [sha256.Size]byte

// secret holds the keyed hashes derived from one configured secret.
type secret struct {
	name, credential *sync.Pool // of *keyedHash
}

// NewNames returns the names made with o.
func NewNames(o NameOptions) (*Names, error) {
	if o.Prefix == "" {
		o.Prefix = "sluice"
	}
	if strings.ContainsAny(o.Prefix, "{} \t\r\n") {
		return nil, errors.New("idempotency: the name prefix holds a brace or white space; it would change where Redis Cluster puts records")
	}
	if len(o.Secrets) == 0 || len(o.Secrets) > 2 {
		return nil, errors.New("idempotency: give one secret, or two while changing it")
	}
	n := &Names{prefix: o.Prefix + ":"}
	for _, s := range o.Secrets {
		if len(s) < 16 {
			return nil, errors.New("idempotency: a secret has fewer than 16 bytes")
		}
		n.secrets = append(n.secrets, secret{
			name:       keyedHashes(derive(s, "sluice record name")),
			credential: keyedHashes(derive(s, "sluice credential")),
		})
	}
	return n, nil
}

// spell returns the name of a record in the store.
func (n *Names) spell(i id) string {
	buf := make([]byte, 0, 64)
	buf = append(buf, n.prefix...)
	return string(base64.RawURLEncoding.AppendEncode(buf, i[:]))
}

// record returns the id of the record of key.
func (s secret) record(tenant, scope string, key []byte) id {
	k := s.name.Get().(*keyedHash)
	k.field(tenant)
	k.field(scope)
	k.buf = binary.BigEndian.AppendUint64(k.buf, uint64(len(key)))
	k.buf = append(k.buf, key...)
	out := k.sum()
	s.name.Put(k)
	return out
}

// tag stands for a credential in a record, so that the credential itself is
// not kept. It covers the record's id: equal credentials do not show.
func (s secret) tag(i id, credential []byte) Tag {
	k := s.credential.Get().(*keyedHash)
	k.buf = append(k.buf, i[:]...)
	k.buf = append(k.buf, credential...)
	out := k.sum()
	s.credential.Put(k)
	return out
}

// derive returns the key for one purpose. What differs in purpose differs in
// key.
func derive(secret []byte, purpose string) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(purpose))
	return h.Sum(nil)
}

// keyedHash is an HMAC with the message gathered so far.
type keyedHash struct {
	mac hash.Hash
	buf []byte
	out [sha256.Size]byte
}

func keyedHashes(key []byte) *sync.Pool {
	return &sync.Pool{New: func() any { return &keyedHash{mac: hmac.New(sha256.New, key)} }}
}

// field adds a field preceded by its length, so that the boundary between two
// fields cannot be moved.
func (k *keyedHash) field(f string) {
	k.buf = binary.BigEndian.AppendUint64(k.buf, uint64(len(f)))
	k.buf = append(k.buf, f...)
}

// sum returns the HMAC of the message and empties it.
func (k *keyedHash) sum() [sha256.Size]byte {
	k.mac.Reset()
	k.mac.Write(k.buf)
	k.mac.Sum(k.out[:0])
	k.buf = k.buf[:0]
	return k.out
}
