package rehearse

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sluice/admission"
	"sluice/config"
	"sluice/shedding"
)

func parse(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("policy.yaml", []byte("version: 1\norigin: {url: http://127.0.0.1:3000, max_in_flight: 2}\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func stage(t *testing.T, cfg *config.Config, given Given) *Stage {
	t.Helper()
	s, err := NewStage(cfg, given)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// A timeline moves in straight lines, and what it does not say is not known.
func TestTimeline(t *testing.T) {
	known := shedding.Known
	l := Timeline{
		{At: 0, Age: known(10), Done: known(5)},
		{At: 10 * time.Second, Age: known(30), Depth: known(7), Done: known(2)},
		{At: 20 * time.Second, Silent: true},
		{At: 30 * time.Second, Age: known(40), Depth: known(8), Frozen: true},
		{At: 40 * time.Second, Depth: known(9)},
	}
	for _, c := range []struct {
		at               time.Duration
		age, depth, done string
	}{
		{0, "10", "-", "0"},
		{5 * time.Second, "20", "-", "25"},
		{10 * time.Second, "30", "7", "50"},
		{15 * time.Second, "30", "7", "60"}, // not on its way to silence
		{20 * time.Second, "silent", "", ""},
		{29 * time.Second, "silent", "", ""},
		{35 * time.Second, "40", "8", "-"},
		{45 * time.Second, "-", "9", "-"},
	} {
		s, ok := l.sample(c.at, 0)
		text := func(v shedding.Value) string {
			if f, ok := v.Get(); ok {
				return fmt.Sprint(math.Round(f))
			}
			return "-"
		}
		got := []string{text(s.Age), text(s.Depth), text(s.Done)}
		if !ok {
			got = []string{"silent", "", ""}
		}
		if want := []string{c.age, c.depth, c.done}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("at %v it reads %v, want %v", c.at, got, want)
		}
	}
	if s, ok := (Timeline)(nil).sample(time.Hour, 3); !ok || s.Age.Or(-1) != 0 || s.Depth.Or(-1) != 0 {
		t.Errorf("the zero timeline reads %+v, want an empty queue", s)
	}
}

// A true queue wavers, so a steady timeline is believed for as long as it lasts;
// one that is frozen is not.
func TestSteadyTimelinesAreBelieved(t *testing.T) {
	cfg := parse(t, "queues: {work: {max_useful_age: 100s, signal: {every: 1s, push: {}}}}\nroutes: [{id: put, match: {path: /put}, class: standard, queue: work}]\n")
	for frozen, want := range map[bool]string{false: "fresh", true: "lost"} {
		s := stage(t, cfg, Given{Signals: map[string]Timeline{"work": {{Age: shedding.Known(42), Depth: shedding.Known(100), Frozen: frozen}}}})
		for i := range 300 {
			if err := s.Advance(time.Duration(i) * 100 * time.Millisecond); err != nil {
				t.Fatal(err)
			}
			s.Send(&Request{Method: "GET", Path: "/put"}, nil, func(*Performance) {})
		}
		if got := s.Queues.State(s.Clock())[0].Signals[0].Health.String(); got != want {
			t.Errorf("frozen %v: after 30s the signal is %s, want %s", frozen, got, want)
		}
	}
}

// Requests hold their place at the origin until they end, in the order of time.
func TestPlacesAreHeldAndGivenUp(t *testing.T) {
	s := stage(t, parse(t, "routes: [{id: put, match: {path: /put}, class: standard}]\n"), Given{Origin: Origin{Takes: 3 * time.Second}})
	var got []string
	for _, at := range []time.Duration{0, 1, 2, 3, 3, 4, 5} {
		if err := s.Advance(at * time.Second); err != nil {
			t.Fatal(err)
		}
		s.Send(&Request{Method: "GET", Path: "/put"}, nil, func(p *Performance) { got = append(got, p.Decision.Verdict.String()) })
	}
	// Two places: those of the requests at 0 s and 1 s are free at 3 s and 4 s.
	if want := "admit admit refuse admit refuse admit refuse"; strings.Join(got, " ") != want {
		t.Errorf("decided: %s, want %s", strings.Join(got, " "), want)
	}
	if err := s.Finish(); err != nil {
		t.Fatal(err)
	}
	if p, _ := s.Places(s.Routes[0]); p.Used != 0 {
		t.Errorf("after the end %d places are held", p.Used)
	}
	if err := s.Advance(time.Second); err == nil {
		t.Error("it went back in time")
	}
}

// A keyed request is told of when its answer is settled, with what it was.
func TestKeyedRequestsAreToldAtTheirEnd(t *testing.T) {
	s := stage(t, parse(t, "routes: [{id: put, match: {path: /put}, class: standard, idempotency: {key: required, methods: [POST]}}]\n"), Given{})
	q := &Request{Method: "POST", Path: "/put", Header: Fields{{"Idempotency-Key", "k"}}}
	told := ""
	s.Send(q, &Origin{Takes: time.Second, Outcome: admission.Unknown}, func(p *Performance) { told = p.Decision.KeyStatus })
	if told != "" {
		t.Fatalf("it was told of before its end: %s", told)
	}
	if err := s.Advance(time.Second); err != nil {
		t.Fatal(err)
	}
	if told != "in_doubt" {
		t.Errorf("its key is told to be %q, want in_doubt", told)
	}
}

// Who the tenant is follows from what is sent, unless nothing that is sent can
// say it.
func TestTenants(t *testing.T) {
	const hash = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b" // of "secret"
	header := "tenants: {from: [{header: X-Tenant-Id}, {client_ip: {}}]}\n"
	key := "trusted_proxies: [10.0.0.0/8]\ntenants: {from: [{api_key: {}}, {client_ip: {}}], api_keys: [{sha256: " + hash + ", tenant: acme}]}\n"
	route := "routes: [{id: put, match: {path: /put}, class: standard}]\n"
	for _, c := range []struct {
		policy string
		q      Request
		want   string
		sent   string // X-Tenant-Id
	}{
		{header, Request{Tenant: "acme"}, "acme", "acme"},
		{header, Request{}, "ip:192.0.2.1", ""},
		{header, Request{Tenant: "acme", Header: Fields{{"X-Tenant-Id", "globex"}}}, "globex", "globex"},
		{key, Request{Tenant: "acme"}, "acme", ""},
		{key, Request{Header: Fields{{"X-Api-Key", "secret"}}}, "acme", ""},
		{key, Request{Client: netip.MustParseAddr("10.0.0.1"), Header: Fields{{"X-Forwarded-For", "203.0.113.9, 10.0.0.2"}}}, "ip:203.0.113.9", ""},
		{key, Request{Client: netip.MustParseAddr("192.0.2.9"), Header: Fields{{"X-Forwarded-For", "203.0.113.9"}}}, "ip:192.0.2.9", ""},
	} {
		s := stage(t, parse(t, c.policy+route), Given{})
		c.q.Method, c.q.Path = "GET", "/put"
		s.Send(&c.q, nil, func(p *Performance) {
			sent, _ := p.Request.Header.Get("X-Tenant-Id")
			if p.Request.Tenant != c.want || sent != c.sent {
				t.Errorf("%+v: the tenant is %q with %q in X-Tenant-Id, want %q and %q", c.q, p.Request.Tenant, sent, c.want, c.sent)
			}
		})
	}
}

func TestGivenNamesOnlyWhatThereIs(t *testing.T) {
	_, err := NewStage(parse(t, "queues: {work: {max_useful_age: 100s, signal: {every: 1s, push: {}}}}\n"), Given{Signals: map[string]Timeline{"wrok": nil}})
	if err == nil || !strings.Contains(err.Error(), "there are: work, work/push") {
		t.Errorf("want an error that lists the signals, got %v", err)
	}
}
