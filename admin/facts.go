package admin

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"

	"sluice/admission"
)

// Facts says which facts of a request its record holds, so that the decision
// can be made again. It is a list of what is allowed: nothing else that a client
// sends gets into a record, and never a credential, a query or a body.
type Facts struct {
	// Fields are the names of header fields that are recorded with their value:
	// those that the policy reads and those that are asked for besides. Further
	// ones than maxFields, and credentials, are left out; see [Facts.Recorded].
	Fields []string

	// Identity is where the policy looks for the tenant, in its order. Of a
	// credential only that it was there is recorded.
	Identity []IdentityPlace
}

// IdentityPlace is one place where the tenant of a request may be found.
type IdentityPlace struct {
	Field      string // header field; "" none
	Credential bool   // Field holds a secret
	Cert       bool   // the client's certificate
}

// maxFields is how many header fields a record has room for.
const maxFields = 24

// credentials are fields that hold secrets whatever a policy makes of them, or
// that are recorded otherwise.
var credentials = []string{
	"authorization", "proxy-authorization", "cookie", "set-cookie", "idempotency-key", "sluice-ticket",
}

// IsCredential reports whether the field of that name is never recorded,
// whatever a policy makes of it.
func IsCredential(field string) bool { return slices.Contains(credentials, strings.ToLower(field)) }

// Secret reports whether the field of that name holds a credential, so that it is
// not recorded.
func (f *Facts) Secret(name string) bool {
	return IsCredential(name) || slices.ContainsFunc(f.Identity, func(p IdentityPlace) bool {
		return p.Credential && strings.EqualFold(p.Field, name)
	})
}

// Recorded lists the fields that are recorded, in lower case and each once.
func (f *Facts) Recorded() []string {
	all := []string{}
	for _, name := range f.Fields {
		name = strings.ToLower(name)
		if !f.Secret(name) && !slices.Contains(all, name) && len(all) < maxFields {
			all = append(all, name)
		}
	}
	return all
}

// facts is the copy of what a request's record holds of the request itself. It
// has a fixed size, so that taking it allocates nothing.
type facts struct {
	text  [factsSize]byte
	used  uint16
	sizes [pieces]uint16 // of each piece in text, plus one; 0: it was not there
	times [maxFields]uint8
	cut   bool // a piece had no room
	byKey bool // the tenant was found by an API key

	fingerprint uint64
	promise     uint64
}

// factsSize is room for the facts of usual requests. A longer one is marked as
// cut.
const factsSize = 768

// Pieces of text, in the order in which they are kept; header fields follow.
const (
	pieceMethod = iota
	piecePath
	pieceCert
	pieceKey
	pieceTicket
	pieceField
	pieces = pieceField + maxFields
)

// take copies the facts of a request. fields are the names of those recorded.
func (f *facts) take(e *admission.Event, identity []IdentityPlace, fields []string) {
	r := e.Request
	f.used, f.cut, f.byKey = 0, false, false
	f.sizes = [pieces]uint16{}
	f.fingerprint, f.promise = r.Fingerprint, e.Decision.Promise.ID
	if r.Method == "" {
		return // it was no request
	}
	f.put(pieceMethod, r.Method)
	f.put(piecePath, r.Path)
	if r.ClientCert != "" {
		f.put(pieceCert, r.ClientCert)
	}
	if r.Header == nil {
		return
	}
	if key, n := r.Header.Get("Idempotency-Key"); n == 1 && e.Decision.Reason != admission.KeyInvalid {
		f.put(pieceKey, key)
	} else if n > 0 {
		f.put(pieceKey, "") // one that is wrong
	}
	if ticket, n := r.Header.Get("Sluice-Ticket"); n == 1 {
		f.put(pieceTicket, ticket)
	}
	for i, name := range fields {
		if value, n := r.Header.Get(name); n > 0 {
			f.put(pieceField+i, value)
			f.times[i] = uint8(min(n, 255))
		}
	}
	f.byKey = foundByKey(r, identity)
}

// foundByKey reports whether a credential is the first of the places at which
// the request says whose it is.
func foundByKey(r *admission.Request, identity []IdentityPlace) bool {
	for _, p := range identity {
		switch {
		case p.Field != "":
			if _, n := r.Header.Get(p.Field); n > 0 {
				return p.Credential
			}
		case p.Cert && r.ClientCert == "":
		default:
			return false
		}
	}
	return false
}

func (f *facts) put(piece int, s string) {
	if len(s) > len(f.text)-int(f.used) {
		f.cut = true
		return
	}
	f.used += uint16(copy(f.text[f.used:], s))
	f.sizes[piece] = uint16(len(s)) + 1
}

// get returns a piece of text, and whether it was there.
func (f *facts) get(piece int) (string, bool) {
	if f.sizes[piece] == 0 {
		return "", false
	}
	at := uint16(0)
	for _, n := range f.sizes[:piece] {
		at += max(n, 1) - 1
	}
	return string(f.text[at : at+f.sizes[piece]-1]), true
}

// Hider replaces secrets by hashes that nobody can make without its own secret,
// so that what is the same can be told, and what it is cannot. It is safe for
// concurrent use.
type Hider struct{ secret []byte }

// NewHider returns a hider with that secret; without one, it makes one up, and
// what it hides can be told to be the same within one process only.
func NewHider(secret []byte) *Hider {
	if len(secret) == 0 {
		secret = make([]byte, 32)
		rand.Read(secret) // never fails
	}
	sum := sha256.Sum256(append([]byte("sluice decision log: "), secret...))
	return &Hider{sum[:]}
}

// hide is the hash of something of that kind.
func (h *Hider) hide(kind string, parts ...string) string {
	m := hmac.New(sha256.New, h.secret)
	for _, p := range append([]string{kind}, parts...) {
		m.Write([]byte(p))
		m.Write([]byte{0})
	}
	return hex.EncodeToString(m.Sum(nil)[:12])
}

// ticketID is the id of the promise that a ticket says it was written for, as
// text; false where it is no ticket. Whether it was, is for the queue to say.
func ticketID(ticket string) (string, bool) {
	raw, err := base64.RawURLEncoding.DecodeString(ticket)
	if err != nil || len(raw) < 18 {
		return "", false
	}
	return hex.EncodeToString(raw[10:18]), true
}
