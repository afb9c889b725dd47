package shedding

import (
	"math"
	"testing"
	"time"
)

// Property 9: no signal never reads as healthy or as zero.
func TestSamplesThatAreNotBelieved(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	none := Value{}
	for _, c := range []struct {
		name             string
		age, depth, done Value
		at               float64 // relative to now
		want             Flaw
	}{
		{"says nothing", none, none, none, 0, Silent},
		{"only a counter", none, none, Known(7), 0, Silent},
		{"age NaN", Known(nan), Known(3), none, 0, Undefined},
		{"depth infinite", Known(1), Known(inf), none, 0, Undefined},
		{"counter NaN", Known(1), Known(1), Known(nan), 0, Undefined},
		{"age a bit negative", Known(-4.9), none, none, 0, Skewed},
		{"age very negative", Known(-5.1), none, none, 0, Negative},
		{"depth negative", none, Known(-1), none, 0, Negative},
		{"counter negative", Known(1), none, Known(-1), 0, Negative},
		{"age in milliseconds", Known(3e6), none, none, 0, Absurd},
		{"a bit ahead", Known(1), none, none, 4, Skewed},
		{"far ahead", Known(1), none, none, 6, Ahead},
		{"far behind", Known(1), none, none, -61, Outdated},
		{"sound", Known(0), Known(0), Known(0), -10, Sound},
	} {
		in := inspector{retention: 86400, horizon: 60}
		r, flaw := in.inspect(Sample{Age: c.age, Depth: c.depth, Done: c.done}, 1000+c.at, 1000, 0)
		if flaw != c.want {
			t.Errorf("%s: flaw %v, want %v", c.name, flaw, c.want)
		}
		if in.have != (flaw <= Skewed) {
			t.Errorf("%s: a sample with flaw %v was taken for true: %v", c.name, flaw, in.have)
		}
		if flaw <= Skewed && (r.age.v < 0 || r.at > 1000) {
			t.Errorf("%s: age %v at %v was not mended", c.name, r.age, r.at)
		}
	}
}

func TestSampleTimeThatStandsStillIsNoSample(t *testing.T) {
	in := inspector{retention: 86400, horizon: 60}
	s := Sample{Age: Known(3)}
	for i, want := range []Flaw{Sound, Repeated, Repeated} {
		if _, f := in.inspect(s, 100, 100+float64(i), 0); f != want {
			t.Errorf("reading %d: flaw %v, want %v", i, f, want)
		}
	}
	if _, f := in.inspect(s, 99, 103, 0); f != Repeated {
		t.Errorf("a sample older than the last: flaw %v, want %v", f, Repeated)
	}
}

func TestAgeThatJumpsNeedsASecondSample(t *testing.T) {
	type step struct {
		at, age float64
		want    Flaw
	}
	for name, steps := range map[string][]step{
		"grows with time":        {{0, 10, Sound}, {1, 11, Sound}, {5, 15.5, Sound}},
		"falls at will":          {{0, 500, Sound}, {1, 2, Sound}},
		"one wild reading":       {{0, 10, Sound}, {1, 900, Jumped}, {2, 12, Sound}},
		"confirmed":              {{0, 10, Sound}, {1, 900, Jumped}, {2, 901, Sound}, {3, 902, Sound}},
		"wild in different ways": {{0, 10, Sound}, {1, 900, Jumped}, {2, 5000, Jumped}, {3, 13, Sound}},
	} {
		in := inspector{retention: 86400, horizon: 60}
		for _, s := range steps {
			if _, f := in.inspect(Sample{Age: Known(s.age)}, s.at, s.at, 0); f != s.want {
				t.Errorf("%s: age %v at %v: flaw %v, want %v", name, s.age, s.at, f, s.want)
			}
		}
	}
}

func TestFiguresThatStandStillWhileWorkGoesInAreNoSample(t *testing.T) {
	run := func(age, depth Value, admits float64, n int) Flaw {
		in := inspector{retention: 86400, horizon: 60}
		var f Flaw
		for i := range n {
			_, f = in.inspect(Sample{Age: age, Depth: depth}, float64(i), float64(i), float64(i)*admits)
		}
		return f
	}
	for _, c := range []struct {
		name       string
		age, depth Value
		admits     float64
		n          int
		want       Flaw
	}{
		{"too often equal", Known(7.25), Known(12), 10, frozenAfter, Frozen},
		{"not often enough", Known(7.25), Known(12), 10, frozenAfter - 1, Sound},
		{"nothing went in", Known(7.25), Known(12), 0, 50, Sound},
		{"empty is believed", Known(0), Known(0), 10, 50, Sound},
		{"whole seconds of a steady queue", Known(7), Value{}, 10, frozenAfterAge - 1, Sound},
		{"an age alone, too often", Known(7), Value{}, 10, frozenAfterAge, Frozen},
	} {
		if got := run(c.age, c.depth, c.admits, c.n); got != c.want {
			t.Errorf("%s: flaw %v, want %v", c.name, got, c.want)
		}
	}
}

func TestFlawsAreNamed(t *testing.T) {
	seen := map[string]bool{"": true}
	for _, f := range append(Flaws(), Sound) {
		if seen[f.String()] {
			t.Errorf("flaw %d is called %q, which is no name of its own", f, f)
		}
		seen[f.String()] = true
	}
}

// FuzzInspect checks that whatever a source says, what is believed is sane.
func FuzzInspect(f *testing.F) {
	f.Add(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
	f.Add(math.NaN(), -1.0, math.Inf(1), 1e300, 0.0, -1e9)
	f.Fuzz(func(t *testing.T, age1, depth1, age2, depth2, done, at float64) {
		g := newTestGate(t, QueueOptions{})
		now := start
		for i, s := range []Sample{
			{Age: Known(age1), Depth: Known(depth1), Done: Known(done)},
			{Age: Known(age2), Depth: Known(depth2), Done: Known(done)},
			{Age: Known(age1), At: now.Add(time.Duration(at))},
		} {
			now = now.Add(time.Second)
			for range 20 {
				reserve(g, now, "t", 2, nil)
			}
			if _, err := g.Observe(now, "q", "s", s); err != nil {
				t.Fatal(i, err)
			}
			st := g.State(now)[0]
			if w, ok := st.Wait.Get(); ok && (math.IsNaN(w) || math.IsInf(w, 0) || w < 0) {
				t.Fatalf("wait %v after %+v", w, s)
			}
			for c, cl := range st.Classes {
				if !(cl.Share >= 0 && cl.Share <= 1) {
					t.Fatalf("class %d gets %v after %+v", c, cl.Share, s)
				}
			}
		}
	})
}
