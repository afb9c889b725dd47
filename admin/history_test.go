package admin

import (
	"testing"
	"testing/synctest"
	"time"

	"sluice/admission"
)

func value(h History, series string, i int) float64 {
	if s := h.Series[series]; s != nil && s[i] != nil {
		return *s[i]
	}
	return 0
}

// Property 15, for the history: the seconds add up to what was counted, and
// five minutes are kept.
func TestHistoryAddsUp(t *testing.T) {
	rng := seeded(t)
	synctest.Test(t, func(t *testing.T) {
		m := NewMetrics(MetricsOptions{})
		section := Section{Name: "queues", Series: func() map[string]float64 { return map[string]float64{"queues/orders/wait": 4.5} }}
		l := NewLive(m, LiveOptions{Sections: []Section{section}})
		p := testPolicy(3)
		m.SetPolicy(p)
		l.sample(time.Now())
		for range 200 {
			for range rng.IntN(50) {
				m.Begin()
				m.Observe(randomEvent(rng, p, 10))
			}
			time.Sleep(time.Second)
			l.sample(time.Now())
		}
		h := l.History()
		if len(h.Times) != 200 {
			t.Fatalf("%d points, want 200", len(h.Times))
		}
		g := gather(t, m)
		for series, want := range map[string]float64{
			"received":               g.sum("sluice_requests_received_total"),
			"admit":                  g.sum("sluice_decisions_total", "verdict", "admit", "mode", "enforce"),
			"refuse/tenant_limit":    g.sum("sluice_decisions_total", "reason", "tenant_limit", "mode", "enforce"),
			"shadow/shed":            g.sum("sluice_decisions_total", "reason", "shed", "mode", "shadow"),
			"failure/origin_timeout": g.sum("sluice_request_failures_total", "reason", "origin_timeout"),
			"class/bulk/replay":      g.sum("sluice_decisions_total", "class", "bulk", "verdict", "replay"),
			"queues/orders/wait":     200 * 4.5,
		} {
			got := 0.
			for i := range h.Times {
				got += value(h, series, i)
			}
			if diff := got - want; diff > 1e-6 || diff < -1e-6 {
				t.Errorf("%s adds up to %v, want %v", series, got, want)
			}
		}
		for range 200 {
			time.Sleep(time.Second)
			l.sample(time.Now())
		}
		h = l.History()
		if n := len(h.Times); n != historyPoints || h.Times[n-1] != time.Now().UnixMilli() {
			t.Errorf("%d points, the last at %d; want %d, the last at %d", n, h.Times[n-1], historyPoints, time.Now().UnixMilli())
		}
	})
}

// Rates are those of the last ten seconds; totals are since the start.
func TestStatusRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMetrics(MetricsOptions{Now: time.Now})
		l := NewLive(m, LiveOptions{})
		p := testPolicy(2)
		m.SetPolicy(p)
		l.sample(time.Now())
		for second := range 30 {
			for range 6 {
				m.Begin()
				m.Observe(&admission.Event{Request: &admission.Request{Route: p.Routes[1], Class: 1, Tenant: "acme", Received: time.Now()}, Decision: admission.Decision{Verdict: admission.Admit}})
				if second >= 20 {
					m.Begin()
					m.Observe(refusal(p, admission.Shed, 0))
				}
			}
			time.Sleep(time.Second)
			l.sample(time.Now())
		}
		st := Status{Now: time.Now()}
		l.fill(&st, m.take(st.Now))
		if st.Totals.Received != 240 || st.Totals.Verdicts["admit"] != 180 || st.Totals.Refused["shed"] != 60 {
			t.Errorf("totals %+v", st.Totals)
		}
		if len(st.Classes) != 3 || st.Classes[1].Class != "standard" || st.Classes[1].AdmitRate != 6 || st.Classes[1].RefuseRate != 6 {
			t.Errorf("classes %+v, want all three of the policy, and 6/s each way for standard", st.Classes)
		}
		if len(st.Routes) != 2 || st.Routes[1].Admit != 180 || st.Routes[1].LastHit == nil || st.Routes[0].Refused["shed"] != 60 {
			t.Errorf("routes %+v", st.Routes)
		}
		if len(st.Tenants) != 1 || st.Tenants[0].Tenant != "acme" || st.Tenants[0].AdmitRate != 6 || st.Tenants[0].Share != 1 {
			t.Errorf("tenants %+v", st.Tenants)
		}
	})
}
