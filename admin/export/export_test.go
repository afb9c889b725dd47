package export

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"sluice/admin"
)

var update = flag.Bool("update", false, "write what is shipped instead of comparing it")

const (
	shippedDashboard = "../../deploy/grafana/sluice.json"
	shippedAlerts    = "../../deploy/prometheus/alerts.yaml"
	alertTests       = "../../deploy/prometheus/alerts_test.yaml"
	runbooks         = "../../docs/runbooks"
)

// What is shipped is what is made. Renew it with
// go test ./admin/export -run TestShipped -update
func TestShipped(t *testing.T) {
	for file, make := range map[string]func(Options) ([]byte, error){shippedDashboard: Dashboard, shippedAlerts: Alerts} {
		made, err := make(Options{})
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, made, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if shipped, err := os.ReadFile(file); err != nil || !bytes.Equal(shipped, made) {
			t.Errorf("%s is not what is made (%v); renew it with: go test ./admin/export -run TestShipped -update", file, err)
		}
	}
}

// promtool runs Prometheus' own checker.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatalf("%v; install it (Debian, Ubuntu: apt-get install prometheus)", err)
	}
	if out, err := exec.Command(tool, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// The rules are valid, and each alert fires when it should and stays silent when
// it should not, as alerts_test.yaml tells.
func TestRules(t *testing.T) {
	promtool(t, "check", "rules", "--lint=all", "--lint-fatal", shippedAlerts)
	promtool(t, "test", "rules", alertTests)
}

// Rules with other objectives are valid, too.
func TestRulesOfOtherObjectives(t *testing.T) {
	for _, o := range []Options{{LowestObjective, LowestObjective, "https://example.com/runbooks/"}, {HighestObjective, 0.9995, ""}} {
		text, err := Alerts(o)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "alerts.yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		promtool(t, "check", "rules", "--lint=all", "--lint-fatal", file)
		if o.Runbooks != "" && !bytes.Contains(text, []byte(`"https://example.com/runbooks/SluiceSignalLost.md"`)) {
			t.Error("alerts do not point where the runbooks are")
		}
	}
	for _, o := range []Options{{Acceptance: 0.5}, {Completion: 1}, {Acceptance: -1}, {Completion: 99.9}} {
		if _, err := Alerts(o); err == nil {
			t.Errorf("objectives %+v are taken", o)
		}
		if _, err := Dashboard(o); err == nil {
			t.Errorf("objectives %+v are taken for the dashboard", o)
		}
	}
}

type ruleFile struct {
	Groups []struct {
		Rules []struct {
			Alert, Record, Expr string
			Labels, Annotations map[string]string
		}
	}
}

func shippedRules(t *testing.T) (f ruleFile) {
	t.Helper()
	text, err := os.ReadFile(shippedAlerts)
	if err == nil {
		err = yaml.Unmarshal(text, &f)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Rules speak of metrics that exist, and alerts say what they mean and where
// that is explained. Each alert has a case in which it fires and one in which it
// does not.
func TestAlertsAreComplete(t *testing.T) {
	var tests struct {
		Tests []struct {
			Rules []struct {
				Alertname string
				Exp       []any `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	text, err := os.ReadFile(alertTests)
	if err == nil {
		err = yaml.Unmarshal(text, &tests)
	}
	if err != nil {
		t.Fatal(err)
	}
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, c := range tests.Tests {
		for _, r := range c.Rules {
			fires[r.Alertname] = fires[r.Alertname] || len(r.Exp) > 0
			silent[r.Alertname] = silent[r.Alertname] || len(r.Exp) == 0
		}
	}
	recorded := map[string]bool{}
	pages := map[string]bool{}
	for _, g := range shippedRules(t).Groups {
		for _, r := range g.Rules {
			if _, unknown := metricsOf(r.Expr); len(unknown) > 0 {
				t.Errorf("%s%s: %v are not in the catalogue", r.Alert, r.Record, unknown)
			}
			for _, name := range regexp.MustCompile(`sluice:[a-z0-9_:]+`).FindAllString(r.Expr, -1) {
				if !recorded[name] {
					t.Errorf("%s: %s is not recorded before", r.Alert, name)
				}
			}
			if r.Record != "" {
				recorded[r.Record] = true
				continue
			}
			pages[r.Alert+".md"] = true
			if s := r.Labels["severity"]; s != page && s != ticket {
				t.Errorf("%s: severity %q", r.Alert, s)
			}
			if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || r.Annotations["runbook_url"] != "docs/runbooks/"+r.Alert+".md" {
				t.Errorf("%s: annotations %q", r.Alert, r.Annotations)
			}
			if !fires[r.Alert] || !silent[r.Alert] {
				t.Errorf("%s: tested to fire: %v, to be silent: %v", r.Alert, fires[r.Alert], silent[r.Alert])
			}
		}
	}
	entries, err := os.ReadDir(runbooks)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "README.md" && !pages[e.Name()] {
			t.Errorf("%s/%s is about no alert", runbooks, e.Name())
		}
		delete(pages, e.Name())
	}
	for name := range pages {
		t.Errorf("%s/%s is missing", runbooks, name)
	}
}

// Every metric that belongs to a row is shown there, nothing is shown that is
// not emitted, and every panel says what it is for.
func TestPanels(t *testing.T) {
	o, _ := Options{}.withDefaults()
	shown := map[string][]admin.Row{}
	titles := map[string]bool{}
	for _, p := range panels(o) {
		key := fmt.Sprint(p.Row, "/", p.Title)
		if titles[key] {
			t.Errorf("%s: twice", key)
		}
		titles[key] = true
		if p.Shape == words {
			continue
		}
		if p.About == "" || len(p.Queries) == 0 {
			t.Errorf("%s: says nothing of itself, or asks nothing", key)
		}
		metrics, unknown := metricsOf(p.exprs()...)
		if len(unknown) > 0 {
			t.Errorf("%s: %v are not in the catalogue", key, unknown)
		}
		for _, m := range metrics {
			shown[m.Name] = append(shown[m.Name], p.Row)
		}
		for _, q := range p.Queries {
			if strings.Count(q.Expr, "{@") != strings.Count(q.Expr, "{") {
				t.Errorf("%s: not everything is narrowed to what is chosen: %s", key, q.Expr)
			}
			if (q.Legend == "") != (p.Shape == rowsOf) {
				t.Errorf("%s: legend %q", key, q.Legend)
			}
		}
	}
	for _, m := range admin.Catalogue() {
		if m.Row != "" && !slices.Contains(shown[m.Name], m.Row) {
			t.Errorf("%s belongs to %s, and is shown in %v", m.Name, m.Row, shown[m.Name])
		}
	}
}

// What Grafana relies on: ids are unique, nothing overlaps, every data source is
// the one chosen, and closed rows hold their panels.
func TestDashboardIsSound(t *testing.T) {
	text, err := Dashboard(Options{Runbooks: "https://example.com/r"})
	if err != nil {
		t.Fatal(err)
	}
	type place struct{ X, Y, W, H int }
	type shownPanel struct {
		ID         int
		Type       string
		Collapsed  bool
		GridPos    place
		Datasource struct{ UID string }
		Targets    []struct{ Datasource struct{ UID string } }
		Panels     []json.RawMessage
	}
	var d struct {
		Panels     []json.RawMessage
		Templating struct{ List []struct{ Name, Query any } }
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	ids := map[int]bool{}
	var check func(raw []json.RawMessage, nested bool)
	check = func(raw []json.RawMessage, nested bool) {
		taken := map[[2]int]int{}
		for _, r := range raw {
			var p shownPanel
			if err := json.Unmarshal(r, &p); err != nil {
				t.Fatal(err)
			}
			if ids[p.ID] || p.ID == 0 {
				t.Errorf("panel %d: the id is taken", p.ID)
			}
			ids[p.ID] = true
			g := p.GridPos
			if g.X < 0 || g.X+g.W > 24 || g.W < 1 || g.H < 1 {
				t.Errorf("panel %d: place %+v", p.ID, g)
			}
			for x := g.X; x < g.X+g.W; x++ {
				for y := g.Y; y < g.Y+g.H; y++ {
					if other := taken[[2]int{x, y}]; other != 0 {
						t.Fatalf("panels %d and %d overlap", other, p.ID)
					}
					taken[[2]int{x, y}] = p.ID
				}
			}
			if p.Type == "row" {
				if nested || p.Collapsed == (len(p.Panels) == 0) {
					t.Errorf("row %d: collapsed %v, holds %d panels", p.ID, p.Collapsed, len(p.Panels))
				}
				check(p.Panels, true)
				continue
			}
			if p.Type != "text" && p.Datasource.UID != "${datasource}" {
				t.Errorf("panel %d: asks %q", p.ID, p.Datasource.UID)
			}
			for _, q := range p.Targets {
				if q.Datasource.UID != "${datasource}" {
					t.Errorf("panel %d: a query asks %q", p.ID, q.Datasource.UID)
				}
			}
		}
	}
	check(d.Panels, false)
	if len(ids) < 40 {
		t.Errorf("only %d panels", len(ids))
	}
	if last := d.Templating.List[len(d.Templating.List)-1]; last.Query != "https://example.com/r" {
		t.Errorf("the runbooks are at %v", last.Query)
	}
}
