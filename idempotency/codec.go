package idempotency

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"time"
	"unsafe"

	"github.com/klauspost/compress/s2"
)

// A record as bytes, version 1, big-endian. The head is in clear, because the
// scripts that guard changes read it; everything else can be sealed.
//
//	offset  bytes
//	     0      3  "SLR"
//	     3      1  version, 1
//	     4      1  state
//	     5      1  flags: 1 claimed under Release
//	     6      1  id of the sealing key; 0: not sealed
//	     7      1  0
//	     8     16  owner token
//	    24      4  attempt
//	    28      4  lease, ms
//	    32      8  retention, ms
//	    40      8  claimed, Unix ms
//	    48      8  settled, Unix ms; 0: not yet
//	    56         rest
//	               not sealed: CRC-32C of name, head and rest (4 bytes)
//	               sealed: 12 bytes nonce, the rest encrypted, 16 bytes tag;
//	               name and head are authenticated with it
//
//	rest: fingerprint (32), credential tag (32), 1 byte: answer follows or not
//	answer: status (2), number of fields, each name and value preceded by its
//	length, then form of the body (1), length of the body, body in that form to
//	the end. Numbers and lengths are uvarints.
const (
	magic    = "SLR\x01"
	atState  = 4
	atFlags  = 5
	atKey    = 6
	atZero   = 7
	atOwner  = 8
	atTry    = 24
	atLease  = 28
	atKept   = 32
	atClaim  = 40
	atSettle = 48
	headSize = 56

	flagRelease = 1

	restSize = 32 + 32 + 1
	sumSize  = 4
)

// Forms of a stored body.
const (
	bodyPlain = 0
	bodyS2    = 1
)

// maxBody bounds a stored body, in bytes, so that a damaged length cannot make
// a gateway grow.
const maxBody = 64 << 20

// maxFields bounds the fields of a stored answer.
const maxFields = 4096

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CodecOptions configures a Codec.
type CodecOptions struct {
	// SealKeys encrypt what records hold of requests and answers. The first
	// one seals, all open; none: records are written in clear.
	SealKeys []SealKey
	// CompressFrom is the smallest body to compress, in bytes. Zero means 1
	// KiB, negative never.
	CompressFrom int
}

// Codec writes records as bytes and reads them back. It is safe for concurrent
// use.
type Codec struct {
	seals        []sealer
	compressFrom int
}

// NewCodec returns a codec by o.
func NewCodec(o CodecOptions) (*Codec, error) {
	c := &Codec{compressFrom: o.CompressFrom}
	switch {
	case o.CompressFrom == 0:
		c.compressFrom = 1 << 10
	case o.CompressFrom < 0:
		c.compressFrom = math.MaxInt
	}
	var err error
	c.seals, err = newSealers(o.SealKeys)
	return c, err
}

// encode returns r as bytes, for storing under name.
func (c *Codec) encode(name string, r *Record) []byte { return c.append(nil, name, r) }

// append appends to b, which is empty, r as encode returns it.
func (c *Codec) append(b []byte, name string, r *Record) []byte {
	form, body := bodyPlain, []byte(nil)
	if r.Answer != nil {
		form, body = c.compress(r.Answer.Body)
	}
	b = slices.Grow(b, headSize+restSize+sealOverhead+answerSize(r.Answer)+len(body))
	b = appendHead(b, r)
	sealed := len(c.seals) > 0
	if sealed {
		b[atKey] = c.seals[0].id
		b = appendNonce(b)
	}
	rest := len(b)
	b = append(b, r.Fingerprint[:]...)
	b = append(b, r.Credential[:]...)
	if r.Answer == nil {
		b = append(b, 0)
	} else {
		b = append(b, 1)
		b = appendAnswer(b, r.Answer)
		b = append(b, byte(form))
		b = binary.AppendUvarint(b, uint64(len(r.Answer.Body)))
		b = append(b, body...)
	}
	if sealed {
		return c.seals[0].seal(name, b, rest)
	}
	return binary.BigEndian.AppendUint32(b, checksum(name, b))
}

func appendHead(b []byte, r *Record) []byte {
	b = append(b, magic...)
	flags := byte(0)
	if r.OnUnknown == Release {
		flags |= flagRelease
	}
	b = append(b, byte(r.State), flags, 0, 0)
	b = append(b, r.Owner.Token[:]...)
	b = binary.BigEndian.AppendUint32(b, r.Owner.Attempt)
	b = binary.BigEndian.AppendUint32(b, uint32(r.Lease/time.Millisecond))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Retention/time.Millisecond))
	b = binary.BigEndian.AppendUint64(b, uint64(unixMilli(r.Claimed)))
	return binary.BigEndian.AppendUint64(b, uint64(unixMilli(r.Settled)))
}

// answerSize bounds what appendAnswer writes, and the length of the body.
func answerSize(a *Answer) int {
	if a == nil {
		return 0
	}
	n := 2 + 3*binary.MaxVarintLen64
	for _, f := range a.Fields {
		n += len(f.Name) + len(f.Value) + 2*binary.MaxVarintLen32
	}
	return n
}

func appendAnswer(b []byte, a *Answer) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(a.Status))
	b = binary.AppendUvarint(b, uint64(len(a.Fields)))
	for _, f := range a.Fields {
		b = binary.AppendUvarint(b, uint64(len(f.Name)))
		b = append(b, f.Name...)
		b = binary.AppendUvarint(b, uint64(len(f.Value)))
		b = append(b, f.Value...)
	}
	return b
}

