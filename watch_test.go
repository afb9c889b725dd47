package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"sluice/bench/load"
	"sluice/bench/origin"
	"sluice/internal/testcert"
	"sluice/internal/testservice"
)

// Whatever the shipped dashboard asks a real Prometheus that scrapes a real,
// overloaded gateway, it gets an answer; and the shipped rules work on what is
// there, and tell what is wrong with this gateway.
func TestWatchedByPrometheus(t *testing.T) {
	o, err := origin.Start(origin.Options{
		Seed: 1, Workers: 10, Work: origin.Rate(60, 10),
		Faults: origin.Faults{LostShare: 0.03, ErrorShare: 0.03},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.Close() })
	p, file := start(t, watchedConfig(t, o.URL()))

	gen, err := load.New(watchedLoad("http://" + p.client))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	loading := make(chan error, 1)
	go func() { loading <- gen.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-loading
	})
	server := testservice.StartPrometheus(t, p.admin, "deploy/prometheus/alerts.yaml")

	// A reload that works and one that does not.
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	reload := func(rest, told string) {
		write(t, file, string(text)+rest)
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		p.until("the gateway says: "+told, func() bool { return strings.Contains(p.log.String(), told) })
	}
	reload("unmatched: refuse\n", "msg=reloaded")
	reload("nonsense: true\n", "nonsense")

	p.patience = time.Minute
	unanswered := dashboardQueries(t)
	if len(unanswered) < 70 {
		t.Errorf("the dashboard has only %d queries", len(unanswered))
	}
	for name := range unanswered {
		if strings.HasPrefix(name, "Candidate policy") { // there is none here
			delete(unanswered, name)
		}
	}
	for name, expr := range ruleMetrics(t) {
		unanswered[name] = expr
	}
	complain := time.Now().Add(45 * time.Second)
	p.until("every query is answered", func() bool {
		for name, expr := range unanswered {
			if ask(t, server.URL, name, expr) {
				delete(unanswered, name)
			} else if time.Now().After(complain) {
				t.Fatalf("%d queries come back empty; %s:\n%s", len(unanswered), name, expr)
			}
		}
		return len(unanswered) == 0
	})
	checkRules(t, p, server.URL)
}

// watchedConfig is a policy in which something happens in every part of the
// gateway.
func watchedConfig(t *testing.T, originURL string) string {
	cert, key := testcert.Files(t, testcert.SelfSigned(t, x509.Certificate{}))
	return `version: 1
listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0}
origin: {url: ` + originURL + `, max_in_flight: 50, tls: {cert: ` + cert + `, key: ` + key + `}}
reload: {watch: 20ms}
shutdown: {drain: 0s}
decision_log: {output: ` + filepath.Join(t.TempDir(), "decisions.jsonl") + `}
tenants: {from: [{header: X-Tenant-Id}], limit: {rate: 40/s, burst: 40}}
classes:
  - {name: critical, share: 50%, max_wait: 500ms}
  - {name: standard, share: 40%, max_wait: 100ms}
  - {name: bulk, share: 10%}
queues:
  work:
    max_useful_age: 8s
    signal: {every: 200ms, http: {url: ` + originURL + `/_origin/signal, age: /oldest_age_seconds, depth: /depth, done: /completed, sampled_at: /sampled_at}}
    shed:
      bulk: {from: 5%, full: 20%, action: defer}
      standard: {from: 20%, full: 50%}
      critical: {from: 90%, full: 100%, min_admit: 5%}
  dark: # nobody tells of it
    max_useful_age: 8s
    signal: {every: 200ms, on_loss: open, http: {url: "http://127.0.0.1:1/queue", age: /age}}
routes:
  - {id: order, match: {method: POST, path: /v1/orders}, class: critical, queue: work, idempotency: {key: optional}}
  - {id: invoice, match: {method: POST, path: /v1/invoices}, class: standard, queue: work}
  - {id: campaign, match: {method: POST, path: /v1/campaigns}, class: bulk, queue: work}
  - {id: trial, match: {method: POST, path: /v1/trials}, class: bulk, queue: dark, mode: shadow, limit: {rate: 1/s, burst: 1}}
`
}

// watchedLoad is twice what the workers do, as in the demo, and some of it with
// keys.
func watchedLoad(target string) load.Options {
	shops := load.Tenants{Count: 4, Prefix: "shop-", Skew: 1}
	return load.Options{
		Target: target, Seed: 1,
		Stages: []load.Stage{{Name: "all", From: 120, To: 120}},
		Classes: []load.Class{
			{Name: "critical", Share: 3, Path: "/v1/orders", OnRefusal: load.Obey, Tenants: shops, Keys: load.Keys{Use: true, Repeat: 0.2, Conflict: 0.05}},
			{Name: "standard", Share: 6, Path: "/v1/invoices", OnRefusal: load.Obey, MaxAttempts: 2, Tenants: load.Tenants{Count: 4, Prefix: "shop-", Heavy: "hungry", HeavyShare: 0.8}},
			{Name: "bulk", Share: 2, Path: "/v1/campaigns", OnRefusal: load.Obey, Tenants: shops},
			{Name: "trial", Share: 1, Path: "/v1/trials", Tenants: shops},
		},
	}
}

