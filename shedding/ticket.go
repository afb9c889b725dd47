package shedding

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash"
	"sync"
	"time"

	"sluice/admission"
)

// TicketHeader carries a ticket, from the gateway with a refusal and back to
// it with the request that was refused.
const TicketHeader = "Sluice-Ticket"

// A ticket is, in base64url without padding: one byte of version, one that
// tells the secret, not-before and lapse as big-endian seconds of Unix time,
// the promise's id, and the start of an HMAC-SHA256 over all of that, the
// class, the tenant and the route. What it is bound to is not in it, so it
// reveals nothing and fits nobody else.
const (
	ticketVersion = 1
	ticketFacts   = 1 + 1 + 4 + 4 + 8
	ticketMAC     = 15
	ticketBytes   = ticketFacts + ticketMAC
	ticketLen     = ticketBytes * 4 / 3
)

// Tickets signs promises and knows its own signature again, so that any
// gateway with the same secrets keeps a promise that another one made. It is
// safe for concurrent use.
type Tickets struct {
	keys   []ticketKey // the first signs, all verify
	madeUp bool        // nobody else has the secret
}

type ticketKey struct {
	id   byte
	macs sync.Pool // of *mac
}

type mac struct {
	h   hash.Hash
	buf []byte
	sum [sha256.Size]byte
}

// minSecret is the shortest secret that is worth signing with.
const minSecret = 16

// NewTickets signs with the first secret and accepts what any of them signed,
// so a secret is rotated by putting a new one in front and dropping the old
// one once its promises have lapsed. Without secrets it makes one up: promises
// then hold for this process only, across reloads too.
func NewTickets(secrets ...[]byte) (*Tickets, error) {
	madeUp := len(secrets) == 0
	if madeUp {
		s := make([]byte, 32)
		rand.Read(s) // never fails
		secrets = [][]byte{s}
	}
	t := &Tickets{keys: make([]ticketKey, len(secrets)), madeUp: madeUp}
	for i, s := range secrets {
		if len(s) < minSecret {
			return nil, fmt.Errorf("shedding: ticket secret %d has %d bytes, want at least %d", i+1, len(s), minSecret)
		}
		key := append([]byte(nil), s...)
		name := sha256.Sum256(append([]byte("sluice ticket key "), key...))
		t.keys[i].id = name[0]
		t.keys[i].macs.New = func() any {
			return &mac{h: hmac.New(sha256.New, key), buf: make([]byte, 0, 256)}
		}
	}
	return t, nil
}

// AppendTicket implements [admission.Signer].
func (t *Tickets) AppendTicket(dst []byte, r *admission.Request, p *admission.Promise) []byte {
	var raw [ticketBytes]byte
	k := &t.keys[0]
	raw[0], raw[1] = ticketVersion, k.id
	binary.BigEndian.PutUint32(raw[2:], uint32(p.NotBefore.Unix()))
	binary.BigEndian.PutUint32(raw[6:], uint32(p.Lapse.Unix()))
	binary.BigEndian.PutUint64(raw[10:], p.ID)
	k.sign(&raw, r)
	return base64.RawURLEncoding.AppendEncode(dst, raw[:])
}

// read returns the promise that a ticket proves was made to r.
func (t *Tickets) read(ticket string, r *admission.Request) (p admission.Promise, ok bool) {
	if len(ticket) != ticketLen {
		return p, false
	}
	var text [ticketLen]byte
	var raw, want [ticketBytes]byte
	copy(text[:], ticket)
	if n, err := base64.RawURLEncoding.Strict().Decode(raw[:], text[:]); err != nil || n != ticketBytes || raw[0] != ticketVersion {
		return p, false
	}
	for i := range t.keys {
		k := &t.keys[i]
		if k.id != raw[1] {
			continue
		}
		want = raw
		k.sign(&want, r)
		if hmac.Equal(want[ticketFacts:], raw[ticketFacts:]) {
			return admission.Promise{
				NotBefore: time.Unix(int64(binary.BigEndian.Uint32(raw[2:])), 0),
				Lapse:     time.Unix(int64(binary.BigEndian.Uint32(raw[6:])), 0),
				ID:        binary.BigEndian.Uint64(raw[10:]),
				Signer:    t,
			}, true
		}
	}
	return p, false
}

// sign fills in the signature of the facts in raw for r.
func (k *ticketKey) sign(raw *[ticketBytes]byte, r *admission.Request) {
	m := k.macs.Get().(*mac)
	b := append(m.buf[:0], raw[:ticketFacts]...)
	b = append(b, byte(r.Class))
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.Tenant)))
	b = append(b, r.Tenant...)
	b = append(b, r.Route.ID...)
	m.h.Reset()
	m.h.Write(b)
	m.h.Sum(m.sum[:0])
	copy(raw[ticketFacts:], m.sum[:ticketMAC])
	m.buf = b
	k.macs.Put(m)
}
