package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sluice/admin"
)

// object is a JSON object. Its keys are written in order, so the same tables
// always make the same file.
type object = map[string]any

// schemaVersion is that of Grafana 11. Later ones read it and bring it up to
// date by themselves; ours uses nothing that 10 does not know.
const schemaVersion = 39

// Dashboard returns a Grafana dashboard, to be imported or provisioned as it is.
func Dashboard(o Options) ([]byte, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	d := object{
		"uid": "sluice", "title": "Sluice", "tags": []string{"sluice"},
		"description":   "What the gateway lets in and what it refuses, for whom and why; how the queues, the origin and the gateway itself are doing.",
		"schemaVersion": schemaVersion, "version": 1, "editable": true, "fiscalYearStartMonth": 0,
		"graphTooltip": 1, // one crosshair through all panels
		"refresh":      "30s", "timezone": "browser",
		"time":        object{"from": "now-1h", "to": "now"},
		"timepicker":  object{},
		"templating":  object{"list": variables(o)},
		"annotations": object{"list": annotations()},
		"links": []object{{
			"type": "link", "title": "Runbooks", "url": "${runbooks}", "icon": "doc", "tooltip": "What each alert means and what to do",
			"asDropdown": false, "includeVars": false, "keepTime": false, "targetBlank": true, "tags": []string{},
		}},
		"panels": layOut(panels(o)),
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err = enc.Encode(d)
	return b.Bytes(), err
}

// source is whichever Prometheus is chosen on the dashboard.
func source() object { return object{"type": "prometheus", "uid": "${datasource}"} }

// selector narrows a metric to what is chosen on the dashboard. In the table of
// panels it is written @.
const selector = `job=~"$job", instance=~"$instance"`

// narrowed puts the selector where a query has @.
func narrowed(expr string) string { return strings.ReplaceAll(expr, "@", selector) }

func variables(o Options) []object {
	choice := func(name, label, about, query string) object {
		return object{
			"type": "query", "name": name, "label": label, "description": about, "datasource": source(),
			"query":      object{"query": query, "refId": name},
			"definition": query, "refresh": 2, "sort": 1,
			"includeAll": true, "allValue": ".*", "multi": true, "current": object{"selected": true, "text": []string{"All"}, "value": []string{"$__all"}},
			"hide": 0, "options": []object{}, "regex": "", "skipUrlSync": false,
		}
	}
	return []object{
		{
			"type": "datasource", "name": "datasource", "label": "Data source", "description": "The Prometheus that scrapes the gateways",
			"query": "prometheus", "refresh": 1, "current": object{}, "hide": 0, "includeAll": false, "multi": false,
			"options": []object{}, "regex": "", "skipUrlSync": false,
		},
		choice("job", "Job", "Gateways in front of one API", "label_values(sluice_build_info, job)"),
		choice("instance", "Instance", "Single gateways", `label_values(sluice_build_info{job=~"$job"}, instance)`),
		choice("queue", "Queue", "Queues behind the origin", `label_values(sluice_queue_max_useful_age_seconds{job=~"$job"}, queue)`),
		{
			"type": "textbox", "name": "runbooks", "label": "Runbooks", "description": "Where docs/runbooks is to be read",
			"query": o.Runbooks, "current": object{"selected": true, "text": o.Runbooks, "value": o.Runbooks}, "hide": 0,
			"options": []object{{"selected": true, "text": o.Runbooks, "value": o.Runbooks}}, "skipUrlSync": false,
		},
	}
}

// annotations mark in all panels what explains a change in them.
func annotations() []object {
	mark := func(name, color, expr, title, text string, valueIsTime bool) object {
		return object{
			"name": name, "datasource": source(), "enable": true, "hide": false, "iconColor": color,
			"expr": narrowed(expr), "titleFormat": title, "textFormat": text, "tagKeys": "", "step": "30s",
			"useValueForTime": valueIsTime,
			"target":          object{"refId": "Anno", "expr": narrowed(expr), "interval": "30s", "range": true, "instant": false},
		}
	}
	return []object{
		{
			"builtIn": 1, "name": "Annotations & Alerts", "type": "dashboard", "enable": true, "hide": true,
			"datasource": object{"type": "grafana", "uid": "-- Grafana --"}, "iconColor": "rgba(0, 211, 255, 1)",
		},
		mark("Policy in force", "blue", `sluice_config_last_reload_success_timestamp_seconds{@} * 1000`, "Policy in force", "{{instance}}: loaded, at a start or by a reload", true),
		mark("Reload failed", "orange", `sluice_config_last_reload_successful{@} == 0`, "Reload failed", "{{instance}}: the file is wrong, the policy before it still runs", false),
		mark("Signal lost", "red", `sluice_signal_lost{@} == 1`, "Signal lost", "{{queue}}: no reading of {{signal}} is believed", false),
	}
}

// layOut places panels under their rows, from left to right. Rows that one looks
// at only when there is a reason are closed, and ask Prometheus nothing.
func layOut(all []panel) (out []object) {
	y, id := 0, 0
	for _, r := range rows {
		id++
		row := object{
			"type": "row", "id": id, "title": r.title, "collapsed": r.closed,
			"gridPos": object{"h": 1, "w": 24, "x": 0, "y": y}, "panels": []object{},
		}
		y++
		var inside []object
		x, height := 0, 0
		for _, p := range all {
			if p.Row != r.row {
				continue
			}
			w, h := p.size()
			if x+w > 24 {
				x, y, height = 0, y+height, 0
			}
			id++
			inside = append(inside, p.json(id, object{"h": h, "w": w, "x": x, "y": y}))
			x, height = x+w, max(height, h)
		}
		y += height
		switch {
		case len(inside) == 0:
			y--
			continue
		case r.closed:
			row["panels"] = inside
			out = append(out, row)
		default:
			out = append(append(out, row), inside...)
		}
	}
	return out
}

var metricName = regexp.MustCompile(`\bsluice_[a-z0-9_]+`)

// metricsOf lists the catalogue's metrics that expressions speak of, by name.
// What is not in the catalogue comes back as unknown.
func metricsOf(exprs ...string) (found []admin.MetricInfo, unknown []string) {
	for _, expr := range exprs {
		for _, name := range metricName.FindAllString(expr, -1) {
			m, ok := described(name)
			switch {
			case !ok:
				unknown = append(unknown, name)
			case !slices.ContainsFunc(found, func(f admin.MetricInfo) bool { return f.Name == m.Name }):
				found = append(found, m)
			}
		}
	}
	return found, unknown
}

// described finds the metric that a series belongs to.
func described(series string) (admin.MetricInfo, bool) {
	for _, m := range admin.Catalogue() {
		if m.Name == series {
			return m, true
		}
		if m.Kind == admin.Histogram && slices.Contains([]string{m.Name + "_bucket", m.Name + "_count", m.Name + "_sum"}, series) {
			return m, true
		}
	}
	return admin.MetricInfo{}, false
}

// describe is what the (i) of a panel says: what it is for, and what the metrics
// behind it mean.
func (p *panel) describe() string {
	var b strings.Builder
	b.WriteString(p.About)
	metrics, _ := metricsOf(p.exprs()...)
	for _, m := range metrics {
		fmt.Fprintf(&b, "\n\n`%s`: %s", m.Name, m.Help)
	}
	return strings.TrimSpace(b.String())
}
