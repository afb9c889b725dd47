package export

import (
	"strings"

	"sluice/admin"
)

// shape is how a panel shows its numbers.
type shape string

const (
	lines   shape = "timeseries" // the zero value of a panel's Shape means this
	number  shape = "stat"
	rowsOf  shape = "table"
	density shape = "heatmap"
	words   shape = "text"
)

// panel is one picture on the dashboard.
type panel struct {
	Row           admin.Row
	Title         string
	About         string // what it is for; the metrics' own words are added
	Shape         shape
	Width, Height int    // of 24 columns; 0: what suits the shape
	Unit          string // Grafana's; "": from the catalogue
	Queries       []query
	Stack         bool   // lines on top of each other, as parts of a whole
	Share         bool   // from 0 to 1
	Dashed        string // pattern of the names of lines that are limits
	Steps         []step // colours by value
	Meanings      []meaning
	Text          string // of words
	Columns       [][2]string
}

// query is one PromQL expression, with @ for what is chosen on the dashboard.
type query struct{ Expr, Legend string }

// step is the colour from a value on.
type step struct {
	from  float64
	color string
}

// meaning is what a number stands for.
type meaning struct{ value, text, color string }

func (p *panel) exprs() (all []string) {
	for _, q := range p.Queries {
		all = append(all, q.Expr)
	}
	return all
}

func (p *panel) size() (w, h int) {
	w, h = p.Width, p.Height
	if w == 0 {
		w = map[shape]int{number: 4, rowsOf: 12}[p.Shape]
	}
	if w == 0 {
		w = 8
	}
	if h == 0 {
		h = map[shape]int{number: 4}[p.Shape]
	}
	if h == 0 {
		h = 8
	}
	return w, h
}

// unit is Grafana's name for the unit of what is shown.
func (p *panel) unit() string {
	if p.Unit != "" {
		return p.Unit
	}
	if p.Share {
		return "percentunit"
	}
	metrics, _ := metricsOf(p.exprs()...)
	if len(metrics) == 0 {
		return "short"
	}
	switch m := metrics[0]; {
	case m.Unit == "seconds":
		return "s"
	case m.Unit == "bytes":
		return "bytes"
	case m.Kind == admin.Counter:
		return "reqps"
	}
	return "short"
}

func (p *panel) json(id int, place object) object {
	kind := p.Shape
	if kind == "" {
		kind = lines
	}
	o := object{"id": id, "type": string(kind), "title": p.Title, "description": p.describe(), "gridPos": place}
	if kind == words {
		o["options"] = object{"mode": "markdown", "content": p.Text, "code": object{"language": "plaintext", "showLineNumbers": false, "showMiniMap": false}}
		return o
	}
	o["datasource"] = source()
	var targets []object
	for i, q := range p.Queries {
		t := object{
			"refId": string(rune('A' + i)), "datasource": source(), "expr": narrowed(q.Expr), "legendFormat": q.Legend, "editorMode": "code",
			"range": kind != rowsOf, "instant": kind == rowsOf,
		}
		switch kind {
		case density:
			t["format"] = "heatmap"
		case rowsOf:
			t["format"] = "table"
		}
		targets = append(targets, t)
	}
	o["targets"] = targets

	defaults := object{"unit": p.unit(), "color": object{"mode": "palette-classic-by-name"}, "thresholds": p.thresholds(), "mappings": p.mappings()}
	if p.Share {
		defaults["min"], defaults["max"] = 0, 1
	} else if kind == lines {
		defaults["min"] = 0
	}
	config := object{"defaults": defaults, "overrides": []object{}}
	switch kind {
	case lines:
		defaults["custom"] = p.strokes()
		config["overrides"] = p.colors()
		o["options"] = object{
			"legend":  object{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{}},
			"tooltip": object{"mode": "multi", "sort": "desc"},
		}
	case number:
		defaults["color"] = object{"mode": "thresholds"}
		o["options"] = object{
			"reduceOptions": object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
			"colorMode":     "value", "graphMode": "area", "justifyMode": "auto", "orientation": "auto", "textMode": "auto", "wideLayout": true,
		}
	case rowsOf:
		defaults["custom"] = object{"align": "auto", "cellOptions": object{"type": "auto"}, "inspect": false}
		o["options"] = object{"showHeader": true, "cellHeight": "sm", "footer": object{"show": false, "reducer": []string{"sum"}, "countRows": false, "fields": ""}}
		o["transformations"] = p.columns()
	case density:
		defaults["custom"] = object{"hideFrom": object{"legend": false, "tooltip": false, "viz": false}, "scaleDistribution": object{"type": "linear"}}
		o["options"] = object{
			"calculate": false, "cellGap": 1, "showValue": "never",
			"color":        object{"mode": "scheme", "scheme": "Oranges", "steps": 64, "reverse": false, "exponent": 0.5, "fill": "dark-orange", "scale": "exponential"},
			"yAxis":        object{"unit": p.unit(), "axisPlacement": "left", "reverse": false},
			"rowsFrame":    object{"layout": "auto"},
			"tooltip":      object{"mode": "single", "showColorScale": false, "yHistogram": true},
			"legend":       object{"show": true},
			"exemplars":    object{"color": "rgba(255,0,255,0.7)"},
			"filterValues": object{"le": 1e-9},
		}
	}
	o["fieldConfig"] = config
	return o
}

