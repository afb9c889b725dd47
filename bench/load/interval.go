package load

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histogram of durations in microseconds.
type Histogram = hdrhistogram.Histogram

// histogramMax is the longest duration that is told apart from longer ones.
const histogramMax = 10 * time.Minute

// NewHistogram holds durations from a microsecond to ten minutes with an error
// of at most one in a thousand.
func NewHistogram() *Histogram {
	return hdrhistogram.New(1, histogramMax.Microseconds(), 3)
}

// observe records d; longer ones than the histogram can hold count as its
// longest.
func observe(h **Histogram, d time.Duration) {
	if *h == nil {
		*h = NewHistogram()
	}
	us := min(max(d.Microseconds(), 1), histogramMax.Microseconds())
	_ = (*h).RecordValue(us) // in range, so never an error
}

// Interval is one second of load: the requests intended in it, and how they
// ended.
type Interval struct {
	Start   time.Duration // since the start of the load
	Stage   int           // of the second's first request
	Classes []ClassInterval
	// Lag is by how much requests were sent later than intended; nil if none
	// was.
	Lag *Histogram

	pending int64
	staged  bool
}

// ClassInterval is the part of one class in an interval.
type ClassInterval struct {
	Offered int64 // requests intended, retries and repeats among them
	First   int64 // of which first requests for their effect
	Obeyed  int64 // of which sent because a Retry-After said so
	Kept    int64 // of those: let in
	Endings [Endings]int64
	// Reasons of all endings but good ones.
	Reasons map[string]int64
	// Response counts from the intended time, Service from when the request was
	// sent; nil where no request ended so.
	Response, Service [Endings]*Histogram
}

// Merge adds o to c.
func (c *ClassInterval) Merge(o *ClassInterval) {
	c.Offered += o.Offered
	c.First += o.First
	c.Obeyed += o.Obeyed
	c.Kept += o.Kept
	for r, n := range o.Reasons {
		if c.Reasons == nil {
			c.Reasons = map[string]int64{}
		}
		c.Reasons[r] += n
	}
	for e := range Endings {
		c.Endings[e] += o.Endings[e]
		mergeHistogram(&c.Response[e], o.Response[e])
		mergeHistogram(&c.Service[e], o.Service[e])
	}
}

func mergeHistogram(into **Histogram, h *Histogram) {
	if h == nil {
		return
	}
	if *into == nil {
		*into = NewHistogram()
	}
	(*into).Merge(h)
}

// Merge adds o, of the same load or one with the same classes, to i.
func (i *Interval) Merge(o *Interval) {
	if len(i.Classes) < len(o.Classes) {
		i.Classes = append(i.Classes, make([]ClassInterval, len(o.Classes)-len(i.Classes))...)
	}
	for c := range o.Classes {
		i.Classes[c].Merge(&o.Classes[c])
	}
	mergeHistogram(&i.Lag, o.Lag)
}

// Sum of the interval over its classes.
func (i *Interval) Sum() *ClassInterval {
	var s ClassInterval
	for c := range i.Classes {
		s.Merge(&i.Classes[c])
	}
	return &s
}
