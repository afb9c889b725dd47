package idempotency

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"sluice/admission"
)

func TestParseKey(t *testing.T) {
	long := strings.Repeat("k", MaxKeyLength)
	for _, tt := range []struct {
		lines  []string
		want   string // "": an error
		strict string // likewise, in strict mode
		reason admission.Reason
	}{
		{[]string{`8e03978e-40d5-43dd-bc93-6894a57f9324`}, "8e03978e-40d5-43dd-bc93-6894a57f9324", "", admission.KeyInvalid},
		{[]string{`"8e03978e-40d5-43dd-bc93-6894a57f9324"`}, "8e03978e-40d5-43dd-bc93-6894a57f9324", "8e03978e-40d5-43dd-bc93-6894a57f9324", 0},
		{[]string{` "k"	`}, "k", "k", 0},
		{[]string{`  k `}, "k", "", admission.KeyInvalid},
		{[]string{`"a b"`}, "a b", "a b", 0},
		{[]string{`"a,b"`}, "a,b", "a,b", 0},
		{[]string{`"a\"b\\c"`}, `a"b\c`, `a"b\c`, 0},
		{[]string{`a"b\c`}, `a"b\c`, "", admission.KeyInvalid},
		{[]string{long}, long, "", admission.KeyInvalid},
		{[]string{`"` + long + `"`}, long, long, 0},
		{nil, "", "", admission.KeyMissing},
		{[]string{"a", "a"}, "", "", admission.KeyInvalid},
		{[]string{""}, "", "", admission.KeyInvalid},
		{[]string{`""`}, "", "", admission.KeyInvalid},
		{[]string{long + "k"}, "", "", admission.KeyInvalid},
		{[]string{`"` + long + `k"`}, "", "", admission.KeyInvalid},
		{[]string{"a,b"}, "", "", admission.KeyInvalid},
		{[]string{"a b"}, "", "", admission.KeyInvalid},
		{[]string{"a\x00b"}, "", "", admission.KeyInvalid},
		{[]string{"a\x7fb"}, "", "", admission.KeyInvalid},
		{[]string{"käse"}, "", "", admission.KeyInvalid},
		{[]string{`"käse"`}, "", "", admission.KeyInvalid},
		{[]string{"\"a\tb\""}, "", "", admission.KeyInvalid},
		{[]string{`"a`}, "", "", admission.KeyInvalid},
		{[]string{`"`}, "", "", admission.KeyInvalid},
		{[]string{`"a"b`}, "", "", admission.KeyInvalid},
		{[]string{`"a";p=1`}, "", "", admission.KeyInvalid},
		{[]string{`"a\b"`}, "", "", admission.KeyInvalid},
		{[]string{`"a\`}, "", "", admission.KeyInvalid},
		{[]string{`"a","b"`}, "", "", admission.KeyInvalid},
	} {
		var lines [][]byte
		for _, l := range tt.lines {
			lines = append(lines, []byte(l))
		}
		for _, strict := range []bool{false, true} {
			want := tt.want
			if strict {
				want = tt.strict
			}
			got, err := ParseKey(lines, strict)
			if string(got) != want {
				t.Errorf("ParseKey(%q, %v) = %q, want %q", tt.lines, strict, got, want)
			}
			var ke *KeyError
			if want == "" && (!errors.As(err, &ke) || ke.Reason != tt.reason) {
				t.Errorf("ParseKey(%q, %v) gave error %v, want reason %v", tt.lines, strict, err, tt.reason)
			}
			if want != "" && err != nil {
				t.Errorf("ParseKey(%q, %v): %v", tt.lines, strict, err)
			}
		}
	}
}

// quote writes a key as a String of RFC 9651.
func quote(key []byte) []byte {
	key = bytes.ReplaceAll(key, []byte(`\`), []byte(`\\`))
	key = bytes.ReplaceAll(key, []byte(`"`), []byte(`\"`))
	return append(append([]byte(`"`), key...), '"')
}

func FuzzParseKey(f *testing.F) {
	for _, s := range []string{"k", `"k"`, `"a\"b"`, "", `"`, "a,b", "\x00", `"a" `} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		before := bytes.Clone(line)
		key, err := ParseKey([][]byte{line}, false)
		if !bytes.Equal(line, before) {
			t.Fatal("the header was changed")
		}
		if err != nil {
			var ke *KeyError
			if !errors.As(err, &ke) || ke.Reason != admission.KeyInvalid {
				t.Fatalf("error %v", err)
			}
			return
		}
		if len(key) == 0 || len(key) > MaxKeyLength {
			t.Fatalf("a key of %d characters", len(key))
		}
		for _, c := range key {
			if c < ' ' || c > '~' {
				t.Fatalf("key %q", key)
			}
		}
		again, err := ParseKey([][]byte{quote(key)}, true)
		if err != nil || !bytes.Equal(again, key) {
			t.Fatalf("quoted, %q is %q (%v)", key, again, err)
		}
	})
}
