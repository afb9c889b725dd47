package idempotency

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

func mustCodec(t testing.TB, o CodecOptions) *Codec {
	t.Helper()
	c, err := NewCodec(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func key(id, fill byte) SealKey { return SealKey{ID: id, Key: bytes.Repeat([]byte{fill}, 32)} }

func completed(body string) *Record {
	return &Record{
		State: Completed, Owner: Owner{Token: [16]byte{1, 2}, Attempt: 3}, OnUnknown: Release,
		Lease: 12 * time.Second, Retention: 24 * time.Hour,
		Claimed: time.UnixMilli(1_700_000_000_000), Settled: time.UnixMilli(1_700_000_000_001),
		Fingerprint: Fingerprint{4}, Credential: Tag{5},
		Answer: &Answer{Status: 201, Fields: []Field{{Name: "ETag", Value: `"1"`}, {Name: "Link"}}, Body: []byte(body)},
	}
}

func TestRecordsSurviveTheCodec(t *testing.T) {
	inFlight := &Record{State: InFlight, Owner: Owner{Token: [16]byte{1}, Attempt: 1}, Lease: time.Second, Retention: time.Minute, Claimed: time.UnixMilli(1)}
	bare := completed("")
	bare.Answer = &Answer{Status: 204}
	tomb := *bare
	tomb.State = Tombstone
	doubt := *inFlight
	doubt.State = InDoubt
	for name, codec := range map[string]*Codec{"plain": mustCodec(t, CodecOptions{}), "sealed": mustCodec(t, CodecOptions{SealKeys: []SealKey{key(1, 1)}})} {
		for _, r := range []*Record{inFlight, completed("body"), completed(strings.Repeat("compressible ", 1000)), bare, &tomb, &doubt} {
			if len(r.Answer.bodyForTest()) == 0 && r.Answer != nil {
				r.Answer.Body = nil
			}
			got, err := codec.decode("name", codec.encode("name", r))
			if err != nil || !reflect.DeepEqual(got, r) {
				t.Errorf("%s: %v became %+v, %v", name, r, got, err)
			}
		}
	}
}

func (a *Answer) bodyForTest() []byte {
	if a == nil {
		return nil
	}
	return a.Body
}

func TestLargeBodiesAreCompressedWhereItHelps(t *testing.T) {
	c := mustCodec(t, CodecOptions{})
	random := make([]byte, 10_000)
	for i := range random {
		random[i] = byte(rand.Uint32())
	}
	for _, tt := range []struct {
		body     string
		min, max int
	}{
		{strings.Repeat("a", 1000), 1000, 1300},   // too small to bother
		{strings.Repeat("a", 10_000), 0, 500},     // compresses
		{string(random), 10_000, 10_300},          // does not
		{strings.Repeat("abcd", 20_000), 0, 1000}, // likewise larger
	} {
		if n := len(c.encode("n", completed(tt.body))); n < tt.min || n > tt.max {
			t.Errorf("a body of %d bytes takes %d, want %d to %d", len(tt.body), n, tt.min, tt.max)
		}
	}
	if n := len(mustCodec(t, CodecOptions{CompressFrom: -1}).encode("n", completed(strings.Repeat("a", 10_000)))); n < 10_000 {
		t.Errorf("compressed to %d bytes although that is off", n)
	}
}

func TestADamagedOrForeignRecordIsAnError(t *testing.T) {
	for name, codec := range map[string]*Codec{"plain": mustCodec(t, CodecOptions{}), "sealed": mustCodec(t, CodecOptions{SealKeys: []SealKey{key(1, 1)}})} {
		good := codec.encode("name", completed(strings.Repeat("compressible ", 200)))
		expect := func(what string, at int, b []byte, as string) {
			t.Helper()
			if r, err := codec.decode(as, b); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%s: %s at %d: %v, %v; want ErrCorrupt", name, what, at, r, err)
			}
		}
		for i := range good {
			for bit := range 8 {
				b := bytes.Clone(good)
				b[i] ^= 1 << bit
				expect("a flipped bit", i, b, "name")
			}
			expect("cut short", i, good[:i], "name")
		}
		expect("something appended", 0, append(bytes.Clone(good), 0), "name")
		expect("copied to another name", 0, good, "eman")
	}
}

func TestSealedRecordsTellNothing(t *testing.T) {
	plain, sealed := mustCodec(t, CodecOptions{}), mustCodec(t, CodecOptions{SealKeys: []SealKey{key(1, 1)}})
	r := completed("a secret body")
	if b := sealed.encode("name", r); bytes.Contains(b, []byte("secret")) || bytes.Contains(b, r.Fingerprint[:]) {
		t.Error("body or fingerprint are in clear")
	}
	if bytes.Equal(sealed.encode("name", r), sealed.encode("name", r)) {
		t.Error("equal records show that they are")
	}
	if _, err := sealed.decode("name", plain.encode("name", r)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("an unsealed record is believed where sealing is configured: %v", err)
	}
	if _, err := plain.decode("name", sealed.encode("name", r)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a sealed record without a key: %v", err)
	}
}

func TestSealingKeysCanBeChanged(t *testing.T) {
	r := completed("body")
	old := mustCodec(t, CodecOptions{SealKeys: []SealKey{key(1, 1)}}).encode("name", r)
	both := mustCodec(t, CodecOptions{SealKeys: []SealKey{key(2, 2), key(1, 1)}})
	if got, err := both.decode("name", old); err != nil || !reflect.DeepEqual(got, r) {
		t.Errorf("a record of the old key: %v, %v", got, err)
	}
	if b := both.encode("name", r); b[atKey] != 2 {
		t.Errorf("sealed with key %d, want the first", b[atKey])
	}
	for _, keys := range [][]SealKey{{{ID: 0, Key: make([]byte, 32)}}, {{ID: 1, Key: make([]byte, 16)}}, {key(1, 1), key(1, 2)}} {
		if _, err := NewCodec(CodecOptions{SealKeys: keys}); err == nil {
			t.Errorf("%d bad keys are accepted", len(keys))
		}
	}
}

// Whatever is stored: it is the record that was written, or ErrCorrupt.
func FuzzDecodeRecord(f *testing.F) {
	plain, sealed := mustCodec(f, CodecOptions{}), mustCodec(f, CodecOptions{SealKeys: []SealKey{key(1, 1)}})
	f.Add(plain.encode("name", completed("body")))
	f.Add(plain.encode("name", completed(strings.Repeat("compressible ", 200))))
	f.Add(sealed.encode("name", completed("body")))
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, c := range []*Codec{plain, sealed} {
			r, err := c.decode("name", b)
			if err != nil {
				if !errors.Is(err, ErrCorrupt) {
					t.Fatalf("error %v is not ErrCorrupt", err)
				}
				continue
			}
			again, err := c.decode("name", c.encode("name", r))
			if err != nil || !reflect.DeepEqual(again, r) {
				t.Fatalf("decoded %+v, which encodes to %+v, %v", r, again, err)
			}
		}
		// The checksum keeps most inputs out; look behind it too.
		if a, err := decodeAnswer(b); err == nil && len(a.Body) > maxBody {
			t.Fatal("a body over the limit")
		}
	})
}
