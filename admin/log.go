package admin

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"sluice/admission"
)

// LogOptions configure [NewDecisionLog]. The zero value is usable.
type LogOptions struct {
	// PerSecond is how many records each route may have for each reason in a
	// second, at most [All]; 0 means 20.
	PerSecond int
	// AdmitsPerSecond is how many requests of each route that were admitted or
	// replayed, and did not fail, are written as well in a second, as a
	// sample, at most [All]; 0 means none.
	AdmitsPerSecond int
	// Signals says that readings of signals are handed in; see
	// [DecisionLog.Signal].
	Signals bool
	// Hider hides keys and promises; nil means one of the log's own.
	Hider *Hider
	// Queue is how many records may wait for the output; 0 means 1024, or 8192
	// where a rate has no bound.
	Queue int
	// Logger is told, once each time it begins, that the output fails; nil
	// means slog.Default().
	Logger *slog.Logger
}

// DecisionLog writes refusals, failures, what a shadow policy would have
// refused and, if asked to, a sample of the rest or all of it, as one JSON object
// a line: with readings of signals and the policies in force between them, a
// recording from which the decisions can be made again (see [DecisionLine]). It
// never keeps a request waiting: records over the cap are sampled out, records
// that the output is too slow for are dropped, and both are counted, here and in
// the recording itself.
//
// It is an [admission.Observer]; make one with [NewDecisionLog], and end it
// with [DecisionLog.Close]. Rotation is the system's: see [LogFile.Reopen].
type DecisionLog struct {
	policies[[]budget] // prepared: by row, then kind
	queue              chan record
	perSecond, admits  uint32
	signals            bool
	hider              *Hider
	out                io.Writer
	logger             *slog.Logger
	written, failed    atomic.Uint64
	sampledOut         *spreadCounter
	dropped            *spreadCounter
	closing            sync.RWMutex // write-held once, to close queue
	closed             bool
	failing            bool // the output, as far as the writer knows
	done               chan struct{}
}

// LogCounts is what became of the records.
type LogCounts struct {
	Written    uint64 `json:"written"`
	SampledOut uint64 `json:"sampled_out"` // over the cap
	Dropped    uint64 `json:"dropped"`     // the output was too slow
	Failed     uint64 `json:"failed"`      // the output returned an error
}

