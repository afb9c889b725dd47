package report

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"sluice/bench/result"
)

var (
	//go:embed assets/report.tmpl.html
	page string
	//go:embed assets/report.css
	styles string
	//go:embed assets/report.js
	script string
	//go:embed assets/uplot/uPlot.iife.min.js
	plot string
	//go:embed assets/uplot/uPlot.min.css
	plotStyles string
	//go:embed assets/uplot/LICENSE
	plotLicence string
)

// plotData is what the charts are drawn from.
type plotData struct {
	*result.Result
	Seconds    []result.Second `json:"intervals"`
	HeatBounds []float64       `json:"heat_bounds"`
}

// view is what the page shows.
type view struct {
	R                   *result.Result
	Story               story
	Verdict             string
	Styles              template.CSS
	Plot, Script, Data  template.JS
	Licence, Provenance string
	When                string
	Tenants             []result.Tenant
	FlowText, AgeText   string
	Watched             bool // what the gateway holds is known
}

var funcs = template.FuncMap{
	"n": number, "count": countOf, "pct": percent, "time": seconds, "maybe": maybe, "upper": strings.ToUpper,
	"intime": func(n result.Numbers) string {
		if n.Accepted == 0 {
			return "–"
		}
		return percent(float64(n.InTime) / float64(n.Accepted))
	},
	"rate": func(s result.Stage) string {
		if s.From == s.To {
			return fmt.Sprintf("%.0f/s", s.From)
		}
		return fmt.Sprintf("%.0f to %.0f/s", s.From, s.To)
	},
	"share": func(part, whole int64) string {
		if whole == 0 {
			return "–"
		}
		return percent(float64(part) / float64(whole))
	},
	"perSecond": func(v float64) string { return fmt.Sprintf("%.1f/s", v) },
}

var pageTemplate = template.Must(template.New("report").Funcs(funcs).Parse(page))

// tenantsShown is how many tenants the page lists.
const tenantsShown = 10

// HTML is the run as one page that needs nothing else: no network, no other
// file.
func HTML(r *result.Result) ([]byte, error) {
	data, err := json.Marshal(plotData{r, r.Intervals, result.HeatBounds()})
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	v := view{
		R: r, Story: tell(r), Verdict: verdicts[r.Verdict],
		Styles: template.CSS(plotStyles + styles),
		Plot:   template.JS(plot), Script: template.JS(script), Data: template.JS(data),
		Licence: plotLicence, Provenance: provenance(r),
		When:    r.Started.UTC().Format(time.DateTime) + " UTC",
		Tenants: r.Tenants[:min(len(r.Tenants), tenantsShown)],
	}
	t := &r.Total
	v.FlowText = fmt.Sprintf("%s requests offered, %s let in, %.0f effects a second done in time.", number(t.Offered), percent(t.AdmittedShare), t.Goodput)
	var peak result.Stage
	for _, s := range r.Stages {
		if s.QueueAgeMax >= peak.QueueAgeMax {
			peak = s
		}
	}
	v.AgeText = fmt.Sprintf("It reached %s in stage %s.", seconds(peak.QueueAgeMax), peak.Name)
	if peak.QueueAgeMax == 0 {
		v.AgeText = "No work ever waited."
	}
	v.Watched = slices.ContainsFunc(r.Intervals, func(s result.Second) bool { return s.Held != nil })
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, v); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return b.Bytes(), nil
}
