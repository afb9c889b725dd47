package priority

import (
	"fmt"
	"strings"
)

const (
	wildcard = "*"  // one non-empty segment
	tail     = "**" // whatever follows
)

// Pattern matches raw paths; see the package comment for its syntax. The zero
// value matches nothing.
type Pattern struct {
	text     string
	segments []string // without a final "**"
	rest     bool     // ends with "**"
}

// ParsePattern reads a pattern. Bytes that a path cannot hold raw, and those
// that make a path ambiguous, are errors: the pattern could never match a
// request that is let through.
func ParsePattern(text string) (Pattern, error) {
	bad := func(format string, args ...any) (Pattern, error) {
		return Pattern{}, fmt.Errorf("path pattern %q: "+format, append([]any{text}, args...)...)
	}
	if !strings.HasPrefix(text, "/") {
		return bad("want a leading slash")
	}
	p := Pattern{text: text, segments: strings.Split(text[1:], "/")}
	for i, s := range p.segments {
		last := i == len(p.segments)-1
		switch {
		case s == tail && last:
			p.segments, p.rest = p.segments[:i], true
		case s == tail:
			return bad(`"**" stands for all that follows, want it at the end`)
		case s == wildcard:
		case s == "" && !last:
			return bad("want no empty segment")
		case s == "." || s == "..":
			return bad("want no dot segment")
		default:
			if at := strings.IndexFunc(s, notLiteral); at >= 0 {
				return bad(`segment %q holds %q: want letters, digits and -._~!$&'()+,=:@, or "*" for a whole segment`, s, []rune(s[at:])[0])
			}
		}
	}
	return p, nil
}

// notLiteral reports whether c cannot be in a literal segment: pchar of RFC
// 3986 section 3.3 is allowed but for percent signs, semicolons and asterisks.
func notLiteral(c rune) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return false
	}
	return !strings.ContainsRune("-._~!$&'()+,=:@", c)
}

// String returns the pattern as it was written.
func (p Pattern) String() string { return p.text }

// literal reports whether the pattern matches its own text alone.
func (p Pattern) literal() bool { return p.text != "" && !strings.Contains(p.text, wildcard) }

// Match reports whether the pattern matches a raw path. It does not allocate.
func (p Pattern) Match(path string) bool {
	path, more := strings.CutPrefix(path, "/")
	if !more || p.text == "" {
		return false
	}
	for _, want := range p.segments {
		if !more {
			return false
		}
		var segment string
		segment, path, more = strings.Cut(path, "/")
		if segment != want && (want != wildcard || segment == "") {
			return false
		}
	}
	return p.rest || !more
}
