package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/bench/console"
	"sluice/bench/report"
	"sluice/bench/result"
	"sluice/bench/scenario"
	"sluice/config/value"
)

// named writes a scenario of that name, with that load.
func named(t *testing.T, name, load, more string) string {
	t.Helper()
	file := scenarioFile(t, more)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("name: direct"), []byte("name: "+name), 1)
	text = bytes.Replace(text, []byte("rate: 100/s, for: 1s"), []byte(load), 1)
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// aSecond of load.
const aSecond = "rate: 100/s, for: 1s"

// Where scenarios beside each other would spoil each other's results, they are
// refused, with the reason.
func TestWhatCannotGoOnAtOnce(t *testing.T) {
	a, b := named(t, "a", aSecond, ""), named(t, "b", aSecond, "")
	elsewhere := named(t, "c", aSecond, `target: {url: "http://127.0.0.1:1"}`)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{a, b, "--at-once", "2"}, "--at-once needs --counts-only: scenarios beside each other disturb each other's times"},
		{[]string{a, b, "--at-once", "2", "--counts-only", "--target", "http://127.0.0.1:1"}, "--at-once and --target exclude each other"},
		{[]string{a, b, "--at-once", "0", "--counts-only"}, "--at-once: 0 are none; write at least 1"},
		{[]string{a, b, named(t, "a", aSecond, ""), "--at-once", "2", "--counts-only"}, "two scenarios are called a, and would write into the same folder"},
		{[]string{a, elsewhere, "--at-once", "2", "--counts-only"}, "c has a target of its own"},
	} {
		var said bytes.Buffer
		out := t.TempDir()
		got := execute(t.Context(), append([]string{"run", "--out", out}, c.args...), &said)
		if got != exitUsage || !strings.Contains(said.String(), c.want) {
			t.Errorf("%v: exit code %d, wanted 2 with %q: %s", c.args, got, c.want, &said)
		}
		if left, _ := os.ReadDir(out); len(left) > 0 {
			t.Errorf("%v: something was carried out: %v", c.args, left)
		}
	}
}

// Two gateways at once, each with an origin of its own: the three counts of each
// agree, although both loads look alike.
func TestScenariosBesideEachOtherAreCountedApart(t *testing.T) {
	config, err := filepath.Abs("scenarios/gateway/limits.yaml")
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	args := []string{"run", "--counts-only", "--at-once", "2", "--out", out}
	for name, rate := range map[string]int{"a": 150, "b": 100} {
		args = append(args, named(t, name, fmt.Sprintf("rate: %d/s, for: 3s", rate), fmt.Sprintf(`
target: {config: %s}
thresholds: [{metric: admitted_share, at_least: 100%%}, {metric: lost, at_most: none}]`, config)))
	}
	if got := bench(t, args...); got != 0 {
		t.Errorf("exit code %d, wanted 0", got)
	}
	var both []*result.Result
	for _, name := range []string{"a", "b"} {
		r, err := report.Read(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, r)
		if r.Generator.Beside != 1 || r.Generator.Timed || r.Total.Offered < 200 {
			t.Errorf("%s: %d beside it, times judged %v, %d offered", name, r.Generator.Beside, r.Generator.Timed, r.Total.Offered)
		}
		counted := 0
		for _, c := range r.Counts {
			if !c.OK || c.Doubt != 0 {
				t.Errorf("%s: %s", name, c)
			}
			if c.Gateway >= 0 {
				counted++
			}
		}
		if counted < 2 {
			t.Errorf("%s: the gateway's counters are compared %d times: %v", name, counted, r.Counts)
		}
	}
	a, b := both[0], both[1]
	if a.Total.Offered == b.Total.Offered || a.Target.URL == b.Target.URL {
		t.Errorf("both are the same: %d offered at %s, %d at %s", a.Total.Offered, a.Target.URL, b.Total.Offered, b.Target.URL)
	}
	apart := a.Started.Sub(b.Started).Abs()
	if apart > time.Duration(a.Seconds*float64(time.Second)) {
		t.Errorf("they started %v apart: one after the other", apart)
	}
}

