package peers

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/bench/target"
)

// The test binary serves the bare proxy, as the bench itself does.
func TestMain(m *testing.M) {
	if len(os.Args) == 6 && os.Args[1] == "bare-proxy" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		if err := Bare(ctx, os.Args[3], os.Args[5]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// quick measures too little for any figure to mean something, and enough for
// every count to.
func quick(t *testing.T, o Options) Options {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o.Self, o.Rounds, o.Span, o.Rate, o.Connections, o.Note = self, 1, 500*time.Millisecond, 200, 8, t.Logf
	return o
}

// Every program does every kind of work that it takes part in: what it should
// forward reaches the origin exactly once, what it should refuse or replay never
// does. Measuring fails where that is not so.
func TestEveryProgramDoesTheWork(t *testing.T) {
	bin, err := target.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), quick(t, Options{Sluice: bin, GoFiber: "gofiber"}))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		gap := slices.ContainsFunc(r.Missing, func(m string) bool { return strings.HasPrefix(m, p.name+": ") })
		if gap && p.name != "gofiber" { // whose modules may be out of reach
			t.Errorf("%s did not take part: %v", p.name, r.Missing)
			continue
		}
		for _, w := range p.works {
			measured := slices.ContainsFunc(r.Figures, func(f *Figure) bool {
				return f.Program == p.name && f.Work == w && f.Throughput.Value > 0 && f.Memory > 0 && (f.Version != "" || p.name == "fasthttp") // a test binary does not know its modules
			})
			if measured == gap {
				t.Errorf("%s, %s: measured %v, and marked as missing %v", p.name, w, measured, gap)
			}
		}
	}
	if r.Ceiling < 100 || !strings.Contains(r.Markdown(), "by a target that does nothing") {
		t.Errorf("the generator's own ceiling is %.0f requests a second, and is it told?\n%s", r.Ceiling, r.Markdown())
	}
	if left := children(t); len(left) > 0 {
		t.Errorf("still running: %v", left)
	}
}

// A program that is asked for and cannot take part is an error; one that merely
// is not here is a gap that the tables name.
func TestMissingProgramsAreNamed(t *testing.T) {
	for _, c := range []struct {
		only []string
		work Work
		want string
	}{
		{[]string{"gofiber"}, Forward, "gofiber cannot take part: its source is not here"},
		{[]string{"ngnix"}, Forward, `there is no program "ngnix"; there are fasthttp, sluice`},
		{nil, "forwrad", `there is no work "forwrad"`},
	} {
		_, err := Run(t.Context(), quick(t, Options{Only: c.only, Works: []Work{c.work}}))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("only %v, work %s: %v, wanted %s", c.only, c.work, err, c.want)
		}
	}
	t.Setenv("PATH", t.TempDir())
	r, err := Run(t.Context(), quick(t, Options{Works: []Work{Forward}, bin: t.TempDir()}))
	if err != nil {
		t.Fatal(err)
	}
	md := r.Markdown()
	for _, want := range []string{"| fasthttp |", "not measured: sluice: no binary was given.", "not measured: nginx: it is not installed", "not measured: haproxy: it is not installed", "not measured: gofiber: its source is not here."} {
		if !strings.Contains(md, want) {
			t.Errorf("the tables do not say %q:\n%s", want, md)
		}
	}
	if left := children(t); len(left) > 0 {
		t.Errorf("still running: %v", left)
	}
}

// A program that does something else than the work is caught by what the origin
// saw, whatever it answers.
func TestOtherWorkIsCaught(t *testing.T) {
	for _, c := range []struct {
		work              Work
		asked, gotIn, saw int64
		ok                bool
	}{
		{Forward, 100, 0, 100, true},
		{Forward, 100, 0, 99, false}, // answered by itself
		{Keyed, 100, 0, 101, false},  // sent twice
		{Refuse, 100, 0, 0, true},
		{Refuse, 100, 0, 1, false}, // refused, and let through all the same
		{Refuse, 100, 3, 3, true},
		{Replay, 100, 0, 1, false}, // done again
	} {
		if err := account(c.work, c.asked, c.gotIn, c.saw); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
	o, err := startOrigin()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := o.stop(); err != nil {
			t.Error(err)
		}
	}()
	opts := &Options{Connections: 4}
	n, wrong, err := opts.saturate(t.Context(), o.url, Refuse, 200*time.Millisecond, 1)
	if err != nil || n < 10 || wrong != n || o.count.Load() != n {
		t.Errorf("%d answers, %d of them no refusals, %d seen by the origin, %v; wanted the same number thrice", n, wrong, o.count.Load(), err)
	}
}

// An interrupted comparison leaves nothing behind.
func TestInterruptionEndsAllPrograms(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	o := quick(t, Options{Works: []Work{Refuse}})
	o.Span = time.Minute
	if _, err := Run(ctx, o); err == nil {
		t.Error("a comparison of a minute ended within two seconds")
	}
	if left := children(t); len(left) > 0 {
		t.Errorf("still running: %v", left)
	}
}

// children of this process, by name.
func children(t *testing.T) (names []string) {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(tasks) == 0 {
		t.Log("this system does not tell which processes are whose")
	}
	for _, f := range tasks {
		pids, _ := os.ReadFile(f)
		for _, pid := range strings.Fields(string(pids)) {
			name, _ := os.ReadFile("/proc/" + pid + "/comm")
			names = append(names, pid+" "+strings.TrimSpace(string(name)))
		}
	}
	return names
}
