package admin

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
)

var update = flag.Bool("update", false, "write generated files instead of comparing them")

const docFile = "../docs/metrics.md"

// The metrics page is what the catalogue says. Renew it with
// go test ./admin -run TestMetricsPage -update
func TestMetricsPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Metrics\n\nServed at `/metrics` on the admin listener. This page, the [dashboard](../deploy/grafana/sluice.json) and the\n[alerts](../deploy/prometheus/alerts.yaml) are made from the catalogue in `admin/catalogue.go`. Counts of what never\nhappened are left out. Go runtime (`go_*`), process (`process_*`) and scrape (`promhttp_*`) metrics come on top.\n\n| name | type | unit | labels | meaning | watch it for |\n|---|---|---|---|---|---|\n")
	for _, m := range Catalogue() {
		labels := "–"
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "`, `") + "`"
		}
		unit := m.Unit
		if unit == "" {
			unit = "–"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", m.Name, m.Kind, unit, labels, m.Help, m.Use)
	}
	if *update {
		if err := os.WriteFile(docFile, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if page, err := os.ReadFile(docFile); err != nil || string(page) != b.String() {
		t.Errorf("%s is not what the catalogue says (%v); renew it with: go test ./admin -run TestMetricsPage -update", docFile, err)
	}
}

// Emitted equals documented: every metric of the catalogue appears, with its
// type and labels, and nothing else does.
func TestEmittedIsDocumented(t *testing.T) {
	log := NewDecisionLog(io.Discard, LogOptions{})
	t.Cleanup(func() { log.Close(context.Background()) })
	m := NewMetrics(MetricsOptions{Log: log})
	rng := seeded(t)
	p := testPolicy(3)
	m.SetPolicy(p)
	m.ConfigLoaded(ReloadRecord{At: epoch, Trigger: "start", Hash: "cafe"})
	for range 5000 {
		m.Begin()
		m.Observe(randomEvent(rng, p, 50))
	}
	// What sources emit is theirs to test; here it is that all of it can be.
	m.AddSource(func(emit func(string, float64, ...string)) {
		for _, info := range Catalogue()[firstOfSources:] {
			emit(info.Name, 1, make([]string, len(info.Labels))...)
		}
	})
	g := gather(t, m)
	for _, info := range Catalogue() {
		f := g[info.Name]
		if f == nil {
			t.Errorf("%s is documented and not emitted", info.Name)
			continue
		}
		kinds := map[dto.MetricType]Kind{dto.MetricType_COUNTER: Counter, dto.MetricType_GAUGE: Gauge, dto.MetricType_HISTOGRAM: Histogram}
		if kinds[f.GetType()] != info.Kind || f.GetHelp() != info.Help {
			t.Errorf("%s is a %v with help %q, documented as %s, %q", info.Name, f.GetType(), f.GetHelp(), info.Kind, info.Help)
		}
		for _, s := range f.Metric {
			var names []string
			for _, l := range s.Label {
				names = append(names, l.GetName())
			}
			if want := slices.Sorted(slices.Values(info.Labels)); !slices.Equal(names, want) {
				t.Errorf("%s has labels %v, documented are %v", info.Name, names, want)
			}
		}
		delete(g, info.Name)
	}
	for name := range g {
		t.Errorf("%s is emitted and not documented", name)
	}
}

// Names follow the conventions that dashboards and alerts rely on.
func TestCatalogueNames(t *testing.T) {
	for _, m := range Catalogue() {
		if !strings.HasPrefix(m.Name, "sluice_") || m.Help == "" || m.Use == "" {
			t.Errorf("%s: prefix, help or use missing", m.Name)
		}
		if m.Kind == Counter != strings.HasSuffix(m.Name, "_total") {
			t.Errorf("%s: counters, and only they, end in _total", m.Name)
		}
		if m.Unit != "" && !strings.HasSuffix(strings.TrimSuffix(m.Name, "_total"), "_"+m.Unit) {
			t.Errorf("%s: the name does not say its unit, %s", m.Name, m.Unit)
		}
	}
}

// What other parts emit appears, and a name nobody described fails the scrape
// of that metric only.
func TestSource(t *testing.T) {
	m := NewMetrics(MetricsOptions{})
	m.AddSource(func(emit func(string, float64, ...string)) {
		emit("sluice_config_reloads_total", 3, "signal", "ok")
	})
	if n := gather(t, m).sum("sluice_config_reloads_total", "trigger", "signal"); n != 3 {
		t.Errorf("the source's value is %v, want 3", n)
	}
}
