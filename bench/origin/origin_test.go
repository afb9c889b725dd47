package origin

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/bench/dist"
	"sluice/bench/wire"
)

func start(t *testing.T, o Options) *Origin {
	t.Helper()
	org, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := org.Close(); err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return org
}

func publish(t *testing.T, o *Origin, key string) *http.Response {
	t.Helper()
	req, err := http.NewRequest("POST", o.URL()+"/v1/orders", strings.NewReader(`{"n":1}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Tenant-Id", "acme")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	req.Header.Set("X-Request-Id", "r1")
	req.Header.Set("Sluice-Attempt", "2")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return resp
}

func TestPublishedWorkIsRecordedAndDone(t *testing.T) {
	o := start(t, Options{Workers: 2, Work: dist.Const(5 * time.Millisecond)})
	resp := publish(t, o, "k1")
	if resp.StatusCode != 202 || resp.Header.Get(wire.Origin) == "" || !strings.HasPrefix(resp.Header.Get(wire.Signal), "age=0.000, depth=0, done=0, at=") {
		t.Fatalf("answer %d, %v", resp.StatusCode, resp.Header)
	}
	deadline := time.Now().Add(5 * time.Second)
	for o.Ledger().Totals().Executed == 0 {
		if time.Now().After(deadline) {
			t.Fatal("the work was not done")
		}
		time.Sleep(time.Millisecond)
	}
	o.Ledger().Each(func(e *Entry) bool {
		if e.Tenant != "acme" || e.Key != "k1" || e.Attempt != "2" || e.RequestID != "r1" {
			t.Errorf("recorded as %+v", e)
		}
		if took := e.Done.Sub(e.Recorded); took != 5*time.Millisecond {
			t.Errorf("done after %v, the work takes 5ms", took)
		}
		return true
	})
}

// The state of the queue reads the same at the endpoint as it is.
func TestSignalEndpointTellsTheTruth(t *testing.T) {
	o := start(t, Options{Work: dist.Const(time.Hour)})
	for range 3 {
		publish(t, o, "")
	}
	read := func() (s struct {
		Age       float64   `json:"oldest_age_seconds"`
		Depth     int       `json:"depth"`
		SampledAt time.Time `json:"sampled_at"`
	}, status int) {
		resp, err := http.Get(o.URL() + wire.SignalPath)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		_ = json.NewDecoder(resp.Body).Decode(&s)
		return s, resp.StatusCode
	}
	s, _ := read()
	if s.Depth != 2 || s.Age <= 0 || time.Since(s.SampledAt) > 5*time.Second {
		t.Errorf("signal %+v; two of three wait", s)
	}
	set := func(f SignalFault) {
		if err := o.SetFaults(Faults{Signal: f}); err != nil {
			t.Fatal(err)
		}
	}
	set(SignalFrozen)
	a, _ := read()
	publish(t, o, "")
	if b, _ := read(); a != b || b.Depth != 2 {
		t.Errorf("a frozen signal moved: %+v, %+v", a, b)
	}
	set(SignalZero)
	if s, _ := read(); s.Depth != 0 || s.Age != 0 {
		t.Errorf("a signal of zero reads %+v", s)
	}
	set(SignalAbsent)
	if _, status := read(); status != 503 {
		t.Errorf("an absent signal answers %d", status)
	}
	if h := publish(t, o, "").Header.Get(wire.Signal); h != "" {
		t.Errorf("an absent signal is told in a header: %s", h)
	}
	set(SignalMute)
	answered := make(chan int, 1)
	go func() { _, status := read(); answered <- status }()
	select {
	case <-answered:
		t.Error("a mute signal answered")
	case <-time.After(50 * time.Millisecond):
	}
	set(SignalOK)
	if status := <-answered; status != 200 {
		t.Errorf("after the fault the signal answers %d", status)
	}
}

// exchange sends one publication on a connection of its own and returns what
// came back.
func exchange(t *testing.T, o *Origin) (string, error) {
	t.Helper()
	c, err := net.Dial("tcp", o.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	_, _ = io.WriteString(c, "POST /x HTTP/1.1\r\nHost: o\r\nContent-Length: 2\r\n\r\n{}")
	line, err := bufio.NewReader(c).ReadString('\n')
	return line, err
}

func TestFaultsDoWhatTheySay(t *testing.T) {
	for _, c := range []struct {
		name     string
		faults   Faults
		recorded int64
		check    func(line string, err error) bool
	}{
		{"none", Faults{}, 1, func(l string, err error) bool { return err == nil && strings.Contains(l, "202") }},
		{"error", Faults{ErrorShare: 1}, 0, func(l string, err error) bool { return err == nil && strings.Contains(l, "503") }},
		{"reset", Faults{ResetShare: 1}, 0, func(_ string, err error) bool { return errors.Is(err, syscall.ECONNRESET) }},
		{"lost", Faults{LostShare: 1}, 1, func(l string, err error) bool { return l == "" && errors.Is(err, io.EOF) }},
	} {
		o := start(t, Options{Faults: c.faults})
		line, err := exchange(t, o)
		if !c.check(line, err) {
			t.Errorf("%s: the client got %q, %v", c.name, line, err)
		}
		if got := o.Ledger().Totals().Recorded; got != c.recorded {
			t.Errorf("%s: %d recorded, wanted %d", c.name, got, c.recorded)
		}
	}
}

func TestAStallHoldsAnswersUntilItIsOver(t *testing.T) {
	o := start(t, Options{Faults: Faults{Stall: true}})
	got := make(chan string, 1)
	go func() { l, _ := exchange(t, o); got <- l }()
	select {
	case l := <-got:
		t.Fatalf("a stalled origin answered %q", l)
	case <-time.After(50 * time.Millisecond):
	}
	if n := o.Ledger().Totals().Recorded; n != 0 {
		t.Fatalf("a stalled origin recorded %d", n)
	}
	if err := o.SetFaults(Faults{}); err != nil {
		t.Fatal(err)
	}
	if l := <-got; !strings.Contains(l, "202") {
		t.Errorf("after the stall: %q", l)
	}
}

func TestAFullQueueRecordsNothing(t *testing.T) {
	o := start(t, Options{Work: dist.Const(time.Hour), MaxDepth: 1})
	codes := []int{publish(t, o, "").StatusCode, publish(t, o, "").StatusCode, publish(t, o, "").StatusCode}
	if codes[0] != 202 || codes[1] != 202 || codes[2] != 503 || o.Ledger().Totals().Recorded != 2 || o.Failed() != 1 {
		t.Errorf("answers %v, recorded %d; one is under way and one may wait", codes, o.Ledger().Totals().Recorded)
	}
}

// An origin that is closed at once does stop, served or not.
func TestCloseRightAfterStart(t *testing.T) {
	for range 50 {
		o, err := Start(Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNonsenseIsRefusedAtTheStart(t *testing.T) {
	for _, o := range []Options{
		{Workers: -1}, {Work: dist.Between(2, 1)}, {Faults: Faults{LostShare: 1.5}},
		{Faults: Faults{LostShare: 0.6, ErrorShare: 0.6}}, {Addr: "300.0.0.1:1"},
	} {
		if org, err := Start(o); err == nil {
			org.Close()
			t.Errorf("%+v starts", o)
		}
	}
}
