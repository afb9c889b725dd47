package config

import (
	"errors"
	"fmt"
	"strings"

	"sluice/config/strict"
)

// PathPattern matches raw paths, as clients send them: text stands for itself,
// * for exactly one segment that is not empty, and ** at the end for any rest.
type PathPattern string

func (p *PathPattern) UnmarshalText(text []byte) error {
	s := string(text)
	if s == "" {
		return errors.New("the pattern is empty; write a path such as /v1/orders/*, or /** for every path")
	}
	if i := strings.Index(s, "://"); i > 0 {
		return fmt.Errorf("%s is a whole address; write its path alone, such as /v1/orders", strict.Quote(s))
	}
	if s[0] != '/' {
		return fmt.Errorf("%s does not begin with a slash; write %s", strict.Quote(s), strict.Quote("/"+s))
	}
	if len(s) > 2048 {
		return fmt.Errorf("%s is too long; write at most 2048 characters", strict.Quote(s))
	}
	segments := strings.Split(s[1:], "/")
	for i, segment := range segments {
		last := i == len(segments)-1
		switch {
		case segment == "" && !last:
			return fmt.Errorf("%s has an empty segment; write one slash between segments", strict.Quote(s))
		case segment == "**" && !last:
			return fmt.Errorf("%s goes on after **, which stands for any rest; end the pattern there, or write * for one segment", strict.Quote(s))
		case segment == "." || segment == "..":
			return fmt.Errorf("%s has a dot segment, which no request can be routed by; write the path without it", strict.Quote(s))
		case segment != "*" && segment != "**" && strings.Contains(segment, "*"):
			return fmt.Errorf("%s mixes * with other text; * stands for a whole segment, as in /v1/*/items", strict.Quote(s))
		case strings.HasPrefix(segment, ":") && len(segment) > 1, strings.HasPrefix(segment, "{") && strings.HasSuffix(segment, "}"):
			segments[i] = "*"
			return fmt.Errorf("%s names a segment; write * for it: %s", strict.Quote(s), strict.Quote("/"+strings.Join(segments, "/")))
		}
	}
	if err := checkPathBytes(s); err != nil {
		return err
	}
	*p = PathPattern(s)
	return nil
}

// checkPathBytes refuses what cannot stand in a pattern: bytes that no raw path
// holds, and those that the origin may read in another way than the gateway.
func checkPathBytes(s string) error {
	for i, c := range s {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.ContainsRune("/*-._~!$&'()+,=:@", c):
		case c == '?':
			return fmt.Errorf("%s holds a query, and routes match the path alone; write %s", strict.Quote(s), strict.Quote(s[:i]))
		case c == '#':
			return fmt.Errorf("%s holds a fragment, which requests never carry; write %s", strict.Quote(s), strict.Quote(s[:i]))
		case c == '%':
			return fmt.Errorf("%s holds an escape, which the origin may read as the character itself; write that, or * for the segment", strict.Quote(s))
		case c == ';':
			return fmt.Errorf("%s holds a semicolon, which the origin may cut off; write * for the segment", strict.Quote(s))
		default:
			return fmt.Errorf("%s holds %q, which no raw path does; write * for the segment", strict.Quote(s), c)
		}
	}
	return nil
}

func (PathPattern) Grammar() (what, pattern string) {
	return "a path such as /v1/orders/*", "^/([A-Za-z0-9._~!$&'()+,=:@-]+/|\\*/)*([A-Za-z0-9._~!$&'()+,=:@-]*|\\*\\*?)$"
}

// covers reports whether p certainly matches every path that q matches. An
// empty pattern matches any path. It does not allocate.
func (p PathPattern) covers(q PathPattern) bool {
	if p == "" || p == "/**" {
		return true
	}
	if q == "" {
		return false
	}
	ps, qs := string(p), string(q)
	pMore, qMore := true, true
	for pMore {
		var want, got string
		want, ps, pMore = strings.Cut(ps, "/")
		if want == "**" {
			return true // whatever is left of q, also nothing
		}
		if !qMore {
			return false
		}
		got, qs, qMore = strings.Cut(qs, "/")
		if got == "**" || want != got && (want != "*" || got == "") {
			return false
		}
	}
	return !qMore
}

// covers reports whether g certainly matches every text that q matches.
func (g Glob) covers(q Glob) bool {
	if g == q || g == "*" {
		return true
	}
	// A * of q can stand for anything, so only a * of g can match it.
	return globMatches(string(g), string(q))
}

// globMatches matches s, taken literally, against pattern, in which * stands
// for any run of characters.
func globMatches(pattern, s string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == s
	}
	if !strings.HasPrefix(s, first) {
		return false
	}
	s = s[len(first):]
	for {
		part, next, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(s, part)
		}
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s, rest = s[i+len(part):], next
	}
}