// The worst verdict decides, as it does for scenarios in turn.
func TestTheExitCodeOfSeveralAtOnce(t *testing.T) {
	pass := "thresholds: [{metric: admitted_share, at_least: 100%}]"
	missed := "thresholds: [{metric: refused_share, at_least: 50%}]"
	open := "thresholds: [{metric: promises_kept_share, at_least: 1%}]"
	invalid := "load: {max_in_flight: 1}\norigin: {answer: {fixed: 200ms}}"
	for _, c := range []struct {
		name string
		more []string
		want int
	}{
		{"all pass", []string{pass, pass, pass}, 0},
		{"one is missed", []string{pass, invalid, missed, open}, 1},
		{"one is invalid, alone too", []string{open, pass, invalid}, 3},
		{"one is inconclusive", []string{pass, open}, 4},
	} {
		args := []string{"run", "--counts-only", "--at-once", "2", "--out", t.TempDir()}
		for i, more := range c.more {
			args = append(args, named(t, fmt.Sprintf("s%d", i), aSecond, more))
		}
		if got := bench(t, args...); got != c.want {
			t.Errorf("%s: exit code %d, wanted %d", c.name, got, c.want)
		}
	}
}

// An interrupt ends those under way, which tell what they saw, and keeps the
// rest from starting; that is no pass.
func TestAnInterruptEndsAllAtOnce(t *testing.T) {
	out := t.TempDir()
	args := []string{"run", "--counts-only", "--at-once", "2", "--out", out}
	for i := range 3 {
		args = append(args, named(t, fmt.Sprintf("s%d", i), fmt.Sprintf("rate: 100/s, for: %ds", 90-i), ""))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	if got := execute(ctx, args, t.Output()); got != 4 {
		t.Errorf("exit code %d, wanted 4", got)
	}
	for i := range 2 {
		r, err := report.Read(filepath.Join(out, fmt.Sprintf("s%d", i)))
		if err != nil {
			t.Errorf("what was measured is not written: %v", err)
			continue
		}
		if r.Verdict != result.Inconclusive || r.Interrupted < 1 || r.Interrupted > 30 || r.Total.Offered < 100 {
			t.Errorf("%s: %s, interrupted after %v s, %d offered", r.Name, r.Verdict, r.Interrupted, r.Total.Offered)
		}
	}
	if _, err := os.Stat(filepath.Join(out, "s2")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a third one has started: %v", err)
	}
}

// pretended scenarios, each as long as its number says, in seconds.
func pretended(seconds ...int) (all []*scenario.Scenario) {
	for _, n := range seconds {
		all = append(all, &scenario.Scenario{
			Name:   scenario.Name(fmt.Sprintf("s%d", n)),
			Stages: []scenario.Stage{{For: value.Duration(time.Duration(n) * time.Second)}},
		})
	}
	return all
}

// pretend carries them out by waiting; verdicts says what comes of it.
func pretend(t *testing.T, ctx context.Context, atOnce int, all []*scenario.Scenario, verdicts func(s *scenario.Scenario, beside int) (*result.Result, error)) (started []string, most int, said string, worst result.Verdict, err error) {
	t.Helper()
	var out bytes.Buffer
	var mu sync.Mutex
	now := 0
	b := batch{atOnce: atOnce, board: console.NewBoard(&out, all), dir: func(*scenario.Scenario) string { return "dir" },
		one: func(ctx context.Context, s *scenario.Scenario, beside int) (*result.Result, error) {
			mu.Lock()
			now++
			most = max(most, now)
			started = append(started, string(s.Name))
			mu.Unlock()
			defer func() {
				mu.Lock()
				now--
				mu.Unlock()
			}()
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(s.Length()):
			}
			return verdicts(s, beside)
		}}
	worst, err = b.run(ctx, all)
	return started, most, out.String(), worst, err
}

