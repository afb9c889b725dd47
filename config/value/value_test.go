package value

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
	"pgregory.net/rapid"
)

// quantity is what all types of this package but Secret have.
type quantity interface {
	encoding.TextUnmarshaler
	encoding.TextMarshaler
	fmt.Stringer
	Grammar() (what, pattern string)
}

func quantities() map[string]func() quantity {
	return map[string]func() quantity{
		"duration": func() quantity { return new(Duration) },
		"size":     func() quantity { return new(Size) },
		"rate":     func() quantity { return new(Rate) },
		"percent":  func() quantity { return new(Percent) },
	}
}

func TestQuantitiesReadInTheirUnits(t *testing.T) {
	for text, want := range map[string]Duration{
		"0s": 0, "200ms": 200e6, "10s": 10e9, "1h30m": 5400e9, "2.5s": 2500e6, "7us": 7000, "3ns": 3, "1m0s": 60e9,
	} {
		var got Duration
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s reads as %d, %v; want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]Size{
		"0B": 0, "512B": 512, "64KiB": 65536, "1MiB": 1 << 20, "2GiB": 2 << 30, "3TiB": 3 << 40, "8388607TiB": 8388607 * TiB,
	} {
		var got Size
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s reads as %d, %v; want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]Rate{
		"0/s": 0, "100/s": 100, "0.5/s": 0.5, "90/m": 1.5, "7200/h": 2,
	} {
		var got Rate
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s reads as %v, %v; want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]float64{"0%": 0, "40%": 0.4, "0.5%": 0.005, "100%": 1} {
		var got Percent
		if err := got.UnmarshalText([]byte(text)); err != nil || got.Fraction() != want {
			t.Errorf("%s reads as %v, %v; want %v", text, got.Fraction(), err, want)
		}
	}
}

func TestQuantitiesPrintAsPeopleWriteThem(t *testing.T) {
	for want, got := range map[string]fmt.Stringer{
		"0s": Duration(0), "5m": Duration(300e9), "24h": Duration(24 * 3600e9), "1h0m5s": Duration(3605e9), "1.5ms": Duration(1500e3), "7us": Duration(7000), "10s": Duration(10e9),
		"0B": Size(0), "1000B": Size(1000), "1KiB": KiB, "1536KiB": 1536 * KiB, "4TiB": 4 * TiB,
		"0/s": Rate(0), "100/s": Rate(100), "90/m": Rate(1.5), "1/h": Rate(1.0 / 3600), "100/m": Rate(100.0 / 60), "0.123456/s": Rate(0.123456),
		"40%": Percent(40), "0.5%": Percent(0.5),
	} {
		if got.String() != want {
			t.Errorf("%#v prints as %s, want %s", got, got, want)
		}
	}
}

func TestErrorsShowTheRightSpelling(t *testing.T) {
	for _, tt := range []struct{ kind, text, want string }{
		{"duration", "10", "10 has no unit; write 10s or 10ms"},
		{"duration", "0", "0 has no unit; write 0s"},
		{"duration", "1.5", "1.5 has no unit; write 1.5s or 1.5ms"},
		{"duration", "5 min", `"5 min" is not a duration; write 5m`},
		{"duration", "5 m", `"5 m" has a space in it; write 5m`},
		{"duration", "2d", `"2d" is not a duration; days are written in hours, 1 day as 24h`},
		{"duration", ".5s", `".5s" is not a duration; write one such as 200ms, 10s or 5m`},
		{"duration", "10µs", `"10µs" is not a duration; write 10us`},
		{"size", "1048576", "1048576 has no unit; write 1MiB or 1048576B"},
		{"size", "7", "7 has no unit; write 7B, 7KiB or 7MiB"},
		{"size", "0", "0 has no unit; write 0B"},
		{"size", "1.5", "1.5 has no unit; write a whole number and B, KiB, MiB or GiB"},
		{"size", "64kb", `"64kb" is not a size; sizes count in 1024s: write 64KiB`},
		{"size", "64kib", `"64kib" is not a size; write 64KiB`},
		{"size", "64G", `"64G" is not a size; sizes count in 1024s: write 64GiB`},
		{"size", "64 B", `"64 B" is not a size; write 64B`},
		{"size", "64apples", `"64apples" is not a size; write one such as 512B, 64KiB or 1MiB (units: B, KiB, MiB, GiB, TiB)`},
		{"rate", "100", "100 has no unit; write 100/s, 100/m or 100/h"},
		{"rate", "100rpm", `"100rpm" is not a rate; write 100/m`},
		{"rate", "100 per second", `"100 per second" is not a rate; write 100/s`},
		{"rate", "100/minute", `"100/minute" is not a rate; write 100/m`},
		{"percent", "40", "40 has no unit; write 40%"},
		{"percent", "0.4", "0.4 has no unit; write 40%"},
		{"percent", "40 %", `"40 %" has a space in it; write 40%`},
		{"percent", "101%", `"101%" is more than the whole; write at most 100%`},
		{"percent", "most", `"most" is not a share; write one such as 40%`},
	} {
		err := quantities()[tt.kind]().UnmarshalText([]byte(tt.text))
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s %q: %v, want %s", tt.kind, tt.text, err, tt.want)
		}
	}
}

