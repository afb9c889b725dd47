package result

import (
	"math"
	"time"

	"sluice/bench/load"
)

// spectrum is where percentiles are plotted.
var spectrum = []float64{0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999, 0.99995, 0.99999}

func latencyOf(hs ...*load.Histogram) Latency {
	var h *load.Histogram
	for _, x := range hs {
		switch {
		case x == nil:
		case h == nil:
			h = load.NewHistogram()
			fallthrough
		default:
			h.Merge(x)
		}
	}
	if h == nil || h.TotalCount() == 0 {
		return Latency{}
	}
	l := Latency{
		Count: h.TotalCount(),
		Mean:  h.Mean() / 1e6,
		Max:   float64(h.Max()) / 1e6,
		P50:   percentile(h, 0.5),
		P90:   percentile(h, 0.9),
		P99:   percentile(h, 0.99),
		P999:  percentile(h, 0.999),
	}
	for _, p := range spectrum {
		v := percentile(h, p)
		if v == nil {
			break
		}
		l.Spectrum = append(l.Spectrum, [2]float64{p, *v})
	}
	return l
}

// percentile in seconds; nil where too few samples lie beyond it.
func percentile(h *load.Histogram, p float64) *float64 {
	if h == nil || float64(h.TotalCount())*(1-p) < 10-1e-6 {
		return nil
	}
	v := (time.Duration(h.ValueAtQuantile(p*100)) * time.Microsecond).Seconds()
	return &v
}

// The heat map's rows: eight a decade from 100µs to 100s, and one for less.
const (
	heatRows    = 49
	heatPer     = 8
	heatFloorUS = 100
)

// HeatBounds are the lower bounds of the heat map's rows, in seconds.
func HeatBounds() []float64 {
	b := make([]float64, heatRows)
	for i := 1; i < heatRows; i++ {
		b[i] = heatFloorUS * 1e-6 * math.Pow(10, float64(i-1)/heatPer)
	}
	return b
}

func addHeat(row []int64, h *load.Histogram) {
	if h == nil {
		return
	}
	for _, bar := range h.Distribution() {
		if bar.Count == 0 {
			continue
		}
		i := 0
		if bar.From >= heatFloorUS {
			i = min(1+int(heatPer*math.Log10(float64(bar.From)/heatFloorUS)), heatRows-1)
		}
		row[i] += bar.Count
	}
}
