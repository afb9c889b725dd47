package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/config"
	"sluice/gateway"
	"sluice/rehearse/replay"
)

const livePolicy = `version: 1
listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0, token: a-token-of-the-tests, write: true}
origin: {url: ORIGIN, health: {path: /healthz, every: 100ms, timeout: 90ms}}
tenants: {from: [{header: X-Tenant-Id}], limit: {rate: 1/s, burst: 3}}
classes: [{name: high}, {name: low}]
queues:
  work:
    max_useful_age: 100s
    signal: {every: 100ms, push: {}}
    shed: {low: {from: 20%, full: 40%, action: defer}}
routes:
  - {id: put, match: {method: POST, path: /put}, class: high, queue: work}
  - {id: batch, match: {method: POST, path: /batch}, class: low, queue: work}
shutdown: {drain: 0s}
reload: {watch: 0s}
`

// live runs a gateway and returns it with its configuration file.
func live(t *testing.T) (*gateway.Gateway, string) {
	t.Helper()
	asked := make(chan struct{}, 1)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			select {
			case asked <- struct{}{}:
			default:
			}
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(origin.Close)
	file := filepath.Join(t.TempDir(), "live.yaml")
	write(t, file, strings.Replace(livePolicy, "ORIGIN", origin.URL, 1))
	g, err := gateway.New(gateway.Options{
		Load: func() (*config.Config, error) { return config.Load(file) }, Path: file, Explain: replay.Remembered, Version: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	<-asked // it runs in full
	return g, file
}

// post sends a request to a gateway and returns status, reason and Retry-After.
func post(t *testing.T, g *gateway.Gateway, path, tenant string) (answer string, id string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+g.Addr()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Tenant-Id", tenant)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var problem struct{ Reason string }
	_ = json.Unmarshal(body, &problem)
	return fmt.Sprintf("%d %s", res.StatusCode, problem.Reason), res.Header.Get("X-Request-Id")
}

// until asks again until the answer has a text in it.
func until(t *testing.T, text string, ask func() string) {
	t.Helper()
	answer := ""
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(answer, text); answer = ask() {
		if time.Now().After(deadline) {
			t.Fatalf("%q was never told:\n%s", text, answer)
		}
	}
}

// explained is status and reason as explain tells them; of a request that is
// admitted, the origin's.
func explained(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := run(t, "", append([]string{"explain", "--format", "json"}, args...)...)
	if code != 0 {
		t.Fatal(stderr)
	}
	var e struct {
		Verdict, Reason string
		Wire            struct{ Status int }
	}
	if err := json.Unmarshal([]byte(stdout), &e); err != nil {
		t.Fatal(err)
	}
	if e.Verdict == "admit" {
		return "202 "
	}
	return fmt.Sprintf("%d %s", e.Wire.Status, e.Reason)
}

// A real gateway answers real requests as explain says it would.
func TestExplainAgreesWithARunningGateway(t *testing.T) {
	g, file := live(t)
	signal, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+g.AdminAddr()+"/signals/work", strings.NewReader(`{"age": 60}`))
	if err != nil {
		t.Fatal(err)
	}
	signal.Header.Set("Authorization", "Bearer a-token-of-the-tests")
	res, err := http.DefaultClient.Do(signal)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode >= 300 {
		t.Fatalf("posting a signal: %s", res.Status)
	}
	token := filepath.Join(t.TempDir(), "token")
	write(t, token, "a-token-of-the-tests")
	until(t, "wait 1m", func() string {
		_, stdout, _ := run(t, "", "status", "--admin", g.AdminAddr(), "--token-file", token)
		return stdout
	})
	for already := range 5 {
		got, _ := post(t, g, "/put", "acme")
		want := explained(t, "-c", file, "-X", "POST", "--path", "/put", "--tenant", "acme", "--already", fmt.Sprint(already), "--signal", "work=age:60s")
		if got != want {
			t.Errorf("request %d to /put is answered with %q, explained as %q", already+1, got, want)
		}
	}
	got, id := post(t, g, "/batch", "globex")
	want := explained(t, "-c", file, "-X", "POST", "--path", "/batch", "--tenant", "globex", "--signal", "work=age:60s")
	if got != want || want != "503 deferred" {
		t.Errorf("a request to /batch is answered with %q, explained as %q; want both to be 503 deferred", got, want)
	}

	t.Setenv(tokenVariable, "a-token-of-the-tests")
	until(t, id, func() string {
		_, stdout, _ := run(t, "", "explain", "-c", file, "--id", id, "--admin", g.AdminAddr())
		return stdout
	})
	code, stdout, stderr := run(t, "", "explain", "-c", file, "--id", id, "--admin", g.AdminAddr())
	if want := fmt.Sprintf("%s:11 queues.work.shed.low", file); code != 0 || !strings.Contains(stdout, "refuse: deferred, decided by queue") || !strings.Contains(stdout, want) ||
		!strings.Contains(stdout, "recorded as "+id) || !strings.Contains(stdout, "queue work: predicted wait 1m, ") || strings.Contains(stdout, "otherwise: ") {
		t.Errorf("explain --id: exit code %d, want the refusal decided by %s; got\n%s%s", code, want, stdout, stderr)
	}
	if code, _, stderr := run(t, "", "explain", "-c", file, "--id", "unknown", "--admin", g.AdminAddr()); code != 1 || !strings.Contains(stderr, "does not remember") {
		t.Errorf("explain --id of an unknown id: exit code %d, %s", code, stderr)
	}
}

func TestStatusReloadAndLiveDiff(t *testing.T) {
	g, file := live(t)
	admin := g.AdminAddr()
	if code, _, stderr := run(t, "", "status", "--admin", admin); code != 4 || !strings.Contains(stderr, "wants its token") {
		t.Errorf("without a token: exit code %d, want 4; %s", code, stderr)
	}
	token := filepath.Join(t.TempDir(), "token")
	write(t, token, "a-token-of-the-tests\n")
	ask := func(args ...string) (int, string, string) {
		return run(t, "", append(args, "--admin", admin, "--token-file", token)...)
	}
	for range 4 {
		post(t, g, "/put", "acme")
	}
	until(t, "tenant_limit 1", func() string { // counted once it was answered
		_, stdout, _ := ask("status")
		return stdout
	})
	code, stdout, stderr := ask("status")
	// The signal has not been told yet, so the gateway may not be ready.
	if code > 1 || !strings.Contains(stdout, "tenant_limit 1") || !strings.Contains(stdout, "4 received") || !strings.Contains(stdout, "queue      work: wait not known of 1m40s; admits high 100%, low 100%") {
		t.Errorf("status: exit code %d\n%s%s", code, stdout, stderr)
	}
	if code, stdout, _ := ask("status", "--format", "json"); code > 1 || !json.Valid([]byte(stdout)) || !strings.Contains(stdout, `"sections"`) {
		t.Errorf("status as JSON: exit code %d\n%s", code, stdout)
	}
	if code, stdout, stderr := ask("diff", file, "--live"); code != 0 || !strings.Contains(stdout, "the same") {
		t.Errorf("diff with what runs: exit code %d\n%s%s", code, stdout, stderr)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, strings.Replace(string(text), "burst: 3", "burst: 30", 1))
	if code, stdout, _ := ask("diff", file, "--live"); code != 1 || stdout != "tenants.limit.burst: 3 -> 30\n" {
		t.Errorf("diff with what ran before: exit code %d, want 1\n%s", code, stdout)
	}
	if code, stdout, _ := ask("diff", file, "--live", "--format", "json"); code != 1 || !json.Valid([]byte(stdout)) || !strings.Contains(stdout, `"path": "tenants.limit.burst"`) {
		t.Errorf("diff as JSON: exit code %d, want 1\n%s", code, stdout)
	}
	write(t, file, "# in other words\n"+strings.Replace(string(text), "a-token-of-the-tests", "a-token-of-other-tests", 1))
	if code, stdout, stderr := ask("diff", file, "--live"); code != 0 || !strings.Contains(stdout, "in other words") || strings.Contains(stdout+stderr, "a-token") {
		t.Errorf("diff with the same in other words, and another token: exit code %d, want 0\n%s%s", code, stdout, stderr)
	}
	write(t, file, strings.Replace(string(text), "burst: 3", "burst: 30", 1))
	if code, stdout, stderr := ask("reload"); code != 0 || !strings.Contains(stdout, "changed: tenants.limit.burst") {
		t.Errorf("reload: exit code %d\n%s%s", code, stdout, stderr)
	}
	write(t, file, strings.Replace(string(text), "burst: 3", "burst: lots", 1))
	if code, _, stderr := ask("reload"); code != 1 || !strings.Contains(stderr, "live.yaml:5:") || !strings.Contains(stderr, "still is") {
		t.Errorf("reload of a wrong file: exit code %d, want 1\n%s", code, stderr)
	}
	if code, stdout, _ := ask("status"); code != 1 || !strings.Contains(stdout, "THE LAST RELOAD FAILED") {
		t.Errorf("status after it: exit code %d, want 1\n%s", code, stdout)
	}
}
