package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// events reads server-sent events.
type events struct {
	*bufio.Scanner
	res *http.Response
}

func (ts *testServer) connect(t *testing.T) *events {
	t.Helper()
	res, err := http.Get("http://" + ts.Addr() + "/api/v1/stream")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("stream: %s, %s", res.Status, res.Header.Get("Content-Type"))
	}
	sc := bufio.NewScanner(res.Body)
	sc.Buffer(nil, 16<<20)
	return &events{sc, res}
}

// next reads the next event into v and returns its name, "" at the end.
func (e *events) next(t *testing.T, v any) (name string) {
	t.Helper()
	for e.Scan() {
		if n, ok := strings.CutPrefix(e.Text(), "event: "); ok {
			name = n
		}
		if data, ok := strings.CutPrefix(e.Text(), "data: "); ok {
			if err := json.Unmarshal([]byte(data), v); err != nil {
				t.Fatal(err)
			}
			return name
		}
	}
	return ""
}

// A reader that takes the state and then every tick knows what a newcomer is
// told: status, history and tail (property 15 on the dashboard).
func TestStreamConverges(t *testing.T) {
	var gone atomic.Bool
	ts := start(t, func(o *Options) {
		o.Sections = []Section{{Name: "queues", Value: func() any {
			if gone.Load() {
				return nil
			}
			return map[string]any{"orders": 1}
		}}}
	})
	rng := seeded(t)
	work := func() {
		for range rng.IntN(300) {
			ts.metrics.Begin()
			Fanout{ts.metrics, ts.o.Live}.Observe(randomEvent(rng, ts.policy, 10))
		}
	}
	work()
	ts.o.Live.sample(epoch)
	e := ts.connect(t)
	var s state
	if name := e.next(t, &s); name != "state" {
		t.Fatalf("the first event is %q", name)
	}
	for i := range 20 {
		work()
		if i == 15 {
			gone.Store(true) // the part that reported the section went away
		}
		// The server's own ticks come in between; they are as good as these.
		ts.tick(ts.o.Live.sample(epoch.Add(time.Duration(i+1) * time.Second)))
	}
	ts.hub.mu.Lock()
	known := ts.hub.parts
	ts.hub.mu.Unlock()
	_, total := ts.o.Live.since(0)
	for s.Tail == nil || s.Tail[len(s.Tail)-1].N < total || !reflect.DeepEqual(compact(t, s.Parts), compact(t, known)) {
		var d tick
		if name := e.next(t, &d); name != "tick" {
			t.Fatalf("event %q before the reader was up to date", name)
		}
		for name, part := range d.Parts {
			if string(part) == "null" {
				delete(s.Parts, name)
				continue
			}
			s.Parts[name] = part
		}
		if n := len(d.Tail); n > 0 && d.Tail[0].N != s.Tail[len(s.Tail)-1].N+1 {
			t.Fatalf("the tail goes on with %d after %d", d.Tail[0].N, s.Tail[len(s.Tail)-1].N)
		}
		s.Tail = append(s.Tail, d.Tail...)
	}
	if _, ok := s.Parts["sections"]; ok {
		t.Error("the section that went away is still known")
	}
	var totals Totals
	if err := json.Unmarshal(s.Parts["totals"], &totals); err != nil {
		t.Fatal(err)
	}
	g := gather(t, ts.metrics)
	for verdict, n := range totals.Verdicts {
		if want := g.sum("sluice_decisions_total", "verdict", verdict, "mode", "enforce"); float64(n) != want {
			t.Errorf("%s: the stream says %d, the metrics %v", verdict, n, want)
		}
	}
	if want := g.sum("sluice_requests_received_total"); float64(totals.Received) != want {
		t.Errorf("received: the stream says %d, the metrics %v", totals.Received, want)
	}
}

func compact(t *testing.T, parts map[string]json.RawMessage) map[string]any {
	t.Helper()
	out := make(map[string]any)
	for name, part := range parts {
		var v any
		if err := json.Unmarshal(part, &v); err != nil {
			t.Fatal(err)
		}
		out[name] = v
	}
	return out
}

