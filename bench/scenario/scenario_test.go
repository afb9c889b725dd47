package scenario

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/bench/load"
)

// Every shipped scenario loads, and one that is not called long lasts at most
// half a minute.
func TestShippedScenariosLoad(t *testing.T) {
	files, err := filepath.Glob("../scenarios/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	long, err := filepath.Glob("../scenarios/long/*.yaml")
	if err != nil || len(long) == 0 {
		t.Fatalf("no long scenarios: %v", err)
	}
	files = append(files, long...)
	for _, f := range files {
		s, err := Read(f)
		if err != nil {
			t.Error(err)
			continue
		}
		if want := strings.TrimSuffix(filepath.Base(f), ".yaml"); string(s.Name) != want {
			t.Errorf("%s is called %s", f, s.Name)
		}
		if s.Length() > 30*time.Second && !slices.Contains(long, f) {
			t.Errorf("%s takes %v, more than 30s", f, s.Length())
		}
		if len(s.Thresholds) == 0 {
			t.Errorf("%s has no threshold: it cannot fail", f)
		}
		o := s.LoadOptions()
		o.Target = "http://127.0.0.1:1"
		if _, err := load.New(o); err != nil {
			t.Errorf("%s: the generator refuses what the loader accepts: %v", f, err)
		}
	}
}

// Each folder of testdata is a mistaken scenario and the exact text that it is
// answered with.
func TestMistakesAreExplained(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no mistakes: %v", err)
	}
	for _, f := range files {
		want, err := os.ReadFile(strings.TrimSuffix(f, ".yaml") + ".txt")
		if err != nil {
			t.Error(err)
			continue
		}
		_, err = Read(f)
		if err == nil {
			t.Errorf("%s loads", f)
			continue
		}
		if got := err.Error() + "\n"; got != string(want) {
			t.Errorf("%s is answered with\n%swanted\n%s", f, got, want)
		}
	}
}

func TestBoundsReadWhatFormatWrites(t *testing.T) {
	for _, c := range []struct {
		unit Unit
		v    float64
		text string
	}{
		{UnitShare, 0.995, "99.5%"},
		{UnitRate, 400, "400.0/s"},
		{UnitCount, 3, "3"},
		{UnitDuration, 0, "0s"},
		{UnitDuration, 0.0000123, "12µs"},
		{UnitDuration, 0.003685, "3.69ms"},
		{UnitDuration, 0.6636, "664ms"},
		{UnitDuration, 2.5, "2.5s"},
		{UnitDuration, 90, "90s"},
		{UnitDuration, 4000, "1h6m40s"},
	} {
		if got := c.unit.Format(c.v); got != c.text {
			t.Errorf("%v in unit %d is written %s, wanted %s", c.v, c.unit, got, c.text)
		}
		if strings.Contains(c.text, "µ") {
			continue // files write us
		}
		back, err := c.unit.Bound(c.text)
		if err != nil || back < c.v*0.99 || back > c.v*1.01 {
			t.Errorf("%s reads as %v, %v; wanted about %v", c.text, back, err, c.v)
		}
	}
}

// The soak is there to find what grows, so it judges everything that can be
// seen to.
func TestTheSoakJudgesAllGrowth(t *testing.T) {
	s, err := Read("../scenarios/long/soak.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range metrics {
		if m.name.Growth() && !slices.ContainsFunc(s.Thresholds, func(th Threshold) bool { return th.Metric == m.name }) {
			t.Errorf("the soak does not judge %s", m.name)
		}
	}
}
