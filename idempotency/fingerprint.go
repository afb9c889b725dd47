package idempotency

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"
	"strings"
	"sync"
)

// Fingerprint identifies what a request asks for. Two requests with one key
// are the same request if and only if their fingerprints are equal.
type Fingerprint [sha256.Size]byte

// FingerprintOptions says what belongs to a request besides method, raw path,
// raw query, Content-Type, Content-Encoding and body. The zero value adds
// nothing and compares bodies byte for byte.
type FingerprintOptions struct {
	// Headers are further fields that must be equal, in any letter case.
	Headers []string
	// JSON compares JSON bodies by content: white space, the order of members
	// and the spelling of strings do not matter; numbers are compared as
	// written. A body that is no JSON, repeats a member name or holds broken
	// Unicode is compared byte for byte. Off by default, because an origin may
	// tell apart what this equates.
	JSON bool
	// Ignore names members to leave out, as JSON Pointers (RFC 6901) through
	// objects, such as /sent_at or /meta/trace. Needs JSON.
	Ignore []string
}

// FieldLines gives access to header lines by name, in any letter case. What it
// returns may be used again by the next call. fasthttp.RequestHeader is one.
type FieldLines interface{ PeekAll(name string) [][]byte }

// Fingerprinter makes the fingerprints of one route. It is safe for concurrent
// use.
type Fingerprinter struct {
	headers []string
	json    bool
	ignore  *ignored
}

// fingerprintVersion changes when equal requests would get other fingerprints
// than before; records from before then answer 422.
const fingerprintVersion = "sluice fingerprint 1"

// NewFingerprinter checks o and returns what makes fingerprints by it.
func NewFingerprinter(o FingerprintOptions) (*Fingerprinter, error) {
	f := &Fingerprinter{json: o.JSON}
	for _, h := range o.Headers {
		f.headers = append(f.headers, strings.ToLower(h))
	}
	slices.Sort(f.headers)
	f.headers = slices.Compact(f.headers)
	var err error
	f.ignore, err = parseIgnored(o)
	return f, err
}

// Sum returns the fingerprint of a request whose body is at hand.
func (f *Fingerprinter) Sum(method, path, query string, header FieldLines, body []byte) Fingerprint {
	b := f.Begin(method, path, query, header)
	b.Write(body)
	return b.Sum()
}

// Begin starts a fingerprint. Write the body to it in pieces of any size, then
// call Sum. Where the route compares JSON the body is gathered until then.
func (f *Fingerprinter) Begin(method, path, query string, header FieldLines) *FingerprintBuilder {
	b := builders.Get().(*FingerprintBuilder)
	b.of = f
	b.sha.Reset()
	b.buf = b.buf[:0]
	b.field(fingerprintVersion)
	b.field(method)
	b.field(path)
	b.field(query)
	b.lines(header.PeekAll("Content-Type"))
	b.lines(header.PeekAll("Content-Encoding"))
	b.buf = binary.BigEndian.AppendUint64(b.buf, uint64(len(f.headers)))
	for _, name := range f.headers {
		b.field(name)
		b.lines(header.PeekAll(name))
	}
	if f.json {
		b.head = len(b.buf)
		return b
	}
	// The body comes last and everything before it is preceded by its length,
	// so it needs no length of its own and can be streamed.
	b.buf = append(b.buf, bodyRaw)
	b.sha.Write(b.buf)
	return b
}

// FingerprintBuilder is a fingerprint in the making. It is used by one
// goroutine, and not after Sum.
type FingerprintBuilder struct {
	of   *Fingerprinter
	sha  hash.Hash
	buf  []byte // fields of the head; with JSON also the body, from head on
	head int
	out  Fingerprint
}

// How the body was hashed.
const (
	bodyRaw  = 'r'
	bodyJSON = 'j'
)

var builders = sync.Pool{New: func() any { return &FingerprintBuilder{sha: sha256.New()} }}

// keptBuffer is the largest buffer that is kept for another request.
const keptBuffer = 64 << 10

// Write adds a piece of the body. It keeps nothing of p and returns no error.
func (b *FingerprintBuilder) Write(p []byte) (int, error) {
	if b.of.json {
		b.buf = append(b.buf, p...)
	} else {
		b.sha.Write(p)
	}
	return len(p), nil
}

// Sum ends the fingerprint. The builder must not be used afterwards.
func (b *FingerprintBuilder) Sum() Fingerprint {
	if b.of.json {
		body := b.buf[b.head:]
		b.sha.Write(b.buf[:b.head])
		if canonical, ok := canonicalJSON(body, b.of.ignore); ok {
			b.sha.Write([]byte{bodyJSON})
			b.sha.Write(canonical)
		} else {
			b.sha.Write([]byte{bodyRaw})
			b.sha.Write(body)
		}
	}
	b.sha.Sum(b.out[:0])
	out := b.out
	b.of = nil
	if cap(b.buf) <= keptBuffer {
		builders.Put(b)
	}
	return out
}

func (b *FingerprintBuilder) field(f string) {
	b.buf = binary.BigEndian.AppendUint64(b.buf, uint64(len(f)))
	b.buf = append(b.buf, f...)
}

func (b *FingerprintBuilder) lines(lines [][]byte) {
	b.buf = binary.BigEndian.AppendUint64(b.buf, uint64(len(lines)))
	for _, l := range lines {
		b.buf = binary.BigEndian.AppendUint64(b.buf, uint64(len(l)))
		b.buf = append(b.buf, l...)
	}
}
