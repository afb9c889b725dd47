package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// dashboard is a reader of the live stream: it knows what a page would show.
type dashboard struct {
	t  *testing.T
	mu sync.Mutex

	parts map[string]json.RawMessage
	sums  map[string]float64 // by series: its points, each times the second that it tells of
	last  int64              // the time of the latest point, ms
	ended chan struct{}
}

// openDashboard follows the stream until the test ends.
func openDashboard(t *testing.T, p *process) *dashboard {
	t.Helper()
	d := &dashboard{t: t, sums: map[string]float64{}, ended: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+p.admin+"/api/v1/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(d.ended)
		defer res.Body.Close()
		event := ""
		lines := bufio.NewScanner(res.Body)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "event":
				event = value
			case "data":
				d.take(event, []byte(value))
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-d.ended })
	return d
}

func (d *dashboard) take(event string, data []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var told struct {
		Parts map[string]json.RawMessage `json:"parts"`
		Point struct {
			T int64              `json:"t"`
			V map[string]float64 `json:"v"`
		} `json:"point"`
		History struct {
			Times []int64 `json:"times"`
		} `json:"history"`
	}
	if err := json.Unmarshal(data, &told); err != nil {
		d.t.Errorf("the stream says %.200s: %v", data, err)
		return
	}
	if event == "state" {
		d.parts = told.Parts
		if n := len(told.History.Times); n > 0 {
			d.last = told.History.Times[n-1]
		}
		return
	}
	maps.Copy(d.parts, told.Parts)
	since := 1000.0 // the first point tells of the first second
	if d.last > 0 {
		since = float64(told.Point.T - d.last)
	}
	for name, v := range told.Point.V {
		d.sums[name] += v * since / 1000
	}
	d.last = told.Point.T
}

type totals struct {
	Received uint64            `json:"received"`
	InFlight uint64            `json:"in_flight"`
	Verdicts map[string]uint64 `json:"verdicts"`
	Refused  map[string]uint64 `json:"refused"`
}

func (d *dashboard) totals() (t totals) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := json.Unmarshal(d.parts["totals"], &t); err != nil {
		d.t.Errorf("totals %s: %v", d.parts["totals"], err)
	}
	return t
}

var decisionsSeries = regexp.MustCompile(`(?m)^sluice_decisions_total\{.*mode="enforce",reason="([a-z_]+)".*verdict="([a-z]+)"\} (\d+)$`)

// agrees is property 15 on the dashboard: once all that was sent is decided, the
// page's totals, /metrics and the origin's ledger are the same numbers, and the
// charts add up to them.
func (d *dashboard) agrees(p *process, sent, recorded int64) {
	t := d.t
	t.Helper()
	p.until("the dashboard has caught up", func() bool {
		now := d.totals()
		return now.Received == uint64(sent) && now.InFlight == 0
	})
	text := get(t, "http://"+p.admin+"/metrics")
	measured := totals{Received: uint64(sent), Verdicts: map[string]uint64{}, Refused: map[string]uint64{}}
	for _, m := range decisionsSeries.FindAllStringSubmatch(text, -1) {
		n, _ := strconv.ParseUint(m[3], 10, 64)
		measured.Verdicts[m[2]] += n
		if m[2] == "refuse" {
			measured.Refused[m[1]] += n
		}
	}
	shown := d.totals()
	if !maps.Equal(positive(shown.Verdicts), positive(measured.Verdicts)) || !maps.Equal(positive(shown.Refused), positive(measured.Refused)) || shown.Verdicts["admit"] != uint64(recorded) {
		t.Errorf("the dashboard shows %v %v, the metrics %v %v, the origin recorded %d", shown.Verdicts, shown.Refused, measured.Verdicts, measured.Refused, recorded)
	}
	if want := fmt.Sprintf("sluice_requests_received_total %d\n", sent); !strings.Contains(string(text), want) {
		t.Errorf("the metrics do not say %q", want)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, want := range map[string]uint64{"received": shown.Received, "admit": shown.Verdicts["admit"], "refuse": shown.Verdicts["refuse"]} {
		// A point's time is in whole milliseconds.
		if got := d.sums[name]; math.Abs(got-float64(want)) > 1+float64(want)/100 {
			t.Errorf("the chart of %s adds up to %.1f, the total is %d", name, got, want)
		}
	}
}

func positive(n map[string]uint64) map[string]uint64 {
	n = maps.Clone(n)
	maps.DeleteFunc(n, func(_ string, n uint64) bool { return n == 0 })
	return n
}
