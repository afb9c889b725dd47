package recording

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"sluice/admin"
	"sluice/admission"
)

// Recording is what files of a decision log say.
type Recording struct {
	Files     []string
	Decisions []*Decision
	Signals   []*admin.SignalLine
	Policies  []*admin.PolicyLine
	Gaps      []*admin.GapLine
	// Cut names the files whose last line was cut off.
	Cut []string
}

// Decision is one that was recorded.
type Decision struct {
	admin.DecisionLine
	Verdict admission.Verdict
	Reason  admission.Reason
	Outcome admission.Outcome
}

// Asked is when the gates were asked, or the request was received where they
// were not.
func (d *Decision) Asked() time.Time {
	return d.Received.Add(time.Duration(d.AskedUS) * time.Microsecond)
}

// AtOrigin is for how long the request kept its place there, and what came of
// it. It means something for requests that were admitted.
func (d *Decision) AtOrigin() time.Duration {
	end := d.AnsweredUS
	if end == 0 {
		end = d.DoneUS
	}
	return max(0, time.Duration(end-d.AskedUS)*time.Microsecond)
}

// maxLine is longer than a line of a recording can be.
const maxLine = 1 << 20

// ReadFiles reads files, "-" being standard input. What ends in .gz is unpacked.
func ReadFiles(stdin io.Reader, names ...string) (*Recording, error) {
	r := &Recording{}
	for _, name := range names {
		if err := r.readFile(stdin, name); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *Recording) readFile(stdin io.Reader, name string) error {
	if name == "-" {
		return r.Read("standard input", stdin)
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if !strings.HasSuffix(name, ".gz") {
		return r.Read(name, f)
	}
	unpacked, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return r.Read(name, unpacked)
}

// Read adds what a file says. Its error names file and line.
func (r *Recording) Read(name string, from io.Reader) error {
	r.Files = append(r.Files, name)
	in := bufio.NewReaderSize(from, 64<<10)
	for n := 1; ; n++ {
		line, err := readLine(in)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
		last := err != nil
		if len(bytes.TrimSpace(line)) > 0 {
			if err := r.add(line); err != nil && last {
				r.Cut = append(r.Cut, name)
			} else if err != nil {
				return fmt.Errorf("%s:%d: %w", name, n, err)
			}
		}
		if last {
			return nil
		}
	}
}

// readLine reads one line; its error is io.EOF where no line end followed.
func readLine(in *bufio.Reader) (line []byte, err error) {
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return nil, fmt.Errorf("the line is longer than %d bytes, which no line of a decision log is", maxLine)
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.ErrUnexpectedEOF): // a packed file that is cut off
			return line, io.EOF
		default:
			return line, err
		}
	}
}

func (r *Recording) add(line []byte) error {
	var kind struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(line, &kind); err != nil {
		return fmt.Errorf("it is not a JSON object: %w", err)
	}
	switch kind.Kind {
	case admin.KindDecision:
		d := &Decision{}
		if err := strictly(line, &d.DecisionLine); err != nil {
			return err
		}
		if err := d.check(); err != nil {
			return err
		}
		r.Decisions = append(r.Decisions, d)
	case admin.KindSignal:
		s := &admin.SignalLine{}
		if err := strictly(line, s); err != nil {
			return err
		}
		if err := plausible("ts", s.Time); err != nil {
			return err
		}
		if s.At != nil {
			if err := plausible("at", *s.At); err != nil {
				return err
			}
		}
		r.Signals = append(r.Signals, s)
	case admin.KindPolicy:
		p := &admin.PolicyLine{}
		if err := strictly(line, p); err != nil {
			return err
		}
		if p.Version != admin.RecordingVersion {
			return fmt.Errorf("it is of version %d of the format; this program reads version %d", p.Version, admin.RecordingVersion)
		}
		if err := plausible("ts", p.Time); err != nil {
			return err
		}
		r.Policies = append(r.Policies, p)
	case admin.KindGap:
		g := &admin.GapLine{}
		if err := strictly(line, g); err != nil {
			return err
		}
		r.Gaps = append(r.Gaps, g)
	case "":
		return errors.New("it has no kind, so it is no line of a recording; decision logs of earlier versions cannot be replayed")
	default:
		return fmt.Errorf("kind %q is none of decision, signal, policy and gap", kind.Kind)
	}
	return nil
}

func strictly(line []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more than one JSON value on the line")
	}
	return nil
}

