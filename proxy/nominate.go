package proxy

import "bytes"

// noteConnection reads one Connection line. Naming a field there asks every
// hop to drop it; for the fields that decide what a request is, or who sends
// it, that is an attack and not a wish.
func (h *head) noteConnection(value []byte) violation {
	for len(value) > 0 {
		var token []byte
		token, value = nextListItem(value)
		switch {
		case len(token) == 0:
		case equalFold(token, "close"):
			h.close = true
		case equalFold(token, "keep-alive"):
			h.keepAlive = true
		case equalFold(token, "upgrade"):
			h.connectionUpgrade = true
		default:
			switch k := kindOf(token); {
			case k == kindPlain:
				if equalFold(token, "cookie") || equalFold(token, "content-type") {
					return bad("Connection names a field that must be kept")
				}
				if h.nominated++; h.nominated > maxNominated {
					return bad("Connection names too many fields")
				}
			case k.hopByHop():
			default:
				return bad("Connection names a field that must be kept")
			}
		}
	}
	return violation{}
}

// maxNominated bounds how many fields Connection may name: each is compared
// with every field of the head.
const maxNominated = 32

// dropNominated marks the fields named on any Connection line as hop-by-hop
// (RFC 9110 section 7.6.1).
func dropNominated(buf []byte, fields []field, mayDrop func(kind) bool) {
	for i := range fields {
		if fields[i].kind != kindConnection {
			continue
		}
		value := buf[fields[i].value:fields[i].valueEnd]
		for len(value) > 0 {
			var token []byte
			token, value = nextListItem(value)
			for j := range fields {
				f := &fields[j]
				if mayDrop(f.kind) && bytes.EqualFold(buf[f.line:f.nameEnd], token) {
					f.kind = kindHop
				}
			}
		}
	}
}

// PeekAll returns the values of all fields with that name, in order. They are
// valid until it is called again.
func (h *head) PeekAll(name string) [][]byte {
	h.peeked = h.peeked[:0]
	for i := range h.fields {
		if f := &h.fields[i]; int(f.nameEnd-f.line) == len(name) && equalFold(h.nameOf(f), name) {
			h.peeked = append(h.peeked, h.valueOf(f))
		}
	}
	return h.peeked
}

// nextListItem cuts the first item off a comma-separated list.
func nextListItem(list []byte) (item, rest []byte) {
	if i := bytes.IndexByte(list, ','); i >= 0 {
		item, rest = list[:i], list[i+1:]
	} else {
		item = list
	}
	return bytes.Trim(item, " \t"), rest
}
