package peers

import (
	"strings"
	"testing"
	"time"
)

// Ratios are taken round by round, so that a machine that slows down for
// everybody changes none of them.
func TestDriftDoesNotChangeRatios(t *testing.T) {
	bare := &Figure{Program: "fasthttp", Work: Forward}
	ours := &Figure{Program: "sluice", Work: Forward, Version: "1"}
	for round := range 9 {
		drift := 1 + float64(round)
		bare.samples = append(bare.samples, sample{cpu: 40 * drift, busy: 30 * drift, throughput: 9000 / drift})
		ours.samples = append(ours.samples, sample{cpu: 44 * drift, busy: 33 * drift, throughput: 8000 / drift})
	}
	summarise([]running{{Figure: bare}, {Figure: ours}})
	for name, r := range map[string]float64{
		"low": ours.CPURatio.Low, "value": ours.CPURatio.Value, "high": ours.CPURatio.High, "busy": ours.BusyRatio.Value,
	} {
		if r < 1.0999 || r > 1.1001 {
			t.Errorf("%s of the ratio is %v, wanted 1.1 whatever the drift", name, r)
		}
	}
	if ours.CPU.High <= ours.CPU.Low {
		t.Errorf("the drift does not show in the interval of the absolute figure: %+v", ours.CPU)
	}
	res := &Result{Started: time.Unix(0, 0), Rounds: 9, Span: "3s", Rate: 2000, CPU: "1", Figures: []*Figure{bare, ours}, Missing: []string{"haproxy: it is not installed"}}
	md := res.Markdown()
	for _, want := range []string{"| sluice | ", "| 1.10 (1.10–1.10) |", "against fasthttp", "not measured: haproxy: it is not installed.", "bound to core 1"} {
		if !strings.Contains(md, want) {
			t.Errorf("the table does not say %q:\n%s", want, md)
		}
	}
	html, err := res.HTML()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(html), `<div class="row ours"><span>sluice</span>`) {
		t.Error("the plot does not show Sluice")
	}
}
