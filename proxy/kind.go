package proxy

// kind says what the gateway does with a header field.
type kind uint8

const (
	kindPlain kind = iota // passed on as it is
	kindHop               // hop-by-hop: ends here

	kindHost
	kindContentLength
	kindTransferEncoding
	kindConnection
	kindExpect
	kindUpgrade
	kindTrailer
	kindIdempotencyKey
	kindAuthorization
	kindAcceptEncoding

	kindForwardedFor
	kindForwardedOther // X-Forwarded-* but For, Proto and Host; X-Real-IP
	kindForwardedProto
	kindForwardedHost
	kindForwarded
	kindVia
	kindRequestID
	kindTraceparent
	kindTracestate

	kindOurs      // Sluice-*: ours to set, so a client's copy ends here
	kindLookAlike // like one of the above but for an underscore: ends here
)

// hopByHop reports whether Connection may name such a field: those that end at
// this hop anyway.
func (k kind) hopByHop() bool {
	switch k {
	case kindHop, kindConnection, kindUpgrade, kindLookAlike, kindTransferEncoding, kindTrailer:
		return true
	}
	return false
}

// names lists the fields with a kind of their own, by length and in lower
// case. Hop-by-hop fields are those of RFC 9110 section 7.6.1 and the ones
// that older intermediaries use.
var names = func() (byLength [32][]namedKind) {
	for name, k := range map[string]kind{
		"host":                kindHost,
		"content-length":      kindContentLength,
		"transfer-encoding":   kindTransferEncoding,
		"connection":          kindConnection,
		"expect":              kindExpect,
		"upgrade":             kindUpgrade,
		"trailer":             kindTrailer,
		"idempotency-key":     kindIdempotencyKey,
		"authorization":       kindAuthorization,
		"accept-encoding":     kindAcceptEncoding,
		"proxy-connection":    kindHop,
		"keep-alive":          kindHop,
		"te":                  kindHop,
		"http2-settings":      kindHop,
		"proxy-authorization": kindHop,
		"proxy-authenticate":  kindHop,
		"x-forwarded-for":     kindForwardedFor,
		"x-forwarded-proto":   kindForwardedProto,
		"x-forwarded-host":    kindForwardedHost,
		"x-real-ip":           kindForwardedOther,
		"forwarded":           kindForwarded,
		"via":                 kindVia,
		"x-request-id":        kindRequestID,
		"traceparent":         kindTraceparent,
		"tracestate":          kindTracestate,
	} {
		byLength[len(name)] = append(byLength[len(name)], namedKind{name, k})
	}
	return byLength
}()

type namedKind struct {
	name string
	kind kind
}

// kindOf finds a field's kind. Underscores count as hyphens, since many
// origins cannot tell the two apart (CGI, WSGI): such a look-alike of a field
// that the gateway vouches for must not get through beside ours.
func kindOf(name []byte) kind {
	if len(name) >= len(names) {
		return prefixKind(name)
	}
	for i := range names[len(name)] {
		n := &names[len(name)][i]
		// The last letter tells most names of one length apart.
		if name[len(name)-1]|0x20 != n.name[len(name)-1] {
			continue
		}
		if same, exact := equalName(name, n.name); same {
			if exact {
				return n.kind
			}
			return kindLookAlike
		}
	}
	return prefixKind(name)
}

func prefixKind(name []byte) kind {
	switch name[0] {
	case 's', 'S':
		const p = "sluice-"
		if len(name) > len(p) {
			if same, _ := equalName(name[:len(p)], p); same {
				return kindOurs
			}
		}
	case 'x', 'X':
		const p = "x-forwarded-"
		if len(name) > len(p) {
			if same, exact := equalName(name[:len(p)], p); same {
				if exact {
					return kindForwardedOther
				}
				return kindLookAlike
			}
		}
	}
	return kindPlain
}

// equalName compares a field name with a lower-case one; exact is false where
// they only agree when an underscore is read as a hyphen.
func equalName(b []byte, lower string) (same, exact bool) {
	exact = true
	for i := range b {
		x, y := b[i], lower[i]
		switch {
		case x == y, 'A' <= x && x <= 'Z' && x|0x20 == y:
		case x == '_' && y == '-':
			exact = false
		default:
			return false, false
		}
	}
	return true, exact
}
