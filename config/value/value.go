// Package value holds the kinds of values that Sluice's YAML files are made
// of: quantities that carry their unit, and secrets that never print.
//
// Every quantity has one spelling in files and in print: 200ms, 64KiB, 100/s,
// 40%. A number without its unit is an error whose text shows the right
// spelling, since a bare 10 has been ten seconds to one reader and ten
// milliseconds to the next.
//
// In Go they are ordinary numbers in one fixed unit, named beside each type,
// and convert by a plain conversion: time.Duration(d), int64(size),
// float64(rate).
//
// The errors of the UnmarshalText methods are written for whoever edits the
// file: they quote the value and say what would be right.
package value

import (
	"fmt"
	"strings"
)

// quote shows s in an error: bare when it is a plain number, in quotes and
// shortened otherwise.
func quote(s string) string {
	if isNumber(s) && len(s) <= 40 {
		return s
	}
	if r := []rune(s); len(r) > 40 {
		s = string(r[:40]) + "…"
	}
	return fmt.Sprintf("%q", s)
}

// isNumber reports whether s is a decimal number without sign or unit.
func isNumber(s string) bool {
	number, rest := splitNumber(s)
	return number != "" && rest == ""
}

// splitNumber splits s into its leading decimal number, which has a digit on
// both sides of its point, and the rest. number is "" where s starts with
// none.
func splitNumber(s string) (number, rest string) {
	digits := func(s string) int {
		return len(s) - len(strings.TrimLeft(s, "0123456789"))
	}
	n := digits(s)
	if n == 0 {
		return "", s
	}
	if n < len(s) && s[n] == '.' {
		if m := digits(s[n+1:]); m > 0 {
			n += 1 + m
		}
	}
	return s[:n], s[n:]
}
