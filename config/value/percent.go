package value

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Percent is a share in hundredths, from 0 to 100. In files it is written with
// its sign: 40%, 0.5%.
type Percent float64

const percentPattern = `^[0-9]+(\.[0-9]+)?%$`

var percentSyntax = regexp.MustCompile(percentPattern)

// UnmarshalText reads a share such as 40% or 0.5%.
func (p *Percent) UnmarshalText(text []byte) error {
	in := string(text)
	number, unit := splitNumber(in)
	switch {
	case percentSyntax.MatchString(in):
		n, err := strconv.ParseFloat(number, 64)
		if err != nil || n > 100 {
			return fmt.Errorf("%s is more than the whole; write at most 100%%", quote(in))
		}
		*p = Percent(n)
		return nil
	case strings.HasPrefix(in, "-"):
		return fmt.Errorf("%s is negative; write a share from 0%% to 100%%", quote(in))
	case number == "":
		return fmt.Errorf("%s is not a share; write one such as 40%%", quote(in))
	case strings.TrimSpace(unit) == "%":
		return fmt.Errorf("%s has a space in it; write %s%%", quote(in), number)
	case unit == "":
		n, err := strconv.ParseFloat(number, 64)
		if err == nil && n > 0 && n < 1 {
			n = math.Round(n*1e8) / 1e6
			return fmt.Errorf("%s has no unit; write %s%%", quote(in), strconv.FormatFloat(n, 'f', -1, 64))
		}
		return fmt.Errorf("%s has no unit; write %s%%", quote(in), number)
	}
	return fmt.Errorf("%s is not a share; write one such as 40%%", quote(in))
}

// MarshalText writes p as it is written in files.
func (p Percent) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// String writes p as it is written in files.
func (p Percent) String() string {
	return strconv.FormatFloat(float64(p), 'f', -1, 64) + "%"
}

// Fraction is p as a part of one: 40% is 0.4.
func (p Percent) Fraction() float64 { return float64(p) / 100 }

// Grammar names the kind of value and gives the pattern of its text.
func (Percent) Grammar() (what, pattern string) {
	return "a share such as 40%", percentPattern
}
