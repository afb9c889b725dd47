package recording

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

const (
	policyLine   = `{"kind":"policy","version":1,"ts":"2026-05-01T12:00:00Z","config":"cafe","classes":["standard"],"fields":["x-tenant-id"],"refusals_per_second":"all","admits_per_second":"all","signals":true}`
	signalLine   = `{"kind":"signal","ts":"2026-05-01T12:00:02Z","queue":"orders","signal":"push","age":4.5,"wait":5,"share":{"standard":0.5}}`
	decisionLine = `{"kind":"decision","ts":"2026-05-01T12:00:03Z","id":"one","tenant":"a","class":"standard","route":"put","verdict":"admit","reason":"none","mode":"enforce","status":200,"outcome":"answered","config":"cafe","decided_us":1,"answered_us":30,"done_us":31,"bytes_in":0,"bytes_out":0,"received":"2026-05-01T12:00:01Z","asked_us":5,"method":"POST","path":"/put"}`
	gapLine      = `{"kind":"gap","ts":"2026-05-01T12:00:04Z","sampled_out":3,"dropped":1}`
)

func read(text string) (*Recording, error) {
	r := &Recording{}
	return r, r.Read("d.jsonl", strings.NewReader(text))
}

func TestRead(t *testing.T) {
	r, err := read(strings.Join([]string{signalLine, policyLine, "", decisionLine, gapLine}, "\n") + "\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Policies) != 1 || len(r.Signals) != 1 || len(r.Decisions) != 1 || len(r.Gaps) != 1 || len(r.Cut) != 0 {
		t.Fatalf("read %+v", r)
	}
	d := r.Find("one")
	if d == nil || r.Find("two") != nil {
		t.Fatal("the decision is not found by its id")
	}
	if got := d.AtOrigin(); got != 25*time.Microsecond {
		t.Errorf("it was at the origin for %v, want 25µs", got)
	}
	events := r.Events()
	if len(events) != 2 || events[0].Decision != d || events[1].Signal == nil || !r.Begin().Equal(r.Policies[0].Time) {
		t.Errorf("events are not in the order of their times: %+v", events)
	}
	if sampledOut, dropped := r.Missing(); sampledOut != 3 || dropped != 1 {
		t.Errorf("%d and %d are missing, want 3 and 1", sampledOut, dropped)
	}
}

// A last line that is cut off is left out and told; any other wrong line is an
// error that says where and what.
func TestReadIsStrict(t *testing.T) {
	r, err := read(policyLine + "\n" + decisionLine[:80])
	if err != nil || len(r.Cut) != 1 || len(r.Decisions) != 0 {
		t.Errorf("a cut last line: %v, %+v", err, r)
	}
	if r, err := read(policyLine + "\n" + decisionLine); err != nil || len(r.Decisions) != 1 || len(r.Cut) != 0 {
		t.Errorf("a whole last line without its end: %v, %+v", err, r)
	}
	for _, c := range []struct{ line, want string }{
		{decisionLine[:80], "not a JSON object"},
		{`{"ts":"2026-05-01T12:00:00Z","id":"1"}`, "it has no kind"},
		{`{"kind":"verdict"}`, "none of decision"},
		{strings.Replace(decisionLine, `"admit"`, `"maybe"`, 1), `verdict "maybe"`},
		{strings.Replace(decisionLine, `"none"`, `"bored"`, 1), `reason "bored"`},
		{strings.Replace(decisionLine, `"asked_us":5`, `"asked_us":-5`, 1), "want 0 to"},
		{strings.Replace(decisionLine, `"asked_us":5`, `"lot":99999999`, 1), "at most 16777216"},
		{strings.Replace(decisionLine, `"asked_us":5`, `"asked":5`, 1), `unknown field "asked"`},
		{strings.Replace(decisionLine, "01T12:00:01", "01T25:00:01", 1), "parsing time"},
		{strings.Replace(decisionLine, `"received":"2026`, `"received":"0026`, 1), "no gateway was running"},
		{strings.Replace(decisionLine, `"path"`, `"client":"me","path"`, 1), "not an address"},
		{strings.Replace(policyLine, `"version":1`, `"version":9`, 1), "version 9"},
		{decisionLine + decisionLine, "not a JSON object"},
		{strings.Repeat("x", maxLine+2), "longer than"},
	} {
		if _, err := read(policyLine + "\n" + c.line + "\n" + gapLine + "\n"); err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "d.jsonl:2: ") {
			t.Errorf("%.60s…: error %v, want one of line 2 that says %q", c.line, err, c.want)
		}
	}
}

// Whatever a file holds, reading it ends, and what was read can be put in order.
func FuzzRead(f *testing.F) {
	for _, line := range []string{policyLine, signalLine, decisionLine, gapLine, decisionLine[:50], "\n\n{}", "\x1f\x8b"} {
		f.Add([]byte(line))
		f.Add([]byte(policyLine + "\n" + line + "\n" + signalLine))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &Recording{}
		err := r.Read("f", bytes.NewReader(data))
		if err == nil && len(bytes.TrimSpace(data)) > 0 && len(r.Decisions)+len(r.Signals)+len(r.Policies)+len(r.Gaps)+len(r.Cut) == 0 {
			t.Errorf("nothing was read, and nothing said of it: %q", data)
		}
		last := r.Begin()
		for _, e := range r.Events() {
			if e.At.Before(last) {
				t.Fatalf("an event of %v comes after %v", e.At, last)
			}
			last = e.At
		}
	})
}
