package idempotency

import (
	"bytes"

	"sluice/admission"
)

// MaxKeyLength is how many characters an idempotency key may have.
const MaxKeyLength = 255

// KeyError says why a request has no usable key.
type KeyError struct {
	Reason admission.Reason // KeyMissing or KeyInvalid
	Detail string           // for the client: what is wrong, what would be right
}

func (e *KeyError) Error() string { return "Idempotency-Key: " + e.Detail }

var (
	errKeyMissing  = &KeyError{admission.KeyMissing, "the header is missing"}
	errKeyLines    = &KeyError{admission.KeyInvalid, "more than one header line; send the key once"}
	errKeyEmpty    = &KeyError{admission.KeyInvalid, "the key is empty; send 1 to 255 characters"}
	errKeyLong     = &KeyError{admission.KeyInvalid, "the key is longer than 255 characters"}
	errKeyStrict   = &KeyError{admission.KeyInvalid, `the key is not quoted; send it as a string: "key"`}
	errKeyQuote    = &KeyError{admission.KeyInvalid, "the quoted key does not end with a quote; send one string and nothing after it"}
	errKeyEscape   = &KeyError{admission.KeyInvalid, `a backslash in a quoted key is followed by neither " nor \`}
	errKeyQuoted   = &KeyError{admission.KeyInvalid, "a quoted key holds a character that is not printable ASCII"}
	errKeyBare     = &KeyError{admission.KeyInvalid, "a bare key holds a character that is not visible ASCII"}
	errKeyBareList = &KeyError{admission.KeyInvalid, "a bare key holds a comma; quote the key, or send one key only"}
)

// ParseKey reads a key from the lines of a request's Idempotency-Key header.
//
// It accepts the quoted form of draft-ietf-httpapi-idempotency-key-header-07 (a
// String of RFC 9651) and the bare form most clients send; "k" and k are the
// same key. With strict only the quoted form is accepted. The key is compared
// byte for byte, hence case-sensitive.
//
// The key may share memory with lines. The error is always a *KeyError.
func ParseKey(lines [][]byte, strict bool) ([]byte, error) {
	switch len(lines) {
	case 0:
		return nil, errKeyMissing
	case 1:
	default:
		return nil, errKeyLines
	}
	value := bytes.Trim(lines[0], " \t")
	var err error
	switch {
	case len(value) == 0:
		return nil, errKeyEmpty
	case value[0] == '"':
		value, err = parseQuoted(value)
	case strict:
		return nil, errKeyStrict
	default:
		err = checkBare(value)
	}
	switch {
	case err != nil:
		return nil, err
	case len(value) == 0:
		return nil, errKeyEmpty
	case len(value) > MaxKeyLength:
		return nil, errKeyLong
	}
	return value, nil
}

func checkBare(value []byte) error {
	for _, c := range value {
		switch {
		case c == ',':
			return errKeyBareList
		case c <= ' ' || c > '~':
			return errKeyBare
		}
	}
	return nil
}

// parseQuoted reads a String by the algorithm of RFC 9651 section 4.2.5. It
// copies only where there is something to unescape.
func parseQuoted(value []byte) ([]byte, error) {
	var unescaped []byte
	for i := 1; i < len(value); i++ {
		c := value[i]
		switch {
		case c == '"':
			if i != len(value)-1 {
				return nil, errKeyQuote
			}
			if unescaped != nil {
				return unescaped, nil
			}
			return value[1:i], nil
		case c == '\\':
			if unescaped == nil {
				unescaped = append(make([]byte, 0, len(value)), value[1:i]...)
			}
			i++
			if i == len(value) || value[i] != '"' && value[i] != '\\' {
				return nil, errKeyEscape
			}
			c = value[i]
		case c < ' ' || c > '~':
			return nil, errKeyQuoted
		}
		if unescaped != nil {
			unescaped = append(unescaped, c)
		}
	}
	return nil, errKeyQuote
}
