package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"sluice/internal/testbuffer"
)

// topState is what a gateway could say.
func topState(t *testing.T) *feedState {
	t.Helper()
	const text = `{
	"instance": "one",
	"parts": {
		"version": "1.2.3", "mode": "partly shadow", "started": "2026-03-01T10:00:00Z", "draining": false,
		"config": {"path": "config.yaml", "hash": "cafe", "reload_error": "config.yaml:3:1: rotes: unknown key\nand more"},
		"origin": {"addresses": [{"address": "10.0.0.1:80", "healthy": false, "last_error": "refused"}]},
		"totals": {"received": 900, "in_flight": 7, "verdicts": {"admit": 600, "refuse": 300}, "refused": {"deferred": 250, "tenant_limit": 50}, "shadow": {"shed": 12}},
		"classes": [{"class": "critical", "admit": 400, "admit_rate": 40}, {"class": "bulk", "admit": 200, "refuse": 300, "admit_rate": 20, "refuse_rate": 30}],
		"tenants": [{"tenant": "acme", "admit": 10, "admit_rate": 1}, {"tenant": "\u001b[31mred", "admit": 5, "refuse": 90, "refuse_rate": 9}],
		"routes": [{"route": "order", "admit": 400, "admit_rate": 40}, {"route": "campaign", "mode": "shadow", "admit": 3, "shadow": {"shed": 12}}],
		"sections": {
			"queues": {"work": {"wait_seconds": 45, "max_useful_age_seconds": 60, "share_admitted": {"critical": 1, "bulk": 0.25}, "mode": "enforce"}},
			"signals": {"work/http": {"health": "fresh", "age_seconds": 40, "depth": 1200}},
			"idempotency": {"store": "redis", "requests": {"fresh": 100, "replayed": 20, "reused": 0}, "put_in_doubt": 2, "store_errors": 3, "running": 4}
		}
	},
	"history": {"times": [1772360000000, 1772360001000], "series": {"received": [80, 100], "refuse": [20, 40], "admit": [60, 60], "refuse/deferred": [20, null]}},
	"tail": [
		{"n": 1, "ts": "2026-03-01T12:00:00Z", "id": "id-1", "tenant": "acme", "class": "critical", "route": "order", "verdict": "admit", "reason": "none", "status": 202},
		{"n": 2, "ts": "2026-03-01T12:00:01Z", "id": "id-2", "tenant": "\u001b[31mred", "class": "bulk", "route": "campaign", "verdict": "refuse", "reason": "deferred", "status": 503, "retry_after": 12}
	]}`
	var s feedState
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return &s
}

func topScreen(m *topModel) string { return ansi.Strip(strings.Join(m.lines(), "\n")) }

func press(m *topModel, keys ...string) {
	for _, k := range keys {
		msg := tea.KeyPressMsg{Text: k, Code: []rune(k)[0]}
		switch k {
		case "enter":
			msg = tea.KeyPressMsg{Code: tea.KeyEnter}
		case "esc":
			msg = tea.KeyPressMsg{Code: tea.KeyEscape}
		case "tab":
			msg = tea.KeyPressMsg{Code: tea.KeyTab}
		}
		m.Update(msg)
	}
}

func TestTopShowsWhatTheGatewaySays(t *testing.T) {
	m := newTopModel("127.0.0.1:9090")
	m.Update(tea.WindowSizeMsg{Width: 160, Height: 50})
	if got := topScreen(m); !strings.Contains(got, "waiting for the gateway at 127.0.0.1:9090") {
		t.Errorf("before the first state: %s", got)
	}
	m.Update(topState(t))
	for _, want := range []string{
		"PARTLY SHADOW", "ready", "● live", "offered 90/s", "admitted 60/s (67%)", "refused 30/s (33%)", "7 in flight",
		"the last reload failed", "rotes: unknown key …", "origin 10.0.0.1:80 is away: refused",
		"Queue work", "wait 45s of 1m", "oldest 40s", "depth 1200", "admits critical 100%  bulk 25%",
		"deferred", "250", "tenant_limit", "shed", "would be, in shadow",
		"acme", `\x1b[31mred`, "campaign", "redis", "put in doubt: 2", "3 store errors", "503 in 12s", "id-2",
	} {
		if got := topScreen(m); !strings.Contains(got, want) {
			t.Errorf("%q is not shown:\n%s", want, got)
		}
	}
}

// Whatever the terminal's size, a screen fills it and does not overflow it, in
// each view.
func TestTopFitsEveryTerminal(t *testing.T) {
	m := newTopModel("127.0.0.1:9090")
	m.Update(topState(t))
	for view := range topViews {
		m.view = view
		for width := 1; width <= 200; width += 7 {
			for height := 1; height <= 60; height += 5 {
				m.Update(tea.WindowSizeMsg{Width: width, Height: height})
				lines := m.lines()
				if len(lines) != height {
					t.Fatalf("%s, %d×%d: %d lines", topViews[view], width, height, len(lines))
				}
				for _, l := range lines {
					if lipgloss.Width(l) > width || strings.Contains(l, "\n") {
						t.Fatalf("%s, %d×%d: a line is %d wide: %q", topViews[view], width, height, lipgloss.Width(l), l)
					}
				}
			}
		}
	}
}

