package proxy

import (
	"math/rand/v2"
	"strconv"
)

// kinds is a set of kinds.
type kinds uint64

func kindSet(ks ...kind) (s kinds) {
	for _, k := range ks {
		s |= 1 << k
	}
	return s
}

func (s kinds) has(k kind) bool { return s>>k&1 != 0 }

// passed are the kinds of request fields that reach the origin as the client
// sent them, whoever the client is.
var passed = kindSet(kindPlain, kindHost, kindIdempotencyKey, kindAuthorization, kindVia)

// vouched are those that do so too when they come from a trusted proxy.
var vouched = kindSet(kindForwardedOther, kindForwardedProto, kindForwardedHost, kindForwarded)

// appendRequestHead appends the head that the origin gets: the client's own
// request line and fields byte for byte and in order, without those that end
// here, then ours. Lines that stand together are copied in one piece.
func (x *exchange) appendRequestHead(b []byte, rp *RoutePolicy) []byte {
	h := &x.head
	b = append(b, h.buf[h.start:h.targetEnd]...)
	b = append(b, " HTTP/1.1\r\n"...)

	keep := passed
	if !x.request.Keyed {
		keep |= kindSet(kindAcceptEncoding)
	}
	counted := h.contentLength >= 0
	if counted {
		keep |= kindSet(kindContentLength)
	}
	if x.fromTrusted {
		keep |= vouched
	}
	if !x.policy.XForwarded && x.fromTrusted {
		keep |= kindSet(kindForwardedFor)
	}
	upgrade := h.upgrade && rp.Upgrade
	if upgrade {
		keep |= kindSet(kindUpgrade)
	}
	trace, n := h.Get("traceparent")
	traced := n == 1 && validTraceparent(trace)
	if traced {
		keep |= kindSet(kindTraceparent, kindTracestate)
	}
	b = appendFields(b, h.buf, h.fields, keep)

	if h.hostField < 0 {
		// HTTP/1.0 knows no Host; HTTP/1.1 needs one.
		b = appendField(b, "Host: ", x.policy.Origin.authority)
	}
	switch {
	case upgrade:
		b = append(b, "Connection: Upgrade\r\n"...)
	case h.chunked && rp.Stream:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case h.chunked:
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, int64(len(x.bodyBuf)), 10)
		b = append(b, '\r', '\n')
	}
	b = x.appendForwarded(b)
	b = appendField(b, "Via: 1.1 ", x.c.server.via)
	b = appendField(b, "X-Request-Id: ", x.request.ID)
	if !traced {
		b = append(b, "traceparent: 00-"...)
		b = appendHex(appendHex(b, rand.Uint64()|1), rand.Uint64())
		b = append(b, '-')
		b = append(appendHex(b, rand.Uint64()|1), "-00\r\n"...)
	}
	if x.request.Keyed {
		// A replay has to suit whoever asks for it.
		b = append(b, "Accept-Encoding: identity\r\n"...)
	}
	if n := x.request.Attempt; n > 0 {
		b = append(b, "Sluice-Attempt: "...)
		b = strconv.AppendInt(b, int64(n), 10)
		b = append(b, '\r', '\n')
	}
	if r := &x.request; r.Route != nil {
		b = appendField(b, "Sluice-Tenant: ", r.Tenant)
		if r.Class >= 0 && int(r.Class) < len(x.policy.Classes) {
			b = appendField(b, "Sluice-Class: ", x.policy.Classes[r.Class])
		}
	}
	return append(b, '\r', '\n')
}

// appendFields appends the lines of the fields whose kinds are kept.
func appendFields(b, buf []byte, fields []field, keep kinds) []byte {
	from, to := uint32(0), uint32(0) // the run of lines not yet copied
	for i := range fields {
		f := &fields[i]
		if keep.has(f.kind) {
			if f.line != to {
				b = append(b, buf[from:to]...)
				from = f.line
			}
			to = f.next
		}
	}
	return append(b, buf[from:to]...)
}

func appendField(b []byte, name, value string) []byte {
	b = append(b, name...)
	b = append(b, value...)
	return append(b, '\r', '\n')
}

// appendForwarded tells the origin whom the request comes from. What an
// untrusted peer says of itself has been dropped; what a trusted proxy says is
// kept and its own address appended.
func (x *exchange) appendForwarded(b []byte) []byte {
	h, proto := &x.head, "http"
	if x.c.secure {
		proto = "https"
	}
	if x.policy.XForwarded {
		b = append(b, "X-Forwarded-For: "...)
		if x.fromTrusted && h.hasKind(kindForwardedFor) {
			b = h.appendJoined(b, kindForwardedFor)
			b = append(b, ", "...)
		}
		b = append(b, x.c.peerText...)
		b = append(b, '\r', '\n')
		if !x.fromTrusted || !h.hasKind(kindForwardedProto) {
			b = appendField(b, "X-Forwarded-Proto: ", proto)
		}
		if host := h.hostValue(); len(host) > 0 && (!x.fromTrusted || !h.hasKind(kindForwardedHost)) {
			b = appendField(b, "X-Forwarded-Host: ", str(host))
		}
	}
	if x.policy.Forwarded {
		b = append(b, "Forwarded: for="...)
		if x.c.peer.Is4() {
			b = append(b, x.c.peerText...)
		} else {
			b = append(b, `"[`...)
			b = append(b, x.c.peerText...)
			b = append(b, `]"`...)
		}
		b = append(append(b, ";proto="...), proto...)
		if host := h.hostValue(); len(host) > 0 {
			b = append(append(append(b, `;host="`...), host...), '"')
		}
		b = append(b, '\r', '\n')
	}
	return b
}

func (h *head) hasKind(k kind) bool {
	for i := range h.fields {
		if h.fields[i].kind == k {
			return true
		}
	}
	return false
}

// looped reports whether the request has been here before: Via names us.
func (x *exchange) looped() bool {
	h := &x.head
	for i := range h.fields {
		if h.fields[i].kind != kindVia {
			continue
		}
		for list := h.valueOf(&h.fields[i]); len(list) > 0; {
			var hop []byte
			hop, list = nextListItem(list)
			// received-protocol SP received-by [SP comment]
			for j, c := range hop {
				if c == ' ' {
					by := hop[j+1:]
					for k, c := range by {
						if isBlank(c) {
							by = by[:k]
							break
						}
					}
					if string(by) == x.c.server.via {
						return true
					}
					break
				}
			}
		}
	}
	return false
}

// validTraceparent checks version 00 of the W3C Trace Context field; of later
// versions only what they share with it (section 3.2.4).
func validTraceparent(s string) bool {
	if len(s) < 55 || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return false
	}
	for i := range 55 {
		if i == 2 || i == 35 || i == 52 {
			continue
		}
		if c := s[i]; !isDigit(c) && (c < 'a' || c > 'f') {
			return false
		}
	}
	const zeros = "00000000000000000000000000000000"
	if s[3:35] == zeros || s[36:52] == zeros[:16] || s[:2] == "ff" {
		return false
	}
	return len(s) == 55 || s[:2] != "00" && s[55] == '-'
}