// Times between which gateways have been running.
var (
	earliest = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
)

func plausible(name string, t time.Time) error {
	if t.Before(earliest) || t.After(latest) {
		return fmt.Errorf("%s is %v, when no gateway was running", name, t)
	}
	return nil
}

// longest is longer than a request takes.
const longest = int64(30*24*time.Hour) / int64(time.Microsecond)

func (d *Decision) check() error {
	var ok bool
	if d.Verdict, ok = verdicts[d.Line.Verdict]; !ok {
		return fmt.Errorf("verdict %q is none of admit, replay and refuse", d.Line.Verdict)
	}
	if d.Reason, ok = reasons[d.Line.Reason]; !ok {
		return fmt.Errorf("reason %q is not known", d.Line.Reason)
	}
	if d.Outcome, ok = outcomes[d.Line.Outcome]; !ok {
		return fmt.Errorf("outcome %q is not known", d.Line.Outcome)
	}
	if err := plausible("received", d.Received); err != nil {
		return err
	}
	for _, us := range []int64{d.AskedUS, d.DecidedUS, d.SentUS, d.AnsweredUS, d.DoneUS} {
		if us < 0 || us > longest {
			return fmt.Errorf("a stage of the request is %d µs long, want 0 to %d", us, longest)
		}
	}
	if d.Lot > 1<<24 || d.Again > 1<<24 {
		return fmt.Errorf("lot %d and again %d, want at most %d", d.Lot, d.Again, 1<<24)
	}
	if d.Client != "" {
		if _, err := netip.ParseAddr(d.Client); err != nil {
			return fmt.Errorf("client %q is not an address", d.Client)
		}
	}
	return nil
}

var (
	verdicts = map[string]admission.Verdict{}
	reasons  = map[string]admission.Reason{admission.None.String(): admission.None}
	outcomes = map[string]admission.Outcome{}
)

func init() {
	for _, v := range []admission.Verdict{admission.Refuse, admission.Admit, admission.Replay} {
		verdicts[v.String()] = v
	}
	for _, r := range admission.Reasons() {
		reasons[r.String()] = r
	}
	for _, o := range []admission.Outcome{admission.NotTried, admission.NotSent, admission.Unknown, admission.Answered} {
		outcomes[o.String()] = o
	}
}

// Event is one thing that happened at a time: either is set.
type Event struct {
	At       time.Time
	Decision *Decision
	Signal   *admin.SignalLine
}

// Events are the decisions and readings in the order of their times. A reading
// comes before a decision of the same time.
func (r *Recording) Events() []Event {
	all := make([]Event, 0, len(r.Signals)+len(r.Decisions))
	for _, s := range r.Signals {
		all = append(all, Event{At: s.Time, Signal: s})
	}
	for _, d := range r.Decisions {
		all = append(all, Event{At: d.Asked(), Decision: d})
	}
	slices.SortStableFunc(all, func(a, b Event) int { return a.At.Compare(b.At) })
	return all
}

// Begin is when the recording begins; the zero time where it is empty.
func (r *Recording) Begin() (begin time.Time) {
	first := func(t time.Time) {
		if begin.IsZero() || t.Before(begin) {
			begin = t
		}
	}
	for _, p := range r.Policies {
		first(p.Time)
	}
	for _, s := range r.Signals {
		first(s.Time)
	}
	for _, d := range r.Decisions {
		first(d.Received)
	}
	return begin
}

// Find returns the decision about the request of that id, the latest where ids
// repeat; nil where there is none.
func (r *Recording) Find(id string) (found *Decision) {
	for _, d := range r.Decisions {
		if d.ID == id && (found == nil || d.Received.After(found.Received)) {
			found = d
		}
	}
	return found
}

// Missing is how many records were sampled out, and dropped.
func (r *Recording) Missing() (sampledOut, dropped uint64) {
	for _, g := range r.Gaps {
		sampledOut += g.SampledOut
		dropped += g.Dropped
	}
	return sampledOut, dropped
}

// Of is the recording of what a gateway remembers of one decision, and that
// decision.
func Of(m admin.Remembered) (*Recording, *Decision, error) {
	d := &Decision{DecisionLine: m.Decision}
	if err := d.check(); err != nil {
		return nil, nil, err
	}
	r := &Recording{Decisions: []*Decision{d}}
	for i := range m.Readings {
		r.Signals = append(r.Signals, &m.Readings[i])
	}
	return r, d, nil
}