func TestTopKeys(t *testing.T) {
	m := newTopModel("127.0.0.1:9090")
	m.Update(tea.WindowSizeMsg{Width: 100, Height: 40})
	m.Update(topState(t))
	press(m, "3")
	first := func() string { return strings.Fields(strings.Split(topScreen(m), "\n")[5])[0] }
	if got := first(); got != `\x1b[31mred` {
		t.Errorf("the busiest tenant is %s:\n%s", got, topScreen(m))
	}
	press(m, "s", "s")
	if got := first(); got != `\x1b[31mred` {
		t.Errorf("the first by name is %s", got)
	}
	press(m, "/", "a", "c", "enter")
	if got := topScreen(m); first() != "acme" || strings.Contains(got, "x1b") || !strings.Contains(got, "filter: ac") {
		t.Errorf("filtered by ac:\n%s", got)
	}
	press(m, "5", "/", "esc", "/", "v", "e", "r", "d", "i", "c", "t", ":", "r", "e", "f", "enter")
	if got := topScreen(m); !strings.Contains(got, "id-2") || strings.Contains(got, "id-1") {
		t.Errorf("filtered by verdict:ref:\n%s", got)
	}
	press(m, "4")
	if got := topScreen(m); strings.Contains(got, "campaign") { // the filter is of decisions
		t.Errorf("routes filtered by verdict:ref:\n%s", got)
	}
	m.Update(tea.WindowSizeMsg{Width: 140, Height: 40})
	press(m, "esc")
	if got := topScreen(m); !strings.Contains(got, "would refuse shed 12") {
		t.Errorf("routes:\n%s", got)
	}
	press(m, "tab", "tab")
	if m.filter != "" || m.view != 0 {
		t.Errorf("filter %q, view %d", m.filter, m.view)
	}

	var tick feedTick
	if err := json.Unmarshal([]byte(`{"point": {"t": 1772360002000, "v": {"received": 990}},
		"parts": {"draining": true, "origin": null}, "tail": [{"n": 3, "id": "id-3", "verdict": "admit", "reason": "none"}]}`), &tick); err != nil {
		t.Fatal(err)
	}
	press(m, "p")
	m.Update(&tick)
	if got := topScreen(m); !strings.Contains(got, "PAUSED") || strings.Contains(got, "id-3") {
		t.Errorf("while paused:\n%s", got)
	}
	press(m, "p")
	if got := topScreen(m); !strings.Contains(got, "id-3") || !strings.Contains(got, "DRAINING") || strings.Contains(got, "10.0.0.1:80") || !strings.Contains(got, "offered 390/s") {
		t.Errorf("going on:\n%s", got)
	}
	m.Update(lostMsg{})
	if got := topScreen(m); !strings.Contains(got, "LOST") {
		t.Errorf("without the stream:\n%s", got)
	}
	m.Update(topState(t))
	if got := topScreen(m); !strings.Contains(got, "● live") || strings.Contains(got, "id-3") {
		t.Errorf("after a restart:\n%s", got)
	}
	if _, cmd := m.Update(tea.KeyPressMsg{Text: "q", Code: 'q'}); cmd == nil {
		t.Error("q does not end it")
	}
}

// The whole program, with a running gateway: it shows a refusal, without colours
// where they are not wanted, and ends at q.
func TestTopWithARunningGateway(t *testing.T) {
	g, _ := live(t)
	for range 4 {
		post(t, g, "/put", "acme")
	}
	t.Setenv(tokenVariable, "a-token-of-the-tests")
	out := &testbuffer.Buffer{}
	screen := func() string { return ansi.Strip(out.String()) }
	keys, typed := io.Pipe()
	a := adminFlags{address: g.AdminAddr()}
	ended := make(chan error, 1)
	go func() {
		ended <- a.top(t.Context(), tea.WithInput(keys), tea.WithOutput(out), tea.WithWindowSize(110, 45),
			tea.WithEnvironment([]string{"TERM=xterm-256color", "NO_COLOR=1"}))
	}()
	until(t, "tenant_limit", screen)
	until(t, "put", screen)
	if strings.Contains(out.String(), "\x1b[31m") {
		t.Error("NO_COLOR is not heard")
	}
	if _, err := typed.Write([]byte("q")); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	// No terminal: one snapshot.
	if code, stdout, stderr := run(t, "", "top", "--admin", g.AdminAddr()); code != 0 || !strings.Contains(stdout, "tenant_limit 1") {
		t.Errorf("without a terminal: exit code %d\n%s%s", code, stdout, stderr)
	}
	if code, _, stderr := run(t, "", "top", "--admin", "127.0.0.1:1"); code != 4 || !strings.Contains(stderr, "no gateway answers") {
		t.Errorf("without a gateway: exit code %d, %s", code, stderr)
	}
}

