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

// checkPathBytes refuses what never stands in the raw path of a request.
func checkPathBytes(s string) error {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '?':
			return fmt.Errorf("%s holds a query, and routes match the path alone; write %s", strict.Quote(s), strict.Quote(s[:i]))
		case c == '#':
			return fmt.Errorf("%s holds a fragment, which requests never carry; write %s", strict.Quote(s), strict.Quote(s[:i]))
		case c <= ' ' || c >= 0x7f || c == '\\' || c == '"' || c == '<' || c == '>' || c == '^' || c == '`' || c == '{' || c == '|' || c == '}':
			return fmt.Errorf("%s holds a character that never stands in a raw path; write it as clients send it, %%20 for a space", strict.Quote(s))
		case c == '%' && !isEscape(s[i:]):
			return fmt.Errorf("%s holds a %% that begins no escape; write %%25 for a percent sign", strict.Quote(s))
		}
	}
	return nil
}

func isEscape(s string) bool {
	return len(s) >= 3 && strings.IndexByte(hexDigits, s[1]) >= 0 && strings.IndexByte(hexDigits, s[2]) >= 0
}

const hexDigits = "0123456789abcdefABCDEF"

func (PathPattern) Grammar() (what, pattern string) {
	return "a path such as /v1/orders/*", `^/([^/?#*\s]+/|\*/)*([^/?#*\s]*|\*\*?)$`
}

// covers reports whether p certainly matches every path that q matches.
func (p PathPattern) covers(q PathPattern) bool {
	if p == "" || p == "/**" {
		return true
	}
	if q == "" {
		return false
	}
	ps, qs := strings.Split(string(p), "/"), strings.Split(string(q), "/")
	for i, segment := range ps {
		switch {
		case segment == "**":
			return i < len(qs)
		case i >= len(qs), qs[i] == "**":
			return false
		case segment == "*" && qs[i] != "":
		case segment != qs[i]:
			return false
		}
	}
	return len(ps) == len(qs)
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
