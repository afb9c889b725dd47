package idempotency

import (
	"iter"
	"slices"
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

// keeper copies those lines of an answer's header that belong in a replay: the
// usual ones and the extra ones, in their order. Fields that the origin names in
// a Connection line are about the connection and left out.
type keeper struct {
	extra      []string
	kept       []Field // has room from the start, or not
	retryAfter bool    // the answer carries Retry-After
	connection []string
	size       int
}

// keep reads header, which may be nil.
func (k *keeper) keep(header iter.Seq2[[]byte, []byte]) {
	if header == nil {
		return
	}
	header(k.line)
	if len(k.connection) > 0 {
		k.kept = slices.DeleteFunc(k.kept, func(f Field) bool { return listed(k.connection, f.Name) })
	}
}

// line reads one line, and wants the next.
func (k *keeper) line(name, value []byte) bool {
	// Compared before it is copied: most lines are not kept.
	if is := canonicalName(name, k.extra); is != "" {
		if k.size += len(is) + len(value); k.size <= maxKeptFields {
			k.kept = append(k.kept, Field{Name: is, Value: string(value)})
		}
		return true
	}
	switch {
	case strings.EqualFold(string(name), "Retry-After"):
		k.retryAfter = true
	case strings.EqualFold(string(name), "Connection"):
		for token := range strings.SplitSeq(string(value), ",") {
			k.connection = append(k.connection, strings.TrimSpace(token))
		}
	}
	return true
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