// A stuck reader is dropped once it is too far behind; the others get every
// tick, and nobody waits.
func TestStuckReaderIsDropped(t *testing.T) {
	ts := start(t, nil)
	_, stuck, ok, err := ts.join()
	if !ok || err != nil {
		t.Fatalf("join: %v, %v", ok, err)
	}
	_, quick, _, _ := ts.join()
	for i := range readerBacklog + 1 {
		ts.tick(&Point{T: int64(i)})
		if _, open := <-quick; !open {
			t.Fatalf("the quick reader was dropped at tick %d", i)
		}
	}
	for n := 0; ; n++ {
		if _, open := <-stuck; !open {
			if n != readerBacklog {
				t.Errorf("the stuck reader had %d ticks waiting, want %d", n, readerBacklog)
			}
			break
		}
	}
	ts.leave(stuck)
	ts.leave(quick)
	if n := len(ts.hub.readers); n != 0 {
		t.Errorf("%d readers are left", n)
	}
}

// Too many readers are told to poll, and polling gives the same state.
func TestTooManyReaders(t *testing.T) {
	ts := start(t, nil)
	var all []chan []byte
	for range maxReaders {
		_, r, _, _ := ts.join()
		all = append(all, r)
	}
	if res, body := ts.do(t, "GET", "/api/v1/stream"); res.StatusCode != 503 || res.Header.Get("Retry-After") == "" {
		t.Errorf("one too many: %d %s", res.StatusCode, body)
	}
	res, body := ts.do(t, "GET", "/api/v1/state")
	var s state
	if err := json.Unmarshal([]byte(body), &s); err != nil || res.StatusCode != 200 || s.Instance == "" || s.Parts["totals"] == nil {
		t.Errorf("state: %d %.200s %v", res.StatusCode, body, err)
	}
	for _, r := range all {
		ts.leave(r)
	}
}

// Without readers a tick does nothing, and a reader that goes away is forgotten.
func TestReaderGoesAway(t *testing.T) {
	ts := start(t, nil)
	ts.tick(&Point{})
	if ts.hub.parts != nil {
		t.Error("a tick without readers asked for the status")
	}
	ctx, cancel := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "GET", "http://"+ts.Addr()+"/api/v1/stream", nil)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	res.Body.Close()
	deadline := time.After(10 * time.Second)
	for {
		ts.hub.mu.Lock()
		n := len(ts.hub.readers)
		ts.hub.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-deadline:
			t.Fatal("the reader is still known")
		default:
		}
	}
}

// Shutting down ends the streams; nobody has to wait for a reader to leave.
func TestShutdownEndsStreams(t *testing.T) {
	ts := start(t, nil)
	e := ts.connect(t)
	var s state
	e.next(t, &s)
	if err := ts.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	for e.Scan() {
	}
	if err := e.Err(); err != nil {
		t.Errorf("the stream broke off: %v", err)
	}
}

// What ten readers cost each second, whatever the traffic.
func BenchmarkTick(b *testing.B) {
	m := NewMetrics(MetricsOptions{})
	live := NewLive(m, LiveOptions{})
	p := testPolicy(40)
	Fanout{m, live}.SetPolicy(p)
	s, err := NewServer(Options{Gateway: &gate{}, Metrics: m, Live: live})
	if err != nil {
		b.Fatal(err)
	}
	rng := seeded(b)
	for range 10_000 {
		Fanout{m, live}.Observe(randomEvent(rng, p, 1000))
	}
	for range 10 {
		_, reader, _, err := s.join()
		if err != nil {
			b.Fatal(err)
		}
		go func() {
			for range reader {
			}
		}()
		b.Cleanup(func() { s.leave(reader); close(reader) })
	}
	now := epoch
	for b.Loop() {
		now = now.Add(time.Second)
		s.tick(live.sample(now))
	}
}
