package ratelimit

import (
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/time/rate"

	"sluice/admission"
)

// epoch is when the tests' gates are made. It has no monotonic reading, so
// tests are free to go back in time.
var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return epoch.Add(d) }

// fields is a request's header.
type fields [][2]string

func (f fields) Get(name string) (value string, count int) {
	for _, field := range f {
		if strings.EqualFold(field[0], name) {
			if count == 0 {
				value = field[1]
			}
			count++
		}
	}
	return value, count
}

func quota(r rate.Limit, burst int) Quota { return Quota{Rate: r, Burst: burst} }

// policyOf limits all tenants alike.
func policyOf(q Quota) Options {
	return Options{MaxTenants: MinTenants, Tenants: &Limit{Name: "tenant", Quota: q}}
}

func newGate(t testing.TB, o Options) *Gate {
	t.Helper()
	g, err := New(o, epoch)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// ask reserves once for a tenant, at a cost.
func ask(g *Gate, now time.Time, tenant string, cost int64) (admission.Permit, admission.Refusal, admission.Limit) {
	route := admission.Route{Cost: cost}
	r := admission.Request{Tenant: tenant, Route: &route}
	var d admission.Decision
	p, f := g.Reserve(now, &r, &d)
	return p, f, d.Limit
}

// admits reports whether a tenant gets in at a cost, spending it if so.
func admits(g *Gate, now time.Time, tenant string, cost int64) bool {
	_, f, _ := ask(g, now, tenant, cost)
	return !f.Is()
}

func look(g *Gate, now time.Time, tenant string) State {
	return g.Look(now, &admission.Request{Tenant: tenant})
}

// drain spends all that a tenant has and returns how much that was.
func drain(g *Gate, now time.Time, tenant string) int {
	n := 0
	for admits(g, now, tenant, 1) {
		n++
	}
	return n
}

// onTheWire is a Retry-After as the client gets it.
func onTheWire(d time.Duration) time.Duration {
	return max((d + time.Second - 1).Truncate(time.Second), time.Second)
}

// view returns b as a string that shares its memory, as the transport's do.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
