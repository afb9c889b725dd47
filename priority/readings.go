package priority

import (
	"bytes"
	"sync"
	"unsafe"

	"sluice/admission"
)

// A step is one thing that an origin may do to a path before it routes. It
// appends what it makes of path to dst. worth says whether it could change
// anything, at the cost of a scan.
type step struct {
	worth func(path []byte) bool
	take  func(dst, path []byte) []byte
}

// steps are what readings are made of. An origin takes some of them, in some
// order, maybe repeatedly, and behind one that does there may be another.
var steps = [...]step{
	{hasByte('%'), decode},
	{hasByte('%'), decodeButSlashes},
	{hasByte(';'), dropParameters},
	{hasByte('\\'), turnBackslashes},
	{hasText("//"), mergeSlashes},
	{hasText("/."), resolveDots},
	{hasText("/."), cleanDots},
	{hasByte(0), cutAt(0)},
	{hasByte('?'), cutAt('?')},
	{hasByte('#'), cutAt('#')},
}

const (
	// Readings that are looked at before a path counts as ambiguous for having
	// too many: percent signs encoded over and over, for instance.
	maxReadings     = 64
	maxReadingBytes = 32 << 10
)

// reader is the memory for the readings of one path.
type reader struct {
	buf  []byte
	ends []int // of each reading in buf
}

var readers = sync.Pool{New: func() any { return new(reader) }}

// Ambiguous reports whether some reading of a raw path chooses another route
// than the raw path itself.
//
// A reading is what comes out of any of these steps in any order, each any
// number of times: decoding percent-encoded bytes, or all but slashes and
// backslashes; dropping ";" and what follows it in a segment; turning
// backslashes into slashes; merging slashes; resolving dot segments with or
// without leaving a slash in place of a final one; ending the path at a NUL,
// question mark or number sign. A path with more than 64 readings, or 32 KiB of
// them, is ambiguous too.
//
// It is a pure function of the routes and its arguments. It does not allocate
// once warm, and for a path on which no step has an effect it costs one scan.
func (t *Router) Ambiguous(method, path string) bool {
	bit := t.bit(method)
	return suspicious(path) && t.ambiguous(bit, path, t.find(bit, path))
}

func (t *Router) ambiguous(method uint64, path string, raw int32) bool {
	r := readers.Get().(*reader)
	defer readers.Put(r)
	_, yes := r.differs(t, method, path, raw)
	return yes
}

// Explain returns the reading for which a path is ambiguous, and the route that
// it chooses (nil: none). The reading is "" where there are too many.
func (t *Router) Explain(method, path string) (reading string, route *admission.Route, ambiguous bool) {
	var r reader
	bit := t.bit(method)
	other, ambiguous := r.differs(t, bit, path, t.find(bit, path))
	if i := t.find(bit, string(other)); i != none {
		route = t.routes[i]
	}
	return string(other), route, ambiguous
}

// differs goes through the readings of a path, whose raw reading chooses the
// route raw, until one chooses another. It returns that one, which is only good
// for as long as r is not used again; nil where there were too many.
func (r *reader) differs(t *Router, method uint64, path string, raw int32) (reading []byte, yes bool) {
	r.buf = append(r.buf[:0], path...)
	r.ends = append(r.ends[:0], len(path))
	for i := 0; i < len(r.ends); i++ {
		for _, step := range steps {
			if !step.worth(r.reading(i)) {
				continue
			}
			from := len(r.buf)
			r.buf = step.take(r.buf, r.reading(i))
			next := r.buf[from:]
			if r.known(next) {
				r.buf = r.buf[:from]
				continue
			}
			if t.find(method, view(next)) != raw {
				return next, true
			}
			r.ends = append(r.ends, len(r.buf))
			if len(r.ends) > maxReadings || len(r.buf)-len(path) > maxReadingBytes {
				return nil, true
			}
		}
	}
	return nil, false
}

// reading returns the i-th reading.
func (r *reader) reading(i int) []byte {
	if i == 0 {
		return r.buf[:r.ends[0]]
	}
	return r.buf[r.ends[i-1]:r.ends[i]]
}

