package idempotency

import (
	"iter"
	"strings"
)

// keptFields are the answer fields that belong to the answer itself rather
// than to the moment or the connection it was given on.
var keptFields = []string{
	"Content-Type", "Content-Encoding", "Content-Language", "Content-Disposition",
	"Location", "Content-Location", "ETag", "Last-Modified", "Link",
}

// neverKeptFields would be wrong, stale or somebody else's in a replay, even
// if configured.
var neverKeptFields = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "TE", "Trailer", "Transfer-Encoding", "Upgrade",
	"Proxy-Authenticate", "Proxy-Authentication-Info", "Content-Length",
	"Date", "Age", "Set-Cookie", "WWW-Authenticate", "Server", "Via",
	"RateLimit", "RateLimit-Policy", "Traceparent", "Tracestate", "X-Request-Id",
	"Idempotent-Replayed", "Idempotency-Status",
}

// maxKeptFields bounds what the kept fields of one answer hold, in bytes;
// a line that does not fit is left out.
const maxKeptFields = 16 << 10

func neverKept(name string) bool {
	return listed(neverKeptFields, name) || hasPrefixFold(name, "X-RateLimit-") || hasPrefixFold(name, "Sluice-")
}

func listed(names []string, name string) bool {
	for _, n := range names {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// keepFields copies those lines of an answer's header that belong in a replay:
// the usual ones and the extra ones, in their order. Fields that the origin
// names in a Connection line are about the connection and left out. It also
// reports whether the answer carries Retry-After.
func keepFields(header iter.Seq2[[]byte, []byte], extra []string) (kept []Field, retryAfter bool) {
	if header == nil {
		return nil, false
	}
	var connection []string
	size := 0
	for k, v := range header {
		// Compared before it is copied: most lines are not kept.
		name := canonicalName(k, extra)
		if name == "" {
			switch {
			case strings.EqualFold(string(k), "Retry-After"):
				retryAfter = true
			case strings.EqualFold(string(k), "Connection"):
				for token := range strings.SplitSeq(string(v), ",") {
					connection = append(connection, strings.TrimSpace(token))
				}
			}
			continue
		}
		if size += len(name) + len(v); size > maxKeptFields {
			continue
		}
		if kept == nil {
			kept = make([]Field, 0, 4)
		}
		kept = append(kept, Field{Name: name, Value: string(v)})
	}
	if len(connection) == 0 {
		return kept, retryAfter
	}
	n := 0
	for _, f := range kept {
		if !listed(connection, f.Name) {
			kept[n] = f
			n++
		}
	}
	return kept[:n], retryAfter
}

// canonicalName returns the kept field that k names, or "".
func canonicalName(k []byte, extra []string) string {
	for _, names := range [...][]string{keptFields, extra} {
		for _, n := range names {
			if len(n) == len(k) && strings.EqualFold(n, string(k)) {
				return n
			}
		}
	}
	return ""
}