// strokes are how lines are drawn.
func (p *panel) strokes() object {
	fill, stacking := 0, "none"
	if p.Stack {
		fill, stacking = 60, "normal"
	}
	limits := "off"
	if len(p.Steps) > 0 {
		limits = "dashed"
	}
	return object{
		"drawStyle": "line", "lineInterpolation": "linear", "lineWidth": 1, "fillOpacity": fill, "gradientMode": "none",
		"showPoints": "never", "pointSize": 5, "spanNulls": false, "insertNulls": false,
		"stacking":          object{"mode": stacking, "group": "A"},
		"thresholdsStyle":   object{"mode": limits},
		"scaleDistribution": object{"type": "linear"},
		"axisPlacement":     "auto", "axisLabel": "", "axisColorMode": "text", "axisCenteredZero": false, "axisBorderShow": false, "barAlignment": 0,
		"hideFrom": object{"legend": false, "tooltip": false, "viz": false},
	}
}

func (p *panel) thresholds() object {
	steps := []object{{"color": "green", "value": nil}}
	if len(p.Steps) == 0 || p.Shape == "" {
		steps = []object{{"color": "text", "value": nil}}
	}
	for i, s := range p.Steps {
		if i == 0 && s.from == first {
			steps = []object{{"color": s.color, "value": nil}}
			continue
		}
		steps = append(steps, object{"color": s.color, "value": s.from})
	}
	return object{"mode": "absolute", "steps": steps}
}

func (p *panel) mappings() []object {
	if len(p.Meanings) == 0 {
		return []object{}
	}
	options := object{}
	for i, m := range p.Meanings {
		options[m.value] = object{"text": m.text, "color": m.color, "index": i}
	}
	return []object{{"type": "value", "options": options}}
}

// colors gives what means the same everywhere the same colour everywhere.
func (p *panel) colors() (all []object) {
	all = []object{}
	for _, c := range fixed {
		if !p.shows(c[0]) {
			continue
		}
		all = append(all, object{
			"matcher":    object{"id": "byName", "options": c[0]},
			"properties": []object{{"id": "color", "value": object{"mode": "fixed", "fixedColor": c[1]}}},
		})
	}
	if p.Dashed != "" {
		all = append(all, object{
			"matcher": object{"id": "byRegexp", "options": p.Dashed},
			"properties": []object{
				{"id": "color", "value": object{"mode": "fixed", "fixedColor": "red"}},
				{"id": "custom.lineStyle", "value": object{"fill": "dash", "dash": []int{10, 10}}},
				{"id": "custom.fillOpacity", "value": 0},
			},
		})
	}
	return all
}

// shows reports whether a line may have that name: it is a legend itself, or a
// value of the label that the legend consists of.
func (p *panel) shows(name string) bool {
	for _, q := range p.Queries {
		if q.Legend == name {
			return true
		}
		for label, values := range labelled {
			if q.Legend == "{{"+label+"}}" && strings.Contains(" "+values+" ", " "+name+" ") {
				return true
			}
		}
	}
	return false
}

// columns joins the queries of a table and names its columns.
func (p *panel) columns() []object {
	rename, hide, order := object{}, object{"Time": true}, object{}
	for i := range p.Queries {
		hide["Value #"+string(rune('A'+i))] = true
	}
	for i, c := range p.Columns {
		rename[c[0]], order[c[0]] = c[1], i
		delete(hide, c[0])
	}
	all := []object{}
	if len(p.Queries) > 1 {
		all = append(all, object{"id": "merge", "options": object{}})
	}
	return append(all, object{"id": "organize", "options": object{"renameByName": rename, "excludeByName": hide, "indexByName": order}})
}