// NewDecisionLog returns a log that writes to out from a goroutine of its own.
func NewDecisionLog(out io.Writer, o LogOptions) *DecisionLog {
	if o.PerSecond <= 0 {
		o.PerSecond = 20
	}
	if o.Queue <= 0 {
		o.Queue = 1024
		if max(o.PerSecond, o.AdmitsPerSecond) >= All {
			o.Queue = 8192
		}
	}
	if o.Hider == nil {
		o.Hider = NewHider(nil)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	l := &DecisionLog{
		queue:     make(chan record, o.Queue),
		perSecond: uint32(o.PerSecond), admits: uint32(max(o.AdmitsPerSecond, 0)),
		signals: o.Signals, hider: o.Hider,
		out: out, logger: o.Logger, done: make(chan struct{}),
	}
	spread := newSpread()
	l.sampledOut, l.dropped = newSpreadCounter(spread), newSpreadCounter(spread)
	l.add(&Policy{}, make([]budget, (&Policy{}).rows()*kinds))
	go l.write()
	return l
}

// SetPolicy tells what the indexes in events of p's routes mean, and records
// that p comes into force.
func (l *DecisionLog) SetPolicy(p *Policy) {
	p = l.add(p, make([]budget, p.rows()*kinds))
	l.put(&record{other: PolicyLine{
		Kind: KindPolicy, Version: RecordingVersion, Time: time.Now().UTC(), Config: p.Hash, File: p.File,
		Classes: p.Classes, Fields: p.fields,
		Refusals: perSecond(l.perSecond), Admits: perSecond(l.admits), Signals: l.signals,
	}})
}

// Signal records a reading. It never waits.
func (l *DecisionLog) Signal(s SignalLine) {
	if l.signals {
		s.Kind = KindSignal
		l.put(&record{other: s})
	}
}

// Observe implements [admission.Observer]. It does not allocate.
func (l *DecisionLog) Observe(e *admission.Event) {
	kind, limit := kindOf(e), l.perSecond
	if kind == kindAdmit || kind == kindReplay {
		kind, limit = kindAdmit, l.admits
		if limit == 0 {
			return
		}
	}
	v, found := l.of(e.Request.Route)
	row := v.rows() - 1
	if found {
		row = v.row(e.Request.Route)
	}
	if !v.prepared[row*kinds+kind].spend(endSecond(e), limit) {
		l.sampledOut.inc()
		return
	}
	var rec record
	rec.set(e, v.Policy)
	l.put(&rec)
}

// put hands a record to the writer, unless that is too far behind.
func (l *DecisionLog) put(rec *record) {
	l.closing.RLock()
	defer l.closing.RUnlock()
	if l.closed {
		l.dropped.inc()
		return
	}
	select {
	case l.queue <- *rec:
	default:
		l.dropped.inc()
	}
}

func (l *DecisionLog) write() {
	defer close(l.done)
	var told LogCounts // of what is missing
	var next time.Time
	for rec := range l.queue {
		if now := time.Now(); now.After(next) {
			l.writeGap(now, &told)
			next = now.Add(time.Second)
		}
		if rec.other != nil {
			_ = l.writeLine(rec.other)
		} else if l.writeLine(rec.full(l.hider)) == nil {
			l.written.Add(1)
		} else {
			l.failed.Add(1)
		}
	}
	l.writeGap(time.Now(), &told)
}

// writeGap writes what is missing and was not told yet.
func (l *DecisionLog) writeGap(now time.Time, told *LogCounts) {
	c := l.Counts()
	g := GapLine{
		Kind: KindGap, Time: now.UTC(),
		SampledOut: c.SampledOut - told.SampledOut, Dropped: c.Dropped + c.Failed - told.Dropped - told.Failed,
	}
	if (g.SampledOut > 0 || g.Dropped > 0) && l.writeLine(g) == nil {
		*told = c
	}
}

// writeLine writes one line, and tells of its failing once each time it begins.
func (l *DecisionLog) writeLine(v any) error {
	line, err := json.Marshal(v)
	if err == nil {
		_, err = l.out.Write(append(line, '\n'))
	}
	if err != nil && !l.failing {
		l.logger.Error("the decision log cannot be written; records are lost until it can", "error", err)
	}
	l.failing = err != nil
	return err
}

// Counts returns what became of the records so far.
func (l *DecisionLog) Counts() LogCounts {
	return LogCounts{l.written.Load(), l.sampledOut.load(), l.dropped.load(), l.failed.Load()}
}

// Close writes what is queued and stops. It gives up waiting for the output
// when ctx ends, and returns its error then. Events observed later are dropped.
func (l *DecisionLog) Close(ctx context.Context) error {
	l.closing.Lock()
	if !l.closed {
		l.closed = true
		close(l.queue)
	}
	l.closing.Unlock()
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// LogFile is a file that can be moved away while it is written: after that,
// Reopen goes on in a new file of the old name. It is safe for concurrent use.
type LogFile struct {
	path string
	mu   sync.Mutex
	file *os.File
}

// OpenLogFile opens path for appending, creating it readable by its owner only.
func OpenLogFile(path string) (*LogFile, error) {
	f := &LogFile{path: path}
	if err := f.Reopen(); err != nil {
		return nil, err
	}
	return f, nil
}

// Reopen opens the path again, as after rotation. Where that fails, the file
// open so far stays in use.
func (f *LogFile) Reopen() error {
	file, err := os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	f.mu.Lock()
	old := f.file
	f.file = file
	f.mu.Unlock()
	if old != nil {
		return old.Close()
	}
	return nil
}

// Write implements [io.Writer].
func (f *LogFile) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.file.Write(b)
}

// Close closes the file; nothing may be written after it.
func (f *LogFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.file.Close()
}
