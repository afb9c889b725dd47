package gateway

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/admin"
	"sluice/config"
)

func load(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func newGateway(t *testing.T, cfg *config.Config) *Gateway {
	t.Helper()
	load := func() (*config.Config, error) { return cfg, nil }
	g, err := New(Options{Load: load, Candidate: load})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.listener.Close()
		_ = g.admin.Shutdown(t.Context())
		_ = g.store.close(t.Context())
		g.current.Load().queues.close()
	})
	return g
}

const everything = `version: 1
listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0}
origin: {url: http://127.0.0.1:1, max_in_flight: 10}
queues:
  orders: {max_useful_age: 1m, signal: {http: {url: "http://127.0.0.1:1/queue", age: /age, depth: /depth}}}
routes:
  - {id: order, match: {method: POST, path: /orders}, class: critical, queue: orders, idempotency: {key: required}}
`

// Emitted equals documented, for what this package measures: every metric of
// the catalogue that comes from elsewhere than admin, and none besides.
func TestMeasuredIsDocumented(t *testing.T) {
	g := newGateway(t, load(t, everything))
	labels := map[string]int{}
	for _, m := range admin.OfSources() {
		labels[m.Name] = len(m.Labels)
	}
	seen := map[string]bool{}
	g.measure(func(name string, _ float64, values ...string) {
		if n, ok := labels[name]; !ok || n != len(values) {
			t.Errorf("%s with %d labels is not in the catalogue", name, len(values))
		}
		seen[name] = true
	})
	// A queue that has not been read yet tells nothing, and says so by absence.
	untold := []string{"sluice_queue_wait_seconds", "sluice_queue_age_seconds", "sluice_queue_depth",
		"sluice_signal_last_success_timestamp_seconds", "sluice_signal_samples_total",
		"sluice_certificate_expiry_timestamp_seconds"} // and who has no certificate tells of none
	for name := range labels {
		if !seen[name] && !slices.Contains(untold, name) {
			t.Errorf("%s is documented and not measured", name)
		}
	}
}

// What validates also starts: the good files of package config are prepared
// without an error.
func TestGoodConfigsCanBePrepared(t *testing.T) {
	files, err := filepath.Glob("../config/testdata/good/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%v, %d files", err, len(files))
	}
	for _, file := range append(files, "../config.yaml") {
		cfg, err := config.Loader{LookupEnv: func(string) (string, bool) { return "value", true }}.Load(file)
		if err != nil {
			continue // needs surroundings of its own
		}
		cfg.TLS, cfg.Origin.TLS, cfg.Admin.TLS = nil, nil, nil // their files do not exist
		p, err := prepare(cfg, nil)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		p.queues.close()
	}
}

// Property 10: a configuration that cannot be prepared changes nothing, though
// it is valid by itself.
func TestReloadThatCannotBePrepared(t *testing.T) {
	cfg := load(t, everything)
	g := newGateway(t, cfg)
	before := g.current.Load()
	g.opts.Load = func() (*config.Config, error) {
		return load(t, strings.Replace(everything, "origin: {url: http://127.0.0.1:1", "origin: {tls: {ca: /does/not/exist}, url: https://127.0.0.1:1", 1)), nil
	}
	report, err := g.Reload(t.Context(), TriggerSignal)
	if err == nil || !strings.Contains(err.Error(), "origin.tls.ca") {
		t.Fatalf("%+v, %v", report, err)
	}
	after := g.current.Load()
	if after.policy != before.policy || !strings.Contains(g.Status().Config.ReloadError, "origin.tls.ca") {
		t.Errorf("changed by a reload that failed: %+v", g.Status().Config)
	}
}

// The operator's listener serves what every part has to show.
func TestSections(t *testing.T) {
	g := newGateway(t, load(t, everything))
	res := httptest.NewRecorder()
	client := &http.Client{}
	got, err := client.Get("http://" + g.AdminAddr() + "/status")
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if _, err := res.Body.ReadFrom(got.Body); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"queues"`, `"signals"`, `"places"`, `"idempotency"`, `"connections"`, `"orders/http"`, `"health": "starting"`} {
		if !strings.Contains(res.Body.String(), want) {
			t.Errorf("/status lacks %s:\n%s", want, res.Body)
		}
	}
}
