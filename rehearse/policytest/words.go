package policytest

import (
	"fmt"
	"strings"

	"sluice/admission"
	"sluice/config/value"
	"sluice/idempotency"
)

// Verdict is what is expected to be decided.
type Verdict string

func (Verdict) Values() []string { return []string{"admit", "replay", "refuse"} }

// Reason is a reason, or none.
type Reason string

func (Reason) Values() []string {
	names := []string{admission.None.String()}
	for _, r := range admission.Reasons() {
		names = append(names, r.String())
	}
	return names
}

// KeyStatus is an Idempotency-Status, or none.
type KeyStatus string

func (KeyStatus) Values() []string {
	names := []string{"none"}
	for _, s := range idempotency.Statuses() {
		names = append(names, s.String())
	}
	return names
}

// Share is a range of shares, such as 40%..60%; a single one is a range of its
// own.
type Share struct{ From, To value.Percent }

// UnmarshalText reads a range such as 40%..60%, or a single share.
func (s *Share) UnmarshalText(text []byte) error {
	from, to, isRange := strings.Cut(string(text), "..")
	if err := s.From.UnmarshalText([]byte(from)); err != nil {
		return fmt.Errorf("%w, or a range such as 40%%..60%%", err)
	}
	s.To = s.From
	if isRange {
		if err := s.To.UnmarshalText([]byte(to)); err != nil {
			return fmt.Errorf("%w, or a range such as 40%%..60%%", err)
		}
	}
	if s.From > s.To {
		return fmt.Errorf("the range %s..%s ends before it begins; write %s..%s", s.From, s.To, s.To, s.From)
	}
	return nil
}

// MarshalText writes s as it is written in files.
func (s Share) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s Share) String() string {
	if s.From == s.To {
		return s.From.String()
	}
	return s.From.String() + ".." + s.To.String()
}

// Grammar names the kind of value and gives the pattern of its text.
func (Share) Grammar() (what, pattern string) {
	return "a range of shares such as 40%..60%", `^[0-9]+(\.[0-9]+)?%(\.\.[0-9]+(\.[0-9]+)?%)?$`
}

// holds reports whether n of total is within the range.
func (s Share) holds(n, total int) bool {
	share := value.Percent(float64(n) / float64(total) * 100)
	const rounding = 1e-9
	return share >= s.From-rounding && share <= s.To+rounding
}
