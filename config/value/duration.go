package value

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Duration is a span of time in nanoseconds, never negative. In files it is
// written with its unit: 200ms, 10s, 1h30m.
type Duration time.Duration

const durationPattern = `^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$`

var durationSyntax = regexp.MustCompile(durationPattern)

// otherDurationUnits are spellings that people try, and ours for them.
var otherDurationUnits = map[string]string{
	"msec": "ms", "msecs": "ms", "millis": "ms", "millisecond": "ms", "milliseconds": "ms",
	"µs": "us", "μs": "us",
	"sec": "s", "secs": "s", "second": "s", "seconds": "s", "S": "s",
	"min": "m", "mins": "m", "minute": "m", "minutes": "m",
	"hr": "h", "hrs": "h", "hour": "h", "hours": "h", "H": "h",
}

// UnmarshalText reads a duration such as 200ms, 10s or 1h30m.
func (d *Duration) UnmarshalText(text []byte) error {
	s := string(text)
	if durationSyntax.MatchString(s) {
		parsed, err := time.ParseDuration(s)
		if err != nil {
			return fmt.Errorf("%s is too long; the longest duration is about 2500000h", quote(s))
		}
		*d = Duration(parsed)
		return nil
	}
	if strings.HasPrefix(s, "-") {
		return fmt.Errorf("%s is negative; write a duration of 0s or more", quote(s))
	}
	number, unit := splitNumber(s)
	if number == "" {
		return fmt.Errorf("%s is not a duration; write one such as 200ms, 10s or 5m", quote(s))
	}
	trimmed := strings.TrimSpace(unit)
	switch ours, known := otherDurationUnits[trimmed]; {
	case trimmed == "" && number == "0":
		return fmt.Errorf("0 has no unit; write 0s")
	case trimmed == "":
		return fmt.Errorf("%s has no unit; write %ss or %sms", quote(s), number, number)
	case known:
		return fmt.Errorf("%s is not a duration; write %s%s", quote(s), number, ours)
	case durationSyntax.MatchString(number + trimmed):
		return fmt.Errorf("%s has a space in it; write %s%s", quote(s), number, trimmed)
	case trimmed == "d" || trimmed == "day" || trimmed == "days":
		return fmt.Errorf("%s is not a duration; days are written in hours, 1 day as 24h", quote(s))
	}
	return fmt.Errorf("%s is not a duration; write one such as 200ms, 10s or 5m (units: ms, s, m, h)", quote(s))
}

// MarshalText writes d as it is written in files.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// String writes d as it is written in files, without zero parts: 5m, not 5m0s.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return strings.Replace(s, "µ", "u", 1)
}

// Grammar names the kind of value and gives the pattern of its text.
func (Duration) Grammar() (what, pattern string) {
	return "a duration such as 200ms, 10s or 5m", durationPattern
}
