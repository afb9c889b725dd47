package tenant

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Anonymous is the tenant of requests that present no identity.
const Anonymous = "anonymous"

const (
	// MaxName is the longest name that a header or a policy can give a tenant.
	MaxName = 128

	// MaxKey is the longest API key that is looked at.
	MaxKey = 512

	addressPrefix = "ip:"
	certPrefix    = "cert:"
)

// Kind is a kind of source.
type Kind uint8

const (
	Header     Kind = iota // the header field Source.Header holds the name
	APIKey                 // a key in Source.Header, or in Authorization as a bearer token
	ClientCert             // the name in the client's verified certificate
	Address                // the client's address, cut to a prefix
)

// Source is one place to look for an identity.
type Source struct {
	Kind   Kind
	Header string // of kind Header; of kind APIKey: "" for Authorization: Bearer
	Keys   []Key  // of kind APIKey
	IPv4   int    // of kind Address: prefix length, 0 for 32
	IPv6   int    // of kind Address: prefix length, 0 for 64
}

// Key is an API key, known by its hash, and the tenant that it stands for.
type Key struct {
	SHA256 [sha256.Size]byte
	Tenant string
}

// Options is a policy of identity.
type Options struct {
	From []Source

	// Reject refuses requests that present no identity; otherwise they belong
	// to Anonymous.
	Reject bool

	// Realm is the name of the protected space in the challenge that goes with
	// a 401 (RFC 9110 section 11.5); "" for "api".
	Realm string
}

// ParseSHA256 reads a hash as 64 hexadecimal digits. Its error does not repeat
// the text, which may be a key that was put in place of its hash.
func ParseSHA256(text string) (hash [sha256.Size]byte, err error) {
	if len(text) != hex.EncodedLen(len(hash)) {
		return hash, fmt.Errorf("tenant: %d characters, want the 64 hexadecimal digits of the key's SHA-256", len(text))
	}
	if _, err := hex.Decode(hash[:], []byte(text)); err != nil {
		return hash, errors.New("tenant: not hexadecimal, want the 64 hexadecimal digits of the key's SHA-256")
	}
	return hash, nil
}

// CheckName reports what is wrong with a name that a policy gives to a tenant
// that has an API key, or nil.
func CheckName(name string) error {
	switch {
	case !visible(name):
		return fmt.Errorf("tenant: name %q, want 1 to %d visible ASCII characters", name, MaxName)
	case reserved(name):
		return fmt.Errorf("tenant: name %q is reserved, want one that is not %q and does not begin with %q or %q",
			name, Anonymous, addressPrefix, certPrefix)
	}
	return nil
}

// visible reports whether name is of the length and characters that a name may
// have.
func visible(name string) bool {
	if name == "" || len(name) > MaxName {
		return false
	}
	if len(name) < 8 {
		for i := range len(name) {
			if name[i] <= ' ' || name[i] > '~' {
				return false
			}
		}
		return true
	}
	for i := 0; ; i += 8 {
		i = min(i, len(name)-8) // at the end some are looked at again
		// Eight characters at a time. The highest bit of each byte says whether
		// it is above '~' or below '!'. What is carried or borrowed by the byte
		// next to it can only come from one for which it says so too.
		const each = 0x0101010101010101
		n := name[i : i+8]
		w := uint64(n[0]) | uint64(n[1])<<8 | uint64(n[2])<<16 | uint64(n[3])<<24 |
			uint64(n[4])<<32 | uint64(n[5])<<40 | uint64(n[6])<<48 | uint64(n[7])<<56
		if (w|(w+each*(127-'~'))|(w-each*'!')&^w)&(each*0x80) != 0 {
			return false
		}
		if i == len(name)-8 {
			return true
		}
	}
}

// reserved reports whether name is one that sources other than a header make.
func reserved(name string) bool {
	return name == Anonymous || strings.HasPrefix(name, addressPrefix) || strings.HasPrefix(name, certPrefix)
}

// Validate reports everything that is wrong with o, or nil.
func (o Options) Validate() error {
	var errs []error
	bad := func(i int, format string, args ...any) {
		errs = append(errs, fmt.Errorf("source %d: "+format, append([]any{i + 1}, args...)...))
	}
	for i, s := range o.From {
		switch s.Kind {
		case Header:
			if !token(s.Header) {
				bad(i, "header %q is not the name of a header field", s.Header)
			}
		case APIKey:
			if s.Header != "" && !token(s.Header) {
				bad(i, "header %q is not the name of a header field", s.Header)
			}
			if len(s.Keys) == 0 {
				bad(i, "no API keys, want at least one")
			}
			seen := make(map[[sha256.Size]byte]string, len(s.Keys))
			for _, k := range s.Keys {
				if err := CheckName(k.Tenant); err != nil {
					bad(i, "%w", err)
				}
				if other, ok := seen[k.SHA256]; ok {
					bad(i, "tenants %q and %q have the same API key", other, k.Tenant)
				}
				seen[k.SHA256] = k.Tenant
			}
		case Address:
			if s.IPv4 < 0 || s.IPv4 > 32 {
				bad(i, "IPv4 prefix length is %d, want 1 to 32, or 0 for 32", s.IPv4)
			}
			if s.IPv6 < 0 || s.IPv6 > 128 {
				bad(i, "IPv6 prefix length is %d, want 1 to 128, or 0 for 64", s.IPv6)
			}
		case ClientCert:
		default:
			bad(i, "unknown kind %d", s.Kind)
		}
	}
	if strings.ContainsAny(o.Realm, "\"\\") || o.Realm != "" && !visible(strings.ReplaceAll(o.Realm, " ", "_")) {
		errs = append(errs, fmt.Errorf("realm %q, want visible ASCII characters and spaces without quotes and backslashes", o.Realm))
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("tenant: %w", errors.Join(errs...))
}

// token reports whether s can be a field name (RFC 9110 section 5.1).
func token(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}