// compress returns body in the form to store it. S2 is chosen for the reader's
// sake: a replay has to unpack it.
func (c *Codec) compress(body []byte) (form int, stored []byte) {
	if len(body) < c.compressFrom {
		return bodyPlain, body
	}
	packed := s2.Encode(nil, body)
	if len(packed) > len(body)-len(body)/8 { // not worth unpacking
		return bodyPlain, body
	}
	return bodyS2, packed
}

// decode reads a record that was stored under name. Whatever b holds, the
// result is the record that encode was given or an error that is ErrCorrupt.
// The record shares memory with b.
func (c *Codec) decode(name string, b []byte) (*Record, error) {
	if len(b) < headSize || string(b[:len(magic)]) != magic {
		return nil, corrupt("it does not begin like a record of this version")
	}
	r := &Record{
		State:     State(b[atState]),
		Lease:     time.Duration(binary.BigEndian.Uint32(b[atLease:])) * time.Millisecond,
		Claimed:   fromUnixMilli(int64(binary.BigEndian.Uint64(b[atClaim:]))),
		Settled:   fromUnixMilli(int64(binary.BigEndian.Uint64(b[atSettle:]))),
		OnUnknown: OnUnknown(b[atFlags] & flagRelease),
	}
	copy(r.Owner.Token[:], b[atOwner:])
	r.Owner.Attempt = binary.BigEndian.Uint32(b[atTry:])
	retention := binary.BigEndian.Uint64(b[atKept:])
	if r.State == Absent || r.State >= stateCount || b[atFlags]&^flagRelease != 0 || b[atZero] != 0 || retention > math.MaxInt64/uint64(time.Millisecond) {
		return nil, corrupt("its head is invalid")
	}
	r.Retention = time.Duration(retention) * time.Millisecond

	rest, err := c.open(name, b)
	if err != nil {
		return nil, err
	}
	if len(rest) < restSize {
		return nil, corrupt("it ends early")
	}
	copy(r.Fingerprint[:], rest)
	copy(r.Credential[:], rest[32:])
	has := rest[restSize-1]
	rest = rest[restSize:]
	switch {
	case has == 0 && len(rest) == 0 && !r.State.answered():
		return r, nil
	case has != 1 || r.State == InFlight:
		return nil, corrupt("it has no answer where one belongs, or one where none does")
	}
	r.Answer, err = decodeAnswer(rest)
	if err != nil {
		return nil, err
	}
	if r.State == Tombstone && len(r.Answer.Body) > 0 {
		return nil, corrupt("it has a body where none belongs")
	}
	return r, nil
}

// open returns the rest of b, checked or unsealed.
func (c *Codec) open(name string, b []byte) ([]byte, error) {
	if b[atKey] == 0 {
		// In clear although a key is configured: written before it was, or
		// forged by someone who can write to the store but has no key.
		if len(c.seals) > 0 {
			return nil, corrupt("it is not sealed, and a sealing key is configured")
		}
		end := len(b) - sumSize
		if end < headSize || binary.BigEndian.Uint32(b[end:]) != checksum(name, b[:end]) {
			return nil, corrupt("its checksum is wrong")
		}
		return b[headSize:end], nil
	}
	for i := range c.seals {
		if c.seals[i].id == b[atKey] {
			return c.seals[i].open(name, b)
		}
	}
	return nil, corrupt(fmt.Sprintf("it is sealed with key %d, which is not configured", b[atKey]))
}

func decodeAnswer(b []byte) (*Answer, error) {
	d := decoder{b: b}
	a := &Answer{Status: d.uint16()}
	n := d.uvarint()
	// A field takes two bytes at least, so a damaged number allocates little.
	if n > maxFields || n > uint64(len(d.b)/2) {
		d.failed = true
	} else if n > 0 {
		a.Fields = make([]Field, n)
		for i := range a.Fields {
			a.Fields[i] = Field{Name: d.string(), Value: d.string()}
		}
	}
	form, size := d.byte(), d.uvarint()
	if d.failed || size > maxBody {
		return nil, corrupt("its answer is damaged")
	}
	switch form {
	case bodyPlain:
		if uint64(len(d.b)) != size {
			return nil, corrupt("its body has the wrong length")
		}
		if size > 0 {
			a.Body = d.b
		}
	case bodyS2:
		if n, err := s2.DecodedLen(d.b); err != nil || uint64(n) != size {
			return nil, corrupt("its body has the wrong length")
		}
		body, err := s2.Decode(nil, d.b)
		if err != nil {
			return nil, corrupt("its body does not unpack")
		}
		a.Body = body
	default:
		return nil, corrupt("its body has an unknown form")
	}
	return a, nil
}

// decoder takes values off the front of b. Once it has failed it returns zero
// values.
type decoder struct {
	b      []byte
	failed bool
}

func (d *decoder) take(n uint64) []byte {
	if d.failed || n > uint64(len(d.b)) {
		d.failed = true
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) byte() byte {
	if v := d.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (d *decoder) uint16() int {
	if v := d.take(2); v != nil {
		return int(binary.BigEndian.Uint16(v))
	}
	return 0
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if d.failed || n <= 0 {
		d.failed = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

// string returns a string that shares d's memory, which is not written again.
func (d *decoder) string() string {
	v := d.take(d.uvarint())
	return unsafe.String(unsafe.SliceData(v), len(v))
}

func corrupt(what string) error { return fmt.Errorf("%w: %s", ErrCorrupt, what) }

// checksum covers the name, so that a record copied to another name is not one.
func checksum(name string, b []byte) uint32 {
	sum := crc32.Update(0, castagnoli, unsafe.Slice(unsafe.StringData(name), len(name)))
	return crc32.Update(sum, castagnoli, b)
}

func unixMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromUnixMilli(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
