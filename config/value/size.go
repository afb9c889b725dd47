package value

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Size is a number of bytes, never negative. In files it is written with a
// binary unit: 512B, 64KiB, 1MiB, 2GiB.
type Size int64

// Binary multiples of a byte.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
	TiB Size = 1 << 40
)

const sizePattern = `^[0-9]+(B|KiB|MiB|GiB|TiB)$`

var sizeSyntax = regexp.MustCompile(sizePattern)

// sizeUnits from largest to smallest.
var sizeUnits = []struct {
	name  string
	bytes Size
}{{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}, {"B", 1}}

// UnmarshalText reads a size such as 512B, 64KiB or 1MiB.
func (s *Size) UnmarshalText(text []byte) error {
	in := string(text)
	number, unit := splitNumber(in)
	if sizeSyntax.MatchString(in) {
		for _, u := range sizeUnits {
			if u.name != unit {
				continue
			}
			n, err := strconv.ParseInt(number, 10, 64)
			if err != nil || n > math.MaxInt64/int64(u.bytes) {
				return fmt.Errorf("%s is too large; the largest size is below 8388608TiB", quote(in))
			}
			*s = Size(n) * u.bytes
			return nil
		}
	}
	if strings.HasPrefix(in, "-") {
		return fmt.Errorf("%s is negative; write a size of 0B or more", quote(in))
	}
	if number == "" {
		return fmt.Errorf("%s is not a size; write one such as 512B, 64KiB or 1MiB", quote(in))
	}
	trimmed := strings.TrimSpace(unit)
	if trimmed == "" {
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return fmt.Errorf("%s has no unit; write a whole number and B, KiB, MiB or GiB", quote(in))
		}
		if short := Size(n).String(); short != number+"B" {
			return fmt.Errorf("%s has no unit; write %s or %sB", quote(in), short, number)
		}
		if n == 0 {
			return fmt.Errorf("0 has no unit; write 0B")
		}
		return fmt.Errorf("%s has no unit; write %sB, %sKiB or %sMiB", quote(in), number, number, number)
	}
	for _, u := range sizeUnits {
		switch {
		case strings.EqualFold(trimmed, u.name) && !strings.Contains(number, "."):
			return fmt.Errorf("%s is not a size; write %s%s", quote(in), number, u.name)
		case len(u.name) == 3 && (strings.EqualFold(trimmed, u.name[:1]+"B") || strings.EqualFold(trimmed, u.name[:1])) && !strings.Contains(number, "."):
			return fmt.Errorf("%s is not a size; sizes count in 1024s: write %s%s", quote(in), number, u.name)
		}
	}
	if strings.Contains(number, ".") {
		return fmt.Errorf("%s is not a size; write a whole number in a smaller unit, 1.5MiB as 1536KiB", quote(in))
	}
	return fmt.Errorf("%s is not a size; write one such as 512B, 64KiB or 1MiB (units: B, KiB, MiB, GiB, TiB)", quote(in))
}

// MarshalText writes s as it is written in files.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String writes s in the largest unit that needs no fraction.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && s%u.bytes == 0 {
			return strconv.FormatInt(int64(s/u.bytes), 10) + u.name
		}
	}
	return "0B"
}

// Grammar names the kind of value and gives the pattern of its text.
func (Size) Grammar() (what, pattern string) {
	return "a size such as 512B, 64KiB or 1MiB", sizePattern
}
