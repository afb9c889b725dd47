package result

import (
	"slices"

	"sluice/bench/scenario"
	"sluice/bench/stats"
	"sluice/bench/target"
)

// fewestHeld is how many readings of a stage say something about it.
const fewestHeld = 3

// growth is by how much more the gateway holds at the end of stage than at the
// end of an earlier one, as a part of what it held then. It is the last thirds of
// both that are compared: before that, a stage still has to do with the one
// before it.
func (r *Result) growth(m scenario.Metric, since, stage *Stage) (*float64, string) {
	pick := map[scenario.Metric]func(*target.Held) int64{
		"memory_growth":      func(h *target.Held) int64 { return h.Memory },
		"heap_growth":        func(h *target.Held) int64 { return h.Heap },
		"goroutines_growth":  func(h *target.Held) int64 { return h.Goroutines },
		"descriptors_growth": func(h *target.Held) int64 { return h.Descriptors },
	}[m]
	level := func(s *Stage) (v float64, ok bool) {
		from, to := s.Start+s.Numbers.Seconds*2/3, s.Start+s.Numbers.Seconds
		var all []float64
		for i := range r.Intervals {
			if sec := &r.Intervals[i]; sec.Held != nil && float64(sec.T) >= from && float64(sec.T) < to {
				all = append(all, float64(pick(sec.Held)))
			}
		}
		if len(all) < fewestHeld {
			return 0, false
		}
		if m == "heap_growth" { // what lies above the least is garbage
			return slices.Min(all), true
		}
		return stats.Median(all), true
	}
	before, ok1 := level(since)
	after, ok2 := level(stage)
	if !ok1 || !ok2 || before == 0 {
		return nil, "the gateway was not watched; that takes its admin listener, and stages of ten seconds or more"
	}
	v := after/before - 1
	return &v, ""
}
