package proxy

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"time"

	"sluice/admission/tenant"
)

// facts fills the request from its head. Its strings point into the exchange,
// which nothing else writes to until the request has ended.
func (x *exchange) facts() {
	r, h := &x.request, &x.head
	r.Method = str(h.buf[h.start:h.method])
	target := h.buf[h.target:h.targetEnd]
	if i := bytes.IndexByte(target, '?'); i >= 0 {
		r.Path, r.Query = str(target[:i]), str(target[i+1:])
	} else {
		r.Path = str(target)
	}
	r.Host = str(h.hostValue())
	r.Header = h
	r.Client = x.client()
	r.ClientCert = x.c.cert
	r.ID = x.requestID()
	if name := x.policy.DeadlineHeader; name != "" {
		if wait, ok := parseWait(h.Get(name)); ok {
			r.Deadline = r.Received.Add(wait)
		}
	}
}

// parseWait reads how long a client waits: seconds such as 2.5, or a time such
// as 800ms. Anything else says nothing.
func parseWait(value string, count int) (time.Duration, bool) {
	if count != 1 || len(value) == 0 || len(value) > 32 {
		return 0, false
	}
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		if !(seconds > 0 && seconds < 1e6) {
			return 0, false
		}
		return time.Duration(seconds * float64(time.Second)), true
	}
	d, err := time.ParseDuration(value)
	return d, err == nil && d > 0
}

// trusted reports whether the peer may speak for others: it is one of the
// policy's trusted proxies.
func (x *exchange) trusted() bool {
	for _, p := range x.policy.TrustedProxies {
		if p.Contains(x.c.peer) {
			return true
		}
	}
	return false
}

// client finds the address of the client behind trusted proxies.
func (x *exchange) client() netip.Addr {
	if len(x.policy.TrustedProxies) == 0 || !x.fromTrusted {
		return x.c.peer
	}
	x.xff = x.head.appendJoined(x.xff[:0], kindForwardedFor)
	if len(x.xff) == 0 {
		return x.c.peer
	}
	return tenant.ClientAddr(x.c.peer, []string{str(x.xff)}, x.policy.TrustedProxies)
}

// appendJoined appends the values of all fields of a kind, joined as one list.
func (h *head) appendJoined(b []byte, k kind) []byte {
	first := true
	for i := range h.fields {
		if f := &h.fields[i]; f.kind == k {
			if !first {
				b = append(b, ", "...)
			}
			b, first = append(b, h.valueOf(f)...), false
		}
	}
	return b
}

const maxRequestID = 128

// requestID takes the id that a trusted proxy has given the request, or makes
// one: 128 random bits in hex.
func (x *exchange) requestID() string {
	if x.fromTrusted {
		if id, n := x.head.Get("X-Request-Id"); n == 1 && validID(id) {
			return id
		}
	}
	appendHex(x.id[:0], rand.Uint64())
	appendHex(x.id[:16], rand.Uint64())
	return str(x.id[:])
}

func validID(id string) bool {
	if len(id) == 0 || len(id) > maxRequestID {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] >= 0x7f || id[i] == '"' || id[i] == '\\' {
			return false
		}
	}
	return true
}

// appendHex appends v as 16 hex digits.
func appendHex(b []byte, v uint64) []byte {
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, hexDigits[v>>shift&15])
	}
	return b
}
