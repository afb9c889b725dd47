package proxy

import (
	"encoding/binary"
	"unsafe"
)

// tchar marks the characters of a token (RFC 9110 section 5.6.2).
var tchar = func() (t [256]bool) {
	for c := range t {
		t[c] = '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	for _, c := range "!#$%&'*+-.^_`|~" {
		t[c] = true
	}
	return t
}()

const hexDigits = "0123456789abcdef"

func isTchar(c byte) bool { return tchar[c] }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// validValue reports whether b is a field value: no control characters but
// tab. Bytes above 0x7f are allowed (obs-text), as origins may expect them.
// Eight bytes are tested at a time, since this looks at every byte of every
// request.
func validValue(b []byte) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for len(b) >= 8 {
		w := binary.LittleEndian.Uint64(b)
		below := (w - ones*0x20) & ^w & highs // bytes < 0x20
		x := w ^ ones*0x7f
		del := (x - ones) & ^x & highs // bytes == 0x7f
		if below|del != 0 && !validBytes(b[:8]) {
			return false
		}
		b = b[8:]
	}
	return validBytes(b)
}

func validBytes(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// ValidField reports whether a header field can be sent to a client as it is,
// and is not one that the gateway sets itself.
func ValidField(name, value string) bool {
	if name == "" || !validValue([]byte(value)) {
		return false
	}
	for i := range len(name) {
		if !isTchar(name[i]) {
			return false
		}
	}
	return kindOf([]byte(name)) == kindPlain
}

// validHost accepts what can stand in a Host field: a registered name, an IPv4
// address or a bracketed IPv6 one, with an optional port. Userinfo, paths and
// percent-encoding are refused; an empty value is allowed (RFC 9112 section
// 3.2) and forwarded as it is.
func validHost(b []byte) bool {
	if len(b) > 0 && b[0] == '[' {
		i := 1
		for i < len(b) && (isDigit(b[i]) || 'a' <= b[i]|0x20 && b[i]|0x20 <= 'f' || b[i] == ':' || b[i] == '.') {
			i++
		}
		return i > 2 && i < len(b) && b[i] == ']' && validPort(b[i+1:])
	}
	for i, c := range b {
		switch {
		case isDigit(c), 'a' <= c|0x20 && c|0x20 <= 'z', c == '.', c == '-', c == '_':
		case c == ':' && i > 0:
			return validPort(b[i:])
		default:
			return false
		}
	}
	return true
}

func validPort(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	if b[0] != ':' || len(b) > 6 {
		return false
	}
	for _, c := range b[1:] {
		if !isDigit(c) {
			return false
		}
	}
	return true
}

// equalFold compares b with the ASCII string s without regard to case.
func equalFold(b []byte, s string) bool {
	if len(b) != len(s) {
		return false
	}
	for i := range b {
		x, y := b[i], s[i]
		if x == y {
			continue
		}
		if x|0x20 != y|0x20 || x|0x20 < 'a' || x|0x20 > 'z' {
			return false
		}
	}
	return true
}

// str views b as a string. The string is valid as long as b is left unchanged.
func str(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
