package origin

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// Signal is the state of the queue at one instant.
type Signal struct {
	OldestAge time.Duration // age of the oldest work that nobody has started; 0 when none waits
	Depth     int           // work that waits
	InFlight  int           // work being done
	Completed int64         // work done since the start
	Workers   int
	Paused    bool
	SampledAt time.Time
}

// MarshalJSON writes the signal as the signal endpoint serves it: durations in
// seconds, the time as RFC 3339.
func (s Signal) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{
		"oldest_age_seconds": s.OldestAge.Seconds(),
		"depth":              s.Depth,
		"in_flight":          s.InFlight,
		"completed":          s.Completed,
		"workers":            s.Workers,
		"paused":             s.Paused,
		"sampled_at":         s.SampledAt.UTC().Format(time.RFC3339Nano),
	})
}

// appendHeader writes the signal as the value of a header field.
func (s Signal) appendHeader(b []byte) []byte {
	b = append(b, "age="...)
	b = strconv.AppendFloat(b, s.OldestAge.Seconds(), 'f', 3, 64)
	b = append(b, ", depth="...)
	b = strconv.AppendInt(b, int64(s.Depth), 10)
	b = append(b, ", done="...)
	b = strconv.AppendInt(b, s.Completed, 10)
	b = append(b, ", at="...)
	return strconv.AppendFloat(b, float64(s.SampledAt.UnixMilli())/1000, 'f', 3, 64)
}

// SignalFault is what is wrong with the way the queue's state is told. The
// queue itself is not affected.
type SignalFault uint8

const (
	SignalOK     SignalFault = iota // the truth
	SignalFrozen                    // the last state again and again, with the time it was read
	SignalAbsent                    // 503 in place of the state; no header field
	SignalMute                      // the endpoint does not answer until the fault is over
	SignalZero                      // age and depth read 0 whatever the queue holds
)

var signalFaults = [...]string{"ok", "frozen", "absent", "mute", "zero"}

func (f SignalFault) String() string { return signalFaults[f] }

// ParseSignalFault is the fault of that name.
func ParseSignalFault(name string) (SignalFault, error) {
	for i, n := range signalFaults {
		if n == name {
			return SignalFault(i), nil
		}
	}
	return 0, fmt.Errorf("origin: unknown signal fault %q; there are %q", name, signalFaults)
}
