package shedding

import (
	"fmt"
	"sync"
	"testing"
	"time"
	"unsafe"

	"sluice/admission"
)

func TestDecidingConcurrently(t *testing.T) {
	g := newTestGate(t, QueueOptions{})
	now := strain(t, g, start, 60)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 5000 {
				at := now.Add(time.Duration(i) * time.Millisecond)
				a := reserve(g, at, fmt.Sprint("t", i%50), admission.Class(i%3), header{"Idempotency-Key": fmt.Sprint(w, i)})
				if a.permit.Ref != nil && i%2 == 0 {
					g.GiveBack(at, a.permit)
				}
				if i%100 == 0 {
					g.State(at)
					if _, err := g.Observe(at, "q", "s", Sample{Depth: Known(6000), Done: Known(float64(2000 + i))}); err != nil {
						t.Error(err)
					}
				}
			}
		}()
	}
	wg.Wait()
	var in, back uint64
	for _, c := range g.State(now)[0].Classes {
		in += c.AdmittedNewcomers + c.Kept
		back += c.GivenBack
	}
	if int64(in-back) != total(g) {
		t.Errorf("%d admitted, %d given back, but %d in the log", in, back, total(g))
	}
}

func TestDecisionAllocatesNothing(t *testing.T) {
	tickets, err := NewTickets()
	if err != nil {
		t.Fatal(err)
	}
	g := newTestGate(t, QueueOptions{}, func(o *Options) { o.Tickets = tickets })
	now := strain(t, g, start, 60)
	h := header{"Idempotency-Key": "k"}
	var r admission.Request
	var d admission.Decision
	r.Route, r.Tenant, r.Header = &testRoute, "tenant", h
	i := 0
	if n := testing.AllocsPerRun(5000, func() {
		i++
		r.Class = admission.Class(i % 3)
		d = admission.Decision{}
		p, _ := g.Reserve(now.Add(time.Duration(i)*time.Millisecond), &r, &d)
		if p.Ref != nil {
			g.GiveBack(now, p)
		}
	}); n != 0 {
		t.Errorf("a decision allocates %v times", n)
	}
}

func BenchmarkReserve(b *testing.B) {
	// As in a request, the tenant's name is in the cache; what is known of the
	// tenant is not.
	name := []byte("tenant-0000000")
	for _, bench := range []struct {
		name    string
		age     float64
		tenants int
	}{{"open", 0, 1 << 20}, {"shedding", 60, 1 << 20}, {"one tenant", 60, 1}} {
		b.Run(bench.name, func(b *testing.B) {
			g := newTestGate(b, QueueOptions{})
			now := strain(b, g, start, bench.age)
			var r admission.Request
			var d admission.Decision
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				for n, at := i*7919%bench.tenants, len(name)-1; at >= len("tenant-"); at-- {
					name[at] = byte('0' + n%10)
					n /= 10
				}
				r.Reset()
				r.Route, r.Header = &testRoute, header(nil)
				r.Tenant, r.Class = unsafe.String(&name[0], len(name)), admission.Class(i%3)
				d.Promise = admission.Promise{}
				g.Reserve(now.Add(time.Duration(i)*10*time.Microsecond), &r, &d)
			}
		})
	}
}
