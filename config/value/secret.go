package value

import (
	"crypto/subtle"
	"fmt"
	"log/slog"
)

// Mask stands for every secret, whatever its length, wherever it is printed.
const Mask = "********"

// Secret is a text that never prints: fmt with every verb, encoding/json, YAML
// and slog all show [Mask], and an unset Secret as "". Only [Secret.Reveal]
// gives the text. The zero value is unset. Compare secrets with [Secret.Equal],
// not with ==.
type Secret struct {
	text *string // behind a pointer, since %p looks into structs without asking
}

// NewSecret returns a Secret that hides text.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// Reveal returns the text. Don't log it, and don't put it into an error.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsZero reports whether s is unset.
func (s Secret) IsZero() bool { return s.text == nil }

// Equal compares two secrets in a time that depends on their lengths alone.
func (s Secret) Equal(other Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(other.Reveal())) == 1
}

// String returns the mask, or "" where s is unset.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return Mask
}

// GoString is String, for %#v.
func (s Secret) GoString() string { return fmt.Sprintf("value.Secret(%q)", s.String()) }

// Format prints the mask under every verb, also those that would otherwise
// reach for the field: %d, %x, %+v.
func (s Secret) Format(f fmt.State, verb rune) {
	if verb == 'v' && f.Flag('#') {
		fmt.Fprint(f, s.GoString())
		return
	}
	if verb == 'q' {
		fmt.Fprintf(f, "%q", s.String())
		return
	}
	fmt.Fprint(f, s.String())
}

// MarshalText writes the mask; encoding/json and YAML use it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue gives slog the mask.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// UnmarshalText takes text as the secret.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = NewSecret(string(text))
	return nil
}

// Grammar names the kind of value; any text is one.
func (Secret) Grammar() (what, pattern string) { return "a secret", "" }

// Masked tells the loader never to quote a value of this type.
func (Secret) Masked() {}