// chosen is what a reader of the dashboard has chosen.
var chosen = strings.NewReplacer(
	"$job", ".*", "$instance", ".*", "$queue", ".*",
	"$__rate_interval", "4s", "$__range", "10s", "$__interval", "1s",
)

// dashboardQueries are all that the dashboard asks, by row, panel and letter.
func dashboardQueries(t *testing.T) map[string]string {
	t.Helper()
	type shown struct {
		Type, Title string
		Targets     []struct{ RefID, Expr string }
		Panels      []json.RawMessage
	}
	var d struct {
		Panels      []json.RawMessage
		Annotations struct {
			List []struct {
				Name, Expr string
				Target     struct{ Expr string }
			}
		}
		Templating struct {
			List []struct{ Type, Name, Definition string }
		}
	}
	text, err := os.ReadFile("deploy/grafana/sluice.json")
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	var collect func(row string, panels []json.RawMessage)
	collect = func(row string, panels []json.RawMessage) {
		for _, raw := range panels {
			var p shown
			if err := json.Unmarshal(raw, &p); err != nil {
				t.Fatal(err)
			}
			if p.Type == "row" {
				row = p.Title
				collect(row, p.Panels)
			}
			for _, q := range p.Targets {
				all[row+" / "+p.Title+" / "+q.RefID] = chosen.Replace(q.Expr)
			}
		}
	}
	collect("", d.Panels)
	for _, a := range d.Annotations.List {
		if a.Expr != a.Target.Expr {
			t.Errorf("annotation %s: asks for two things", a.Name)
		}
		if a.Expr != "" {
			all["annotation / "+a.Name] = chosen.Replace(a.Expr)
		}
	}
	for _, v := range d.Templating.List {
		if m := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`).FindStringSubmatch(v.Definition); m != nil {
			all["variable / "+v.Name] = "group by (" + m[2] + ") (" + chosen.Replace(m[1]) + ")"
		} else if v.Type == "query" {
			t.Errorf("variable %s: %s is not understood", v.Name, v.Definition)
		}
	}
	for name, expr := range all {
		if strings.Contains(expr, "$") {
			t.Errorf("%s: a variable is not replaced: %s", name, expr)
		}
	}
	return all
}

type ruleGroups struct {
	Groups []struct {
		Rules []struct{ Alert, Record, Expr string }
	}
}

// ruleMetrics ask for each metric that the rules speak of.
func ruleMetrics(t *testing.T) map[string]string {
	t.Helper()
	var f ruleGroups
	text, err := os.ReadFile("deploy/prometheus/alerts.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &f)
	}
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, g := range f.Groups {
		for _, r := range g.Rules {
			for _, name := range regexp.MustCompile(`\bsluice[_:][a-z0-9_:]+`).FindAllString(r.Expr, -1) {
				all["rules / "+name] = name
			}
		}
	}
	return all
}

// ask reports whether a query is answered with a number.
func ask(t *testing.T, server, name, expr string) bool {
	t.Helper()
	res, err := http.PostForm(server+"/api/v1/query", url.Values{"query": {expr}})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if answer.Status != "success" {
		t.Fatalf("%s: %s\n%s", name, answer.Error, expr)
	}
	return slices.ContainsFunc(answer.Data.Result, func(r struct{ Value [2]any }) bool {
		v, err := strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64)
		return err == nil && v == v
	})
}

// checkRules waits until the rules have been evaluated without an error, and the
// alerts tell of the signal that is lost and of the file that is wrong.
func checkRules(t *testing.T, p *process, server string) {
	t.Helper()
	wanted := []string{"SluiceReloadFailed", "SluiceSignalLost"}
	p.until("the rules tell what is wrong", func() bool {
		var answer struct {
			Data struct {
				Groups []struct {
					Rules []struct{ Name, State, Health, LastError string }
				}
			}
		}
		getJSON(t, server+"/api/v1/rules", &answer)
		seen, told := 0, map[string]bool{}
		for _, g := range answer.Data.Groups {
			for _, r := range g.Rules {
				if r.Health == "err" {
					t.Fatalf("%s: %s", r.Name, r.LastError)
				}
				if r.Health == "ok" {
					seen++
				}
				told[r.Name] = told[r.Name] || r.State == "pending" || r.State == "firing"
			}
		}
		return seen >= 20 && !slices.ContainsFunc(wanted, func(name string) bool { return !told[name] })
	})
}
