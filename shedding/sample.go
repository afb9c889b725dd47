package shedding

import (
	"math"
	"time"
)

// Value is a number that a source may not be able to tell. The zero value is
// not known, which is never the same as zero.
type Value struct {
	v     float64
	known bool
}

// Known is a value that the source told.
func Known(v float64) Value { return Value{v, true} }

// Get returns the value, and whether it is known.
func (v Value) Get() (float64, bool) { return v.v, v.known }

// Or returns the value, or other where it is not known.
func (v Value) Or(other float64) float64 {
	if v.known {
		return v.v
	}
	return other
}

// Sample is one reading of a queue. The zero value says nothing and is
// refused.
type Sample struct {
	// At is when the figures were true, by the clock of their source. Zero:
	// the source cannot tell; they are then taken to be as old as the signal's
	// delay.
	At time.Time
	// Age is how long the oldest work that waits to be taken has waited, in
	// seconds; 0 if nothing waits.
	Age Value
	// Depth is how much work waits to be taken.
	Depth Value
	// Done counts completions since whenever; only its growth matters.
	Done Value
}

// Flaw says why a sample was not believed, or what was mended in it.
type Flaw uint8

const (
	// Sound is the zero value: the sample was believed as it came.
	Sound Flaw = iota
	// Skewed samples were believed after a clock difference of at most
	// maxSkew had been taken out. Every other flaw makes it no sample.
	Skewed
	Silent    // neither age nor depth: null, missing, empty
	Undefined // NaN or infinite
	Negative  // below zero by more than clocks differ
	Absurd    // older than anything the queue keeps: a wrong unit, a made-up id
	Ahead     // taken in the future
	Outdated  // taken too long ago to say anything about now
	Repeated  // taken no later than the one before
	Frozen    // figures stand still to the last digit while work goes in
	Jumped    // older than time alone can have made it, not yet confirmed
	Failed    // the reader returned an error instead

	flawCount
)

var flawNames = [flawCount]string{
	Sound: "sound", Skewed: "skewed", Silent: "silent", Undefined: "undefined",
	Negative: "negative", Absurd: "absurd", Ahead: "ahead", Outdated: "outdated",
	Repeated: "repeated", Frozen: "frozen", Jumped: "jumped", Failed: "failed",
}

func (f Flaw) String() string { return flawNames[f] }

// Flaws lists every flaw but Sound.
func Flaws() []Flaw {
	all := make([]Flaw, 0, flawCount-1)
	for f := Sound + 1; f < flawCount; f++ {
		all = append(all, f)
	}
	return all
}

const (
	// maxSkew is by how much two honest clocks may differ.
	maxSkew = 5.0
	// jumpSlack is how much faster than time an age may rise: sources round
	// to whole seconds.
	jumpSlack = 1.5
	// frozenAfter is how many equal readings in a row are not believable.
	// Whole-second ages alone repeat in a steady queue, so they need more.
	frozenAfter    = 5
	frozenAfterAge = 15
	// frozenAdmits is how much work must have gone in meanwhile.
	frozenAdmits = 5
)

// reading is a sample that passed inspection, with times in seconds on the
// queue's own time line.
type reading struct {
	at               float64
	age, depth, done Value
}

// inspector decides which samples are believed. It is the memory that telling
// a frozen or jumping source from a true one takes.
type inspector struct {
	retention float64 // seconds; an older age is absurd
	horizon   float64 // seconds; an older sample says nothing about now

	last    reading
	have    bool
	pending reading // a jump that waits for a second sample
	doubt   bool

	same     int     // how many equal readings in a row
	sameFrom float64 // own admissions when they began
}

// inspect checks a sample that arrived at now and returns it cleaned. admitted
// is the gateway's own admissions so far.
func (in *inspector) inspect(s Sample, at, now, admitted float64) (reading, Flaw) {
	r := reading{at: at, age: s.Age, depth: s.Depth, done: s.Done}
	flaw := Sound
	for _, v := range []*Value{&r.age, &r.depth, &r.done} {
		if v.known && (math.IsNaN(v.v) || math.IsInf(v.v, 0)) {
			return r, Undefined
		}
	}
	if !r.age.known && !r.depth.known {
		return r, Silent
	}
	if r.age.v < 0 {
		if r.age.v < -maxSkew {
			return r, Negative
		}
		r.age.v, flaw = 0, Skewed
	}
	if r.depth.v < 0 || r.done.v < 0 {
		return r, Negative
	}
	if r.age.v > in.retention {
		return r, Absurd
	}
	if r.at > now {
		if r.at > now+maxSkew {
			return r, Ahead
		}
		r.at, flaw = now, Skewed
	}
	if r.at < now-in.horizon {
		return r, Outdated
	}
	if !in.have {
		in.accept(r, admitted)
		return r, flaw
	}
	if r.at <= in.last.at {
		return r, Repeated
	}
	if in.jumps(in.last, r) && !(in.doubt && !in.jumps(in.pending, r)) {
		in.pending, in.doubt = r, true
		return r, Jumped
	}
	if in.stands(r, admitted) {
		return r, Frozen
	}
	in.accept(r, admitted)
	return r, flaw
}

func (in *inspector) accept(r reading, admitted float64) {
	if !in.have || !equalFigures(in.last, r) {
		in.same, in.sameFrom = 1, admitted
	}
	in.last, in.have, in.doubt = r, true, false
}

// jumps reports whether b's age cannot have grown out of a's.
func (in *inspector) jumps(a, b reading) bool {
	return a.age.known && b.age.known && b.age.v > a.age.v+(b.at-a.at)*1.05+jumpSlack
}

// stands reports whether r repeats what came before it too often to be true.
func (in *inspector) stands(r reading, admitted float64) bool {
	if !equalFigures(in.last, r) || r.age.v == 0 && r.depth.v == 0 {
		return false
	}
	in.same++
	need := frozenAfter
	if !r.depth.known && !r.done.known {
		need = frozenAfterAge
	}
	return in.same >= need && admitted-in.sameFrom >= frozenAdmits
}

func equalFigures(a, b reading) bool {
	return a.age == b.age && a.depth == b.depth && a.done == b.done
}
