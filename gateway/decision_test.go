package gateway

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/admission"
	"sluice/config"
	"sluice/shedding"
)

// fields is a request's header in a decision without a transport.
type fields []admission.Field

func (f fields) Get(name string) (value string, count int) {
	for i := range f {
		if len(f[i].Name) == len(name) && strings.EqualFold(f[i].Name, name) {
			if count == 0 {
				value = f[i].Value
			}
			count++
		}
	}
	return value, count
}

const decisionConfig = `version: 1
listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0}
origin: {url: http://127.0.0.1:1, max_in_flight: 1000}
tenants:
  from: [{header: X-Tenant-Id}]
  limit: {rate: 1000/s, burst: 1000}
  max_tracked: 1200000
class_header: {name: X-Priority, ceiling: standard}
priority:
  - {id: backfills, when: {header: {X-Job-Type: backfill}}, class: bulk}
  - {id: trials, when: {tenant: trial-*}, class: bulk}
queues:
  orders:
    max_useful_age: 1m
    signal: {push: {}}
    shed:
      bulk: {from: 20%, full: 50%, action: defer}
      standard: {from: 50%, full: 80%}
routes:
  - {id: campaign, match: {method: POST, path: /v1/campaigns/*/send}, class: bulk, queue: orders}
  - {id: order, match: {method: POST, path: /v1/orders}, class: critical, queue: orders}
`

// decider makes decisions under a whole policy, for one of many tenants after
// the other.
type decider struct {
	gateway    *Gateway
	controller *admission.Controller
	request    admission.Request
	decision   admission.Decision
	header     fields
	tenants    []string
	turn       int
	now        time.Time
}

func newDecider(tb testing.TB, tenants int) *decider {
	cfg, err := config.Parse("test.yaml", []byte(decisionConfig))
	if err != nil {
		tb.Fatal(err)
	}
	g, err := New(Options{Load: func() (*config.Config, error) { return cfg, nil }})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		g.listener.Close()
		_ = g.admin.Shutdown(tb.Context())
		_ = g.store.close(tb.Context())
		g.current.Load().queues.close()
	})
	d := &decider{
		gateway:    g,
		controller: g.current.Load().policy.Controller,
		header:     fields{{Name: "User-Agent", Value: "test"}, {Name: "Accept", Value: "*/*"}, {Name: "X-Tenant-Id"}},
		tenants:    make([]string, tenants),
		now:        time.Now(),
	}
	for i := range d.tenants {
		d.tenants[i] = "tenant-" + strconv.Itoa(i)
		d.decide()
	}
	// The queue is old enough for bulk to be shed in part.
	for range 3 {
		d.now = d.now.Add(time.Second)
		if _, err := g.current.Load().queues.gate.Observe(d.now, "orders", "push", shedding.Sample{At: d.now, Age: shedding.Known(20), Depth: shedding.Known(1000)}); err != nil {
			tb.Fatal(err)
		}
	}
	return d
}

// decide makes one decision, and ends what it admits.
func (d *decider) decide() admission.Verdict {
	d.turn++
	d.now = d.now.Add(time.Microsecond)
	tenant := d.tenants[d.turn*7919%len(d.tenants)]
	if tenant == "" {
		tenant = d.tenants[d.turn-1]
	}
	d.header[2].Value = tenant
	r := &d.request
	r.Reset()
	r.Method, r.Path, r.Header = "POST", "/v1/orders", &d.header
	if d.turn%4 == 0 {
		r.Path = "/v1/campaigns/spring/send"
	}
	d.decision = admission.Decision{}
	if f := d.controller.Classify(r); f.Is() {
		d.decision.Refuse(f)
		return d.decision.Verdict
	}
	d.controller.Admit(d.now, r, &d.decision)
	if d.decision.Verdict == admission.Admit {
		d.controller.End(d.now, r, admission.Answered, admission.Answer{})
	}
	return d.decision.Verdict
}

// A decision allocates nothing, with a million tenants and every gate on.
func TestDecisionAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Log("the race detector allocates on its own; this is measured without it")
		return
	}
	d := newDecider(t, 1_000_000)
	admitted := 0
	if n := testing.AllocsPerRun(20_000, func() {
		if d.decide() == admission.Admit {
			admitted++
		}
	}); n != 0 {
		t.Errorf("%v allocations a decision", n)
	}
	if admitted == 0 || admitted > 20_001 {
		t.Errorf("%d of 20,001 were admitted", admitted)
	}
}

func BenchmarkDecision(b *testing.B) {
	for _, tenants := range []int{1000, 1_000_000} {
		b.Run(strconv.Itoa(tenants), func(b *testing.B) {
			d := newDecider(b, tenants)
			b.ReportAllocs()
			for b.Loop() {
				d.decide()
			}
		})
	}
}
