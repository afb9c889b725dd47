package value

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Rate is how often something may happen, per second, never negative. In files
// it is written per second, minute or hour: 100/s, 0.5/s, 90/m, 10000/h.
type Rate float64

const ratePattern = `^[0-9]+(\.[0-9]+)?/(s|m|h)$`

var rateSyntax = regexp.MustCompile(ratePattern)

// rateUnits in the order in which String tries them.
var rateUnits = []struct {
	name    string
	seconds float64
}{{"s", 1}, {"m", 60}, {"h", 3600}}

// otherRateUnits are spellings that people try, and ours for them.
var otherRateUnits = map[string]string{
	"sec": "s", "second": "s", "1s": "s", "rps": "s", "r/s": "s", "qps": "s", "persecond": "s", "S": "s",
	"min": "m", "minute": "m", "1m": "m", "rpm": "m", "r/m": "m", "perminute": "m", "M": "m",
	"hr": "h", "hour": "h", "1h": "h", "rph": "h", "perhour": "h", "H": "h",
	"s": "s", "m": "m", "h": "h",
}

// UnmarshalText reads a rate such as 100/s, 90/m or 10000/h.
func (r *Rate) UnmarshalText(text []byte) error {
	in := string(text)
	number, unit := splitNumber(in)
	if rateSyntax.MatchString(in) {
		n, err := strconv.ParseFloat(number, 64)
		for _, u := range rateUnits {
			if unit == "/"+u.name {
				if err != nil || n/u.seconds > 1e9 {
					return fmt.Errorf("%s is too fast; the highest rate is 1000000000/s", quote(in))
				}
				*r = Rate(n / u.seconds)
				return nil
			}
		}
	}
	if strings.HasPrefix(in, "-") {
		return fmt.Errorf("%s is negative; write a rate such as 100/s", quote(in))
	}
	if number == "" {
		return fmt.Errorf("%s is not a rate; write one such as 100/s, 90/m or 10000/h", quote(in))
	}
	bare := strings.TrimPrefix(strings.Join(strings.Fields(unit), ""), "/")
	if bare == "" {
		return fmt.Errorf("%s has no unit; write %s/s, %s/m or %s/h", quote(in), number, number, number)
	}
	if ours, ok := otherRateUnits[bare]; ok {
		return fmt.Errorf("%s is not a rate; write %s/%s", quote(in), number, ours)
	}
	return fmt.Errorf("%s is not a rate; write one such as 100/s, 90/m or 10000/h", quote(in))
}

// MarshalText writes r as it is written in files.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// String writes r in the first unit, of second, minute and hour, that needs no
// fraction, and per second where all do.
func (r Rate) String() string {
	for _, u := range rateUnits {
		n := float64(r) * u.seconds
		whole := math.Round(n)
		if math.Abs(n-whole) <= 1e-15*n {
			return strconv.FormatFloat(whole, 'f', -1, 64) + "/" + u.name
		}
	}
	return strconv.FormatFloat(float64(r), 'f', -1, 64) + "/s"
}

// Grammar names the kind of value and gives the pattern of its text.
func (Rate) Grammar() (what, pattern string) {
	return "a rate such as 100/s, 90/m or 10000/h", ratePattern
}
