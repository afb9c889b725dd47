package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sluice/config"
)

const draining = `version: 1
listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0, write: true}
origin: {url: ORIGIN}
shutdown: {drain: 50ms}
`

// Property 11 without the end: an operator's drain fails readiness at once, lets
// what is on its way finish, then refuses with the reason draining, and can be
// taken back. A stop cannot.
func TestAnOperatorsDrain(t *testing.T) {
	inside, goOn := make(chan struct{}), make(chan struct{})
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			inside <- struct{}{}
			<-goOn
		}
	}))
	defer origin.Close()
	cfg := load(t, strings.Replace(draining, "ORIGIN", origin.URL, 1))
	g, err := New(Options{Load: func() (*config.Config, error) { return cfg, nil }})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() { ended <- g.Run(ctx) }()

	get := func(url string) (int, string, string) {
		res, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var problem struct{ Reason, Detail string }
		_ = json.NewDecoder(res.Body).Decode(&problem)
		return res.StatusCode, problem.Reason + problem.Detail, res.Header.Get("Retry-After")
	}
	clients, admin := "http://"+g.Addr(), "http://"+g.AdminAddr()
	change := func(method string) int {
		req, _ := http.NewRequestWithContext(t.Context(), method, admin+"/drain", nil)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	slow := make(chan int)
	go func() {
		res, err := http.Get(clients + "/slow")
		if err != nil {
			slow <- 0
			return
		}
		res.Body.Close()
		slow <- res.StatusCode
	}()
	<-inside

	for range 2 {
		if status := change("POST"); status != 200 {
			t.Fatalf("draining: %d", status)
		}
	}
	if status, text, _ := get(admin + "/readyz"); status != 503 || !strings.Contains(text, "an operator asked for it") {
		t.Errorf("readyz while draining: %d %s", status, text)
	}
	refused := func() bool {
		status, text, retry := get(clients + "/")
		return status == 503 && strings.HasPrefix(text, "draining") && retry == "5"
	}
	for deadline := time.Now().Add(10 * time.Second); !refused(); {
		if time.Now().After(deadline) {
			t.Fatal("what comes is never refused")
		}
	}
	close(goOn)
	if status := <-slow; status != 200 {
		t.Errorf("what was on its way is answered with %d", status)
	}

	if status := change("DELETE"); status != 200 {
		t.Errorf("undoing it: %d", status)
	}
	if status, _, _ := get(admin + "/readyz"); status != 200 {
		t.Errorf("readyz after it was undone: %d", status)
	}
	if status, text, _ := get(clients + "/"); status != 200 {
		t.Errorf("a request after it was undone: %d %s", status, text)
	}
	change("POST")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := g.Drain(false); err == nil {
		t.Error("a stop was undone")
	}
}

// The mode tells at a glance whether anything is only tried out.
func TestMode(t *testing.T) {
	const route = "routes: [{id: a, match: {path: /a}, class: bulk%s}, {id: b, match: {path: /b}, class: bulk%s}]\n"
	for _, c := range []struct{ a, b, more, want string }{
		{"", "", "", "enforce"},
		{", mode: shadow", "", "", "partly shadow"},
		{"", ", limit: {rate: 1/s, burst: 1, mode: shadow}", "", "partly shadow"},
		{", mode: shadow", ", mode: shadow", "", "shadow"},
		{", mode: shadow", ", mode: shadow", "unmatched: refuse\n", "partly shadow"},
		{"", "", "tenants: {from: [{header: X-T}], limit: {rate: 1/s, burst: 1, mode: shadow}}\n", "partly shadow"},
	} {
		cfg := load(t, "version: 1\norigin: {url: http://127.0.0.1:1}\n"+c.more+fmt.Sprintf(route, c.a, c.b))
		if got := modeOfAll(cfg); got != c.want {
			t.Errorf("routes %q and %q, %q: %s, want %s", c.a, c.b, c.more, got, c.want)
		}
	}
}
