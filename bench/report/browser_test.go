package report

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/bench/result"
	"sluice/bench/target"
)

// A browser draws every chart of the page, of a run with everything and of one
// with next to nothing, and finds no fault with the page's scripts and its
// policy.
func TestABrowserDrawsThePage(t *testing.T) {
	bin, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("chromium is not installed (apt-get install chromium)")
	}
	full := sample()
	full.Inversions = []result.Inversion{{Second: 1, Higher: "critical", Lower: "bulk", HigherShare: 0.5, LowerShare: 0.1, Stage: "hold"}}
	full.Events = []result.Event{{At: 0.5, Till: 1, What: "origin: workers stop"}, {At: 1, What: hostile}}
	full.Intervals[0].Held = &target.Held{Memory: 30 << 20, Heap: 12 << 20, Goroutines: 40, Descriptors: 50}
	full.Intervals = append(full.Intervals, full.Intervals[0])
	full.Intervals[1].T, full.Intervals[1].Held = 1, nil
	bare := &result.Result{Format: result.Format, Name: "bare", Verdict: result.Inconclusive, Why: []string{"the run was interrupted after 0s"}}
	for name, c := range map[string]struct {
		r      *result.Result
		charts int
	}{"full": {full, 8}, "bare": {bare, 6}} {
		html, err := HTML(c.r)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		file := filepath.Join(dir, "report.html")
		if err := os.WriteFile(file, html, 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), bin, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir="+filepath.Join(dir, "profile"),
			"--virtual-time-budget=2000", "--enable-logging=stderr", "--dump-dom", "file://"+file)
		cmd.WaitDelay = 10 * time.Second
		var dom, said strings.Builder
		cmd.Stdout, cmd.Stderr = &dom, &said
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v\n%s", err, &said)
		}
		if n := strings.Count(dom.String(), `role="img"`); n != c.charts {
			t.Errorf("%s: %d charts are drawn, wanted %d", name, n, c.charts)
		}
		if m := regexp.MustCompile(`.*CONSOLE.*`).FindString(said.String()); m != "" {
			t.Errorf("%s: the browser complains: %s", name, m)
		}
		if !strings.Contains(dom.String(), `aria-label="Switch to`) {
			t.Errorf("%s: the page's script did not come to its end", name)
		}
	}
}
