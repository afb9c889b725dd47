package origin

import (
	"errors"
	"time"
)

// Faults are ways in which the origin misbehaves towards those who publish. The
// zero value is good behaviour. Shares are from 0 to 1 of the requests and are
// drawn from the origin's seed.
type Faults struct {
	Latency    time.Duration // every answer is this much later
	ErrorShare float64       // answered 503, nothing recorded
	ResetShare float64       // connection reset before anything is recorded
	LostShare  float64       // recorded, and the connection closed before any answer
	Stall      bool          // no answer, and nothing recorded, until the fault is over
	Signal     SignalFault
}

func (f Faults) check() error {
	for _, s := range []float64{f.ErrorShare, f.ResetShare, f.LostShare} {
		if !(s >= 0 && s <= 1) {
			return errors.New("origin: a fault's share is not between 0 and 1")
		}
	}
	if f.ErrorShare+f.ResetShare+f.LostShare > 1 {
		return errors.New("origin: the shares of faults add up to more than 1")
	}
	if f.Latency < 0 {
		return errors.New("origin: a fault's latency is negative")
	}
	return nil
}

// fate is what becomes of one request.
type fate uint8

const (
	fateAnswer fate = iota
	fateError
	fateReset
	fateLost
)

// fate draws from u, uniform in [0,1).
func (f *Faults) fate(u float64) fate {
	switch {
	case u < f.ErrorShare:
		return fateError
	case u < f.ErrorShare+f.ResetShare:
		return fateReset
	case u < f.ErrorShare+f.ResetShare+f.LostShare:
		return fateLost
	}
	return fateAnswer
}