func (r *reader) known(path []byte) bool {
	for i := range r.ends {
		if bytes.Equal(r.reading(i), path) {
			return true
		}
	}
	return false
}

// view returns b as a string without copying it. It must not be kept.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func hasByte(c byte) func([]byte) bool {
	return func(p []byte) bool { return bytes.IndexByte(p, c) >= 0 }
}

func hasText(s string) func([]byte) bool {
	text := []byte(s)
	return func(p []byte) bool { return bytes.Contains(p, text) }
}

// doubtful marks the bytes that make a path suspicious wherever they stand; a
// slash does in front of a slash or a dot.
var doubtful = func() (set [256]bool) {
	for _, c := range []byte("%;\\?#\x00/") {
		set[c] = true
	}
	return set
}()

// suspicious reports whether a step could have an effect on a path.
func suspicious(path string) bool {
	for i := range len(path) {
		if !doubtful[path[i]] {
			continue
		}
		if path[i] != '/' || i+1 < len(path) && (path[i+1] == '/' || path[i+1] == '.') {
			return true
		}
	}
	return false
}

func decode(dst, path []byte) []byte { return unescape(dst, path, true) }

func decodeButSlashes(dst, path []byte) []byte { return unescape(dst, path, false) }

// unescape decodes once. What is not a valid escape stays as it is.
func unescape(dst, path []byte, slashes bool) []byte {
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c == '%' && i+2 < len(path) {
			high, low := unhex(path[i+1]), unhex(path[i+2])
			decoded := high<<4 | low
			if high < 16 && low < 16 && (slashes || decoded != '/' && decoded != '\\') {
				dst = append(dst, decoded)
				i += 2
				continue
			}
		}
		dst = append(dst, c)
	}
	return dst
}

// unhex returns the value of a hexadecimal digit; 16 if c is none.
func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 16
}

func dropParameters(dst, path []byte) []byte {
	drop := false
	for _, c := range path {
		if c == ';' || c == '/' {
			drop = c == ';'
		}
		if !drop {
			dst = append(dst, c)
		}
	}
	return dst
}

func turnBackslashes(dst, path []byte) []byte {
	for _, c := range path {
		if c == '\\' {
			c = '/'
		}
		dst = append(dst, c)
	}
	return dst
}

func mergeSlashes(dst, path []byte) []byte {
	for i, c := range path {
		if c != '/' || i == 0 || path[i-1] != '/' {
			dst = append(dst, c)
		}
	}
	return dst
}

// cutAt ends the path at a byte, which it must have.
func cutAt(c byte) func(dst, path []byte) []byte {
	return func(dst, path []byte) []byte {
		return append(dst, path[:bytes.IndexByte(path, c)]...)
	}
}

// resolveDots removes dot segments as RFC 3986 section 5.2.4 says: a final one
// leaves a slash.
func resolveDots(dst, path []byte) []byte { return removeDots(dst, path, true) }

// cleanDots removes dot segments as file systems do: a final one leaves no
// slash.
func cleanDots(dst, path []byte) []byte { return removeDots(dst, path, false) }

func removeDots(dst, path []byte, slash bool) []byte {
	start := len(dst)
	// What comes before the first slash is no segment of ours to remove.
	first := max(bytes.IndexByte(path, '/'), 0)
	dst = append(dst, path[:first]...)
	floor := len(dst)
	final := false // the last segment was a dot segment
	for rest := path[first:]; len(rest) > 0; {
		end := 1 + bytes.IndexByte(rest[1:], '/')
		if end == 0 {
			end = len(rest)
		}
		segment := rest[:end] // with its slash in front
		rest = rest[end:]
		switch string(segment) {
		case "/.":
			final = true
		case "/..":
			final = true
			if i := bytes.LastIndexByte(dst[floor:], '/'); i >= 0 {
				dst = dst[:floor+i]
			}
		default:
			final = false
			dst = append(dst, segment...)
		}
	}
	if final && slash || len(dst) == start {
		dst = append(dst, '/')
	}
	return dst
}