func of(s *scenario.Scenario, v result.Verdict) (*result.Result, error) {
	return &result.Result{Name: string(s.Name), Verdict: v}, nil
}

// No more go on than may, and none of the long ones is left for the end.
func TestTheLongestStartFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		started, most, said, worst, err := pretend(t, t.Context(), 3, pretended(2, 8, 4, 1, 10, 5), func(s *scenario.Scenario, beside int) (*result.Result, error) {
			if beside != 2 {
				t.Errorf("%s: %d beside it, wanted 2", s.Name, beside)
			}
			return of(s, result.Pass)
		})
		if err != nil || worst != result.Pass || most != 3 {
			t.Errorf("%v, %s, %d at once", err, worst, most)
		}
		if took := time.Since(began); took != 10*time.Second { // 10, 8 and 2, 5 and 4 and 1
			t.Errorf("it took %v", took)
		}
		first := map[string]bool{started[0]: true, started[1]: true, started[2]: true}
		if !reflect.DeepEqual(first, map[string]bool{"s10": true, "s8": true, "s5": true}) || !reflect.DeepEqual(started[3:], []string{"s4", "s2", "s1"}) {
			t.Errorf("started as %v", started)
		}
		if !strings.Contains(said, "6 scenarios in 10s: 6 pass") {
			t.Errorf("it says\n%s", said)
		}
	})
}

// What is invalid beside others gets one more chance, alone, and that is said;
// what stays invalid is no pass.
func TestInvalidRunsAreCarriedOutOnceMoreAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for second, want := range map[result.Verdict]string{result.Pass: "3 pass", result.Invalid: "2 pass, 1 invalid", result.Missed: "2 pass, 1 missed"} {
			started, _, said, worst, err := pretend(t, t.Context(), 3, pretended(3, 2, 1), func(s *scenario.Scenario, beside int) (*result.Result, error) {
				switch {
				case s.Name != "s2":
					return of(s, result.Pass)
				case beside > 0:
					return of(s, result.Invalid)
				}
				return of(s, second)
			})
			if err != nil || worst != second || len(started) != 4 || started[3] != "s2" {
				t.Errorf("%v, %s after %s, started %v", err, worst, second, started)
			}
			if !strings.Contains(said, "s2  was invalid beside the others; once more, alone") || !strings.Contains(said, want) {
				t.Errorf("it says\n%s", said)
			}
		}
	})
}

// One without a result, such as one whose gateway does not start, is an error;
// those under way end, and no further one starts.
func TestAnErrorLetsTheOthersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("no gateway")
		started, _, said, _, err := pretend(t, t.Context(), 2, pretended(5, 3, 2, 1), func(s *scenario.Scenario, _ int) (*result.Result, error) {
			if s.Name == "s3" {
				return nil, broken
			}
			return of(s, result.Pass)
		})
		if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "s3: ") {
			t.Errorf("the error is %v", err)
		}
		if len(started) != 2 || !strings.Contains(said, "4 scenarios in 5s: 1 pass, 3 not carried out") {
			t.Errorf("started %v, and said\n%s", started, said)
		}
	})
}

// What an interrupt keeps from having a result is inconclusive, and no error.
func TestInterruptedBeforeTheLoadIsInconclusive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		started, _, said, worst, err := pretend(t, ctx, 2, pretended(5, 1, 4), func(s *scenario.Scenario, _ int) (*result.Result, error) {
			return of(s, result.Pass)
		})
		if err != nil || worst != result.Inconclusive || len(started) != 2 {
			t.Errorf("%v, %s, started %v", err, worst, started)
		}
		if !strings.Contains(said, "interrupted") || !strings.Contains(said, "3 not carried out") {
			t.Errorf("it says\n%s", said)
		}
	})
}
