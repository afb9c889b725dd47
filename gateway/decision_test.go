package gateway

import (
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"sluice/admission"
	"sluice/config"
	"sluice/shedding"
)

// fields is a request's header in a decision without a transport.
type fields []admission.Field

func (f *fields) Get(name string) (value string, count int) {
	for i := range *f {
		// Most names of the same length begin with another letter.
		if field := &(*f)[i]; len(field.Name) == len(name) && field.Name[0]|0x20 == name[0]|0x20 && (field.Name == name || strings.EqualFold(field.Name, name)) {
			if count == 0 {
				value = field.Value
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
// the other. It is used by one goroutine at a time.
type decider struct {
	gateway    *Gateway
	controller *admission.Controller
	request    admission.Request
	decision   admission.Decision
	header     fields
	tenants    int
	name       [len(namePrefix) + len(digits{})]byte
	turns      []digits // whose turn it is, over and over
	turn       int
	now        time.Time
}

// turnCount is how many turns are drawn beforehand.
const turnCount = 1 << 20

// digits are a tenant's number, with which its name ends. They are written
// beforehand: a decision is not to be measured with what it takes to make names
// up.
type digits [7]byte

const namePrefix = "tenant-"

func digitsOf(n int) (d digits) {
	for i := len(d) - 1; i >= 0; i-- {
		d[i] = byte('0' + n%10)
		n /= 10
	}
	return d
}

// atRandom gives every tenant as many turns as any other.
func atRandom(tenants int) []digits {
	rnd, turns := rand.New(rand.NewPCG(1, 2)), make([]digits, turnCount)
	for i := range turns {
		turns[i] = digitsOf(rnd.IntN(tenants))
	}
	return turns
}

// zipf gives tenants turns as traffic does: half of them to a few.
func zipf(tenants int) []digits {
	rnd, turns := rand.New(rand.NewPCG(1, 2)), make([]digits, turnCount)
	z := rand.NewZipf(rnd, 1.05, 1, uint64(tenants-1))
	for i := range turns {
		turns[i] = digitsOf(int(z.Uint64()))
	}
	return turns
}

// newDecider returns a decider to whose gateway all tenants are known, and whose
// queue is old enough for bulk to be shed in part.
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
		tenants:    tenants,
		turns:      atRandom(tenants),
		now:        time.Now(),
	}
	d.fill()
	for i := range tenants {
		d.decideFor(digitsOf(i))
	}
	for range 3 {
		d.now = d.now.Add(time.Second)
		if _, err := g.current.Load().queues.gate.Observe(d.now, "orders", "push", shedding.Sample{At: d.now, Age: shedding.Known(20), Depth: shedding.Known(1000)}); err != nil {
			tb.Fatal(err)
		}
	}
	return d
}

func (d *decider) fill() {
	copy(d.name[:], namePrefix)
	d.header = fields{{Name: "User-Agent", Value: "test"}, {Name: "Accept", Value: "*/*"}, {Name: "X-Tenant-Id"}}
}

// another returns a decider that decides beside d under the same policy.
func (d *decider) another(turn int) *decider {
	b := &decider{gateway: d.gateway, controller: d.controller, tenants: d.tenants, turns: d.turns, turn: turn, now: d.now}
	b.fill()
	return b
}

// decide makes one decision, and ends what it admits.
func (d *decider) decide() admission.Verdict {
	return d.decideFor(d.turns[d.turn%turnCount])
}

// decideFor makes a decision for the tenant with a number. Its name is written
// into one buffer, as a transport would: what it costs to fetch is not the
// gateway's.
func (d *decider) decideFor(number digits) admission.Verdict {
	d.turn++
	if d.turn%16 == 0 {
		d.now = d.now.Add(16 * time.Microsecond)
	}
	copy(d.name[len(namePrefix):], number[:])
	d.header[2].Value = unsafe.String(&d.name[0], len(d.name))
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
	for _, c := range []struct {
		name    string
		tenants int
		turns   func(int) []digits
	}{
		{"thousand", 1000, atRandom},
		{"million", 1_000_000, atRandom},
		{"million,zipf", 1_000_000, zipf},
	} {
		b.Run(c.name, func(b *testing.B) {
			d := newDecider(b, c.tenants)
			d.turns = c.turns(c.tenants)
			b.Run("one", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					d.decide()
				}
			})
			b.Run("all", func(b *testing.B) {
				b.ReportAllocs()
				var begin atomic.Int64
				b.RunParallel(func(pb *testing.PB) {
					d := d.another(int(begin.Add(turnCount / 16)))
					for pb.Next() {
						d.decide()
					}
				})
			})
		})
	}
}
