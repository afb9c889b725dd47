package report

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"sluice/bench/load"
	"sluice/bench/scenario"
)

// Log writes latency.hlog while a run goes on: HdrHistogram's interval log, one
// line a second for each class and ending, tagged class:ending. It is for one
// goroutine at a time.
type Log struct {
	file *os.File
	buf  *bufio.Writer
	s    *scenario.Scenario
	err  error
}

// NewLog starts the log in dir.
func NewLog(dir string, s *scenario.Scenario) (*Log, error) {
	f, err := os.Create(filepath.Join(dir, "latency.hlog"))
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	l := &Log{file: f, buf: bufio.NewWriter(f), s: s}
	fmt.Fprintf(l.buf, "#[Response times of scenario %s in microseconds, from the intended time. Tags are class:ending]\n", s.Name)
	fmt.Fprintf(l.buf, "#[Histogram log format version 1.3]\n#[StartTime: 0.000 (seconds since the load began)]\n")
	fmt.Fprintf(l.buf, "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n")
	return l, nil
}

// Interval writes one second.
func (l *Log) Interval(i *load.Interval) {
	for n := range i.Classes {
		for e := range load.Ending(load.Endings) {
			h := i.Classes[n].Response[e]
			if h == nil {
				continue
			}
			h.SetStartTimeMs(i.Start.Milliseconds())
			h.SetEndTimeMs((i.Start + time.Second).Milliseconds())
			b, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
			if err != nil {
				l.err = errors.Join(l.err, err)
				continue
			}
			tag := strings.NewReplacer(",", "_", " ", "_").Replace(string(l.s.Classes[n].Name) + ":" + e.String())
			fmt.Fprintf(l.buf, "Tag=%s,%.3f,1.000,%.3f,%s\n", tag, i.Start.Seconds(), float64(h.Max())/1000, b)
		}
	}
}

// Close ends the log.
func (l *Log) Close() error {
	if err := errors.Join(l.err, l.buf.Flush(), l.file.Close()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}