func TestTailWithARunningGateway(t *testing.T) {
	g, _ := live(t)
	for range 4 {
		post(t, g, "/put", "acme")
	}
	post(t, g, "/put", "globex")
	t.Setenv(tokenVariable, "a-token-of-the-tests")
	ask := func(args ...string) (int, string, string) {
		return run(t, "", append([]string{"tail", "--once", "--admin", g.AdminAddr()}, args...)...)
	}
	until(t, "globex", func() string { _, stdout, _ := ask(); return stdout })
	for _, c := range []struct {
		args  []string
		lines int
		first string
	}{
		{nil, 5, "admit   -                  acme             put              high"},
		{[]string{"--verdict", "refuse"}, 1, "refuse  tenant_limit       acme             put"},
		{[]string{"--reason", "shed,tenant_limit", "--tenant", "acme"}, 1, "429 retry after "},
		{[]string{"--tenant", "nobody"}, 0, ""}, {[]string{"--class", "low"}, 0, ""}, {[]string{"--route", "put", "-n", "2"}, 2, "tenant_limit"},
		{[]string{"--format", "json", "-n", "1"}, 1, `"verdict":"admit"`},
	} {
		code, stdout, stderr := ask(c.args...)
		lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
		if stdout == "" {
			lines = nil
		}
		if code != 0 || len(lines) != c.lines || c.lines > 0 && !strings.Contains(lines[0], c.first) {
			t.Errorf("tail %v: exit code %d, want %d lines, the first with %q; got\n%s%s", c.args, code, c.lines, c.first, stdout, stderr)
		}
	}
	for arg, want := range map[string]string{"--verdict=deny": "write admit, replay or refuse", "--reason=slow": "write one of"} {
		if code, _, stderr := ask(arg); code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("tail %s: exit code %d, %s", arg, code, stderr)
		}
	}
}

// What was shown is not shown again, and what is missing is told, over lost
// streams and restarts.
func TestTailTellsOfGaps(t *testing.T) {
	var out, notes bytes.Buffer
	tl := &tailer{out: &out, notes: &notes, first: 2, address: "here"}
	lines := func(from, to int) (list []json.RawMessage) {
		for n := from; n <= to; n++ {
			list = append(list, fmt.Appendf(nil, `{"n": %d, "id": "id-%d", "verdict": "admit", "reason": "none"}`, n, n))
		}
		return list
	}
	tl.state(&feedState{Instance: "one", Tail: lines(1, 5)})
	tl.take(lines(6, 7))
	tl.lost(io.EOF)
	tl.lost(io.EOF)
	tl.state(&feedState{Instance: "one", Tail: lines(3, 8)})
	tl.state(&feedState{Instance: "one", Tail: lines(12, 13)})
	tl.lost(io.EOF)
	tl.state(&feedState{Instance: "two", Tail: lines(1, 1)})
	tl.take(lines(2, 2))
	ids := regexp.MustCompile(`id-\d+`).FindAllString(out.String(), -1)
	if want := strings.Fields("id-4 id-5 id-6 id-7 id-8 id-12 id-13 id-1 id-2"); !slices.Equal(ids, want) {
		t.Errorf("shown: %v, want %v\n%s", ids, want, out.String())
	}
	const want = `sluice: the gateway at here does not answer; trying again
sluice: the gateway at here answers again
sluice: the gateway at here answers again
sluice: 3 decisions are missing here: the gateway no longer remembers them
sluice: the gateway at here does not answer; trying again
sluice: the gateway at here was started anew; its last decisions before that may be missing here
`
	if notes.String() != want {
		t.Errorf("told:\n%s\nwant:\n%s", notes.String(), want)
	}
}

func TestDrainARunningGateway(t *testing.T) {
	g, _ := live(t)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("a-token-of-the-tests"), 0o600); err != nil {
		t.Fatal(err)
	}
	ask := func(args ...string) (int, string, string) {
		return run(t, "", append(args, "--admin", g.AdminAddr(), "--token-file", token)...)
	}
	if code, stdout, stderr := ask("drain", "--wait", "--timeout", "20s"); code != 0 || !strings.Contains(stdout, "drained: what comes is refused, and nothing runs") {
		t.Errorf("drain: exit code %d\n%s%s", code, stdout, stderr)
	}
	if got, _ := post(t, g, "/put", "acme"); got != "503 draining" {
		t.Errorf("a request meanwhile: %s", got)
	}
	if code, stdout, _ := ask("status"); code != 1 || !strings.Contains(stdout, "sluice drain --undo") {
		t.Errorf("status meanwhile: exit code %d\n%s", code, stdout)
	}
	if code, _, _ := ask("healthcheck"); code != 1 {
		t.Errorf("healthcheck meanwhile: exit code %d", code)
	}
	if code, stdout, stderr := ask("drain", "--undo"); code != 0 || !strings.Contains(stdout, "it takes requests") {
		t.Errorf("undone: exit code %d\n%s%s", code, stdout, stderr)
	}
	if got, _ := post(t, g, "/put", "acme"); got != "202 " {
		t.Errorf("a request after it: %s", got)
	}
	if code, _, stderr := ask("drain", "--undo", "--wait"); code != 2 || !strings.Contains(stderr, "contradict") {
		t.Errorf("both: exit code %d, %s", code, stderr)
	}
}