// What an error tells to write must be right.
func TestAdviceCanBeFollowed(t *testing.T) {
	advice := regexp.MustCompile(`write (?:at most )?([0-9][^ ,;]*)$`)
	rapid.Check(t, func(t *rapid.T) {
		for kind, make := range quantities() {
			text := rapid.StringMatching(`-?[0-9]{0,12}(\.[0-9]{1,3})? ?(ms|sec|S|min|h|hrs|kb|KB|Mib|G|b|/s|rps|/sec|per hour|%| %)?`).Draw(t, "text")
			err := make().UnmarshalText([]byte(text))
			if err == nil {
				continue
			}
			if m := advice.FindStringSubmatch(err.Error()); m != nil {
				// A value that is out of bounds stays so under its right spelling.
				if err := make().UnmarshalText([]byte(m[1])); err != nil && !strings.Contains(err.Error(), "too ") && !strings.Contains(err.Error(), "more than the whole") {
					t.Errorf("%s %q: told to write %s, which is wrong: %v", kind, text, m[1], err)
				}
			}
		}
	})
}

func TestPatternAndReaderAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for kind, make := range quantities() {
			_, pattern := make().Grammar()
			text := rapid.OneOf(
				rapid.StringMatching(`[0-9]{1,4}(\.[0-9]{1,2})?(ns|us|ms|s|m|h|B|KiB|MiB|GiB|TiB|/s|/m|/h|%)`),
				rapid.StringMatching(`[0-9a-zA-Z./% -]{0,8}`),
			).Draw(t, "text")
			err := make().UnmarshalText([]byte(text))
			matches := regexp.MustCompile(pattern).MatchString(text)
			// Only bounds are beyond the pattern.
			bounds := err != nil && (strings.Contains(err.Error(), "too ") || strings.Contains(err.Error(), "more than the whole"))
			if matches != (err == nil || bounds) {
				t.Errorf("%s %q: pattern says %v, reader says %v", kind, text, matches, err)
			}
		}
	})
}

func TestPrintedQuantitiesReadAsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "duration"))
		s := Size(rapid.Int64Range(0, 1<<60).Draw(t, "size"))
		p := Percent(rapid.Float64Range(0, 100).Draw(t, "percent"))
		r := Rate(rapid.Float64Range(0, 1e9).Draw(t, "rate"))
		var d2 Duration
		if err := d2.UnmarshalText([]byte(d.String())); err != nil || d2 != d {
			t.Errorf("%s reads as %s, %v", d, d2, err)
		}
		var s2 Size
		if err := s2.UnmarshalText([]byte(s.String())); err != nil || s2 != s {
			t.Errorf("%s reads as %s, %v", s, s2, err)
		}
		var p2 Percent
		if err := p2.UnmarshalText([]byte(p.String())); err != nil || p2 != p {
			t.Errorf("%s reads as %s, %v", p, p2, err)
		}
		var r2 Rate
		if err := r2.UnmarshalText([]byte(r.String())); err != nil || math.Abs(float64(r2-r)) > 1e-14*float64(r) {
			t.Errorf("%s reads as %s, %v", r, r2, err)
		}
	})
}

func TestSecretIsMaskedWhereverItIsPrinted(t *testing.T) {
	const text = "hunter2"
	s := NewSecret(text)
	type holder struct {
		Name   string
		Secret Secret
		Ref    *Secret
		List   []Secret
	}
	h := holder{"x", s, &s, []Secret{s}}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%10s", "%t", "%p"} {
		fmt.Fprintf(&out, verb+"\n", s)
		fmt.Fprintf(&out, verb+"\n", h)
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("m", "secret", s, "holder", h, "any", slog.AnyValue(s))
	}
	j, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	y, err := yaml.Marshal(map[string]any{"secret": s, "list": h.List})
	if err != nil {
		t.Fatal(err)
	}
	out.Write(j)
	out.Write(y)
	fmt.Fprint(&out, fmt.Errorf("failed with %v", s))
	for _, form := range []string{text, fmt.Sprintf("%x", text), fmt.Sprintf("%X", text), "104 117 110"} {
		if strings.Contains(out.String(), form) {
			t.Errorf("printed as %s in:\n%s", form, out.String())
		}
	}
	if !strings.Contains(string(j), `"Secret":"`+Mask+`"`) || !strings.Contains(string(y), "secret: '"+Mask+"'") {
		t.Errorf("not masked but missing: %s %s", j, y)
	}
	if s.Reveal() != text || s.IsZero() || !s.Equal(NewSecret(text)) || s.Equal(NewSecret("other")) {
		t.Error("a secret is not the text that it was made of")
	}
	if (Secret{}).String() != "" || !(Secret{}).IsZero() {
		t.Error("an unset secret looks like a set one")
	}
}
