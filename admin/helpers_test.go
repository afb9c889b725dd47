package admin

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"sluice/admission"
)

// epoch is when test requests are received, unless they say otherwise.
var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// testPolicy has routes r0 to rn and the classes critical, standard and bulk.
func testPolicy(routes int) *Policy {
	p := &Policy{Hash: "cafe", Classes: []string{"critical", "standard", "bulk"}}
	for i := range routes {
		p.Routes = append(p.Routes, &admission.Route{ID: fmt.Sprintf("r%d", i), Index: i})
	}
	return p
}

// seeded returns a random source and prints its seed.
func seeded(t testing.TB) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// randomEvent makes an event that the gateway could report.
func randomEvent(rng *rand.Rand, p *Policy, tenants int) *admission.Event {
	r := &admission.Request{
		ID: fmt.Sprintf("id-%d", rng.Uint32()), Received: epoch.Add(time.Duration(rng.IntN(10_000)) * time.Millisecond),
		Tenant: fmt.Sprintf("tenant-%d", rng.IntN(tenants)), Class: admission.NoClass,
	}
	if i := rng.IntN(len(p.Routes) + 1); i < len(p.Routes) {
		r.Route = p.Routes[i]
		r.Class = admission.Class(rng.IntN(len(p.Classes)))
	}
	e := &admission.Event{Request: r, Status: 200, Decided: time.Duration(1 + rng.IntN(50_000))}
	reasons := admission.Reasons()
	switch rng.IntN(4) {
	case 0:
		e.Decision = admission.Decision{Verdict: admission.Refuse, Reason: reasons[rng.IntN(len(reasons))]}
		e.Decision.Status = e.Decision.Reason.Status()
		e.Status = e.Decision.Status
		if e.Decision.Reason.Retryable() {
			e.Decision.RetryAfter = time.Duration(rng.IntN(100)) * time.Second
		}
		e.Done = e.Decided + time.Duration(rng.IntN(50_000))
	case 1:
		e.Decision.Verdict = admission.Replay
		e.Done = e.Decided + time.Duration(rng.IntN(50_000))
	default:
		e.Decision.Verdict = admission.Admit
		if rng.IntN(5) == 0 {
			e.Decision.Shadow = reasons[rng.IntN(len(reasons))]
		}
		e.Sent = e.Decided + time.Duration(rng.IntN(1_000_000))
		e.Outcome = admission.Outcome(rng.IntN(outcomeCount))
		switch e.Outcome {
		case admission.Answered:
			e.OriginAnswered = e.Sent + time.Duration(rng.IntN(1_000_000_000))
			e.Status = 100 * (1 + rng.IntN(5))
		case admission.Unknown:
			e.Failure = admission.OriginTimeout
		case admission.NotSent:
			e.Failure, e.Sent = admission.OriginUnreachable, 0
		case admission.NotTried:
			e.Sent = 0
		}
		e.Done = max(e.Sent, e.OriginAnswered, e.Decided) + time.Duration(rng.IntN(50_000))
	}
	if rng.IntN(2) == 0 {
		r.Second = admission.Second{Asked: true, Verdict: admission.Verdict(rng.IntN(verdictCount)), Class: "bulk"}
		if r.Second.Verdict == admission.Refuse {
			r.Second.Reason = reasons[rng.IntN(len(reasons))]
		}
	}
	e.Decision.Limit.Name = []string{"", "default", "gold"}[rng.IntN(3)]
	return e
}

// gathered is one scrape, by metric name.
type gathered map[string]*dto.MetricFamily

func gather(t testing.TB, c prometheus.Collector) gathered {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	if err := reg.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	g := make(gathered)
	for _, f := range families {
		g[f.GetName()] = f
	}
	return g
}

// sum adds up the metric's series that have all the labels given, as "name",
// "value" pairs.
func (g gathered) sum(name string, labels ...string) (total float64) {
	f := g[name]
	if f == nil {
		return 0
	}
	for _, m := range f.Metric {
		matches := true
		for i := 0; i < len(labels); i += 2 {
			if label(m, labels[i]) != labels[i+1] {
				matches = false
			}
		}
		if matches {
			total += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return total
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.Label {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

func textLogger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
