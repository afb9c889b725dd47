// Command gateway is a stand-in for the gateway in the dashboard's browser
// tests: the real admin listener over made-up traffic, seeded, with tenants
// whose names are hostile. Every second reload fails.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"

	"sluice/admin"
	"sluice/admission"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address of the admin listener")
	rate := flag.Float64("rate", 400, "requests a second")
	flag.Parse()
	if err := run(*listen, *rate); err != nil {
		log.Fatal(err)
	}
}

func run(listen string, rate float64) error {
	g := &gateway{metrics: admin.NewMetrics(admin.MetricsOptions{Version: "0.1.0"}), rng: rand.New(rand.NewPCG(7, 7)), started: time.Now(), rate: rate}
	sections := []admin.Section{
		{Name: "queues", Value: g.queues, Series: g.series},
		{Name: "signals", Value: g.signals},
		{Name: "places", Value: g.places},
		{Name: "idempotency", Value: g.keys},
		{Name: "connections", Value: func() any { return map[string]any{"open": 32, "turned_away": 0} }},
	}
	live := admin.NewLive(g.metrics, admin.LiveOptions{Sections: sections})
	g.observer = admin.Fanout{g.metrics, live}
	g.policy = policy()
	g.observer.SetPolicy(g.policy)
	g.metrics.ConfigLoaded(admin.ReloadRecord{At: g.started, Trigger: "start", Hash: g.policy.Hash})
	server, err := admin.NewServer(admin.Options{Listen: listen, Write: true, Explain: explain, Gateway: g, Metrics: g.metrics, Live: live, Sections: sections})
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	fmt.Println("listening on", server.Addr())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	g.traffic(ctx)
	return server.Shutdown(context.Background())
}

func policy() *admin.Policy {
	p := &admin.Policy{Hash: "9f2c41d07be3", Classes: []string{"critical", "standard", "bulk"}}
	for i, r := range []admission.Route{
		{ID: "create-order", Class: 0}, {ID: "update-order", Class: 1}, {ID: "send-email", Class: 1},
		{ID: "campaign", Class: 2, Mode: admission.Shadow}, {ID: "export", Class: 2}, {ID: "legacy-import", Class: 2},
	} {
		r.Index = i
		p.Routes = append(p.Routes, &r)
	}
	return p
}

// explain is of the form in which decisions are explained. Ids that end in 0
// cannot be.
func explain(_ context.Context, id string) (any, error) {
	if id[len(id)-1] == '0' {
		return nil, errors.New("the policy that decided is gone")
	}
	type fact struct {
		What  string `json:"what"`
		Value string `json:"value"`
	}
	type step struct {
		Step    string `json:"step"`
		Outcome string `json:"outcome"`
		Path    string `json:"path"`
		Where   string `json:"where"`
		Says    string `json:"says"`
		Saw     []fact `json:"saw"`
	}
	return map[string]any{
		"steps": []step{
			{"route", "found", "routes[3]", "config.yaml:41", "POST /v1/campaigns/*/send is campaign", nil},
			{"tenant", "found", "tenants.from[0]", "config.yaml:9", "X-Tenant-Id says " + tenants[10], nil},
			{"limit", "passed", "tenants.limit", "config.yaml:10", "the bucket has a token", []fact{{"level", "117 of 200"}}},
			{"queue", "refused", "queues.orders.shed.bulk", "config.yaml:27", "bulk is let in below a wait of 3m", []fact{{"predicted wait", "3m12s"}, {"band", "2m to 3m"}, {"share let in", "0%"}}},
		},
		"verdict": "refuse", "reason": "deferred", "shadow": "none", "decided_by": "queue",
		"path": "queues.orders.shed.bulk", "where": "config.yaml:27", "otherwise": []string{"a predicted wait below 2m", "a class above bulk"},
	}, nil
}

// tenants are listed busiest first.
var tenants = []string{"acme", "globex", "initech", "umbrella", "hooli", "stark", "wayne", "wonka", "tyrell", "cyberdyne",
	"<img src=x onerror=document.title='broken'>", "a tenant with quite a long name, as people give"}

type gateway struct {
	metrics  *admin.Metrics
	observer admin.Fanout
	policy   *admin.Policy
	started  time.Time
	rate     float64
	rng      *rand.Rand
	running  []*admission.Event

	mu        sync.Mutex
	reloads   int
	reloadErr string
	wait      float64 // predicted wait of the queue, seconds
}

func (g *gateway) Status() admin.GatewayStatus {
	g.mu.Lock()
	defer g.mu.Unlock()
	return admin.GatewayStatus{
		Version: "0.1.0", Started: g.started, Mode: "enforce",
		Config:    admin.ConfigStatus{Path: "/etc/sluice/config.yaml", Hash: g.policy.Hash, Loaded: g.started, ReloadError: g.reloadErr, RestartPending: []string{}},
		Listeners: []admin.Listener{{Name: "public", Address: "127.0.0.1:8080"}},
		Origin: admin.OriginStatus{URL: "http://origin.internal:3000", Addresses: []admin.OriginAddress{
			{Address: "10.0.3.17:3000", Healthy: true, InFlight: 12}, {Address: "10.0.3.18:3000", Healthy: true, InFlight: 9}}},
		Candidate: &admin.CandidateStatus{Path: "/etc/sluice/next.yaml", Hash: "51d0c47ae99b", Since: g.started},
	}
}

func (g *gateway) Ready() error { return nil }

func (g *gateway) Drain(bool) error { return nil }

func (g *gateway) Reload(_ context.Context, trigger string) (admin.ReloadReport, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reloads++
	record := admin.ReloadRecord{At: time.Now(), Trigger: trigger, Hash: g.policy.Hash, Changed: []string{"tenants.limit.rate"}}
	g.reloadErr = ""
	if g.reloads%2 == 1 {
		g.reloadErr = "config.yaml:14:12: tenants.limit.rate: 100 has no unit; write 100/s"
		record = admin.ReloadRecord{At: record.At, Trigger: trigger, Error: g.reloadErr}
	}
	g.metrics.ConfigLoaded(record)
	if g.reloadErr != "" {
		return admin.ReloadReport{}, errors.New(g.reloadErr)
	}
	return admin.ReloadReport{Hash: g.policy.Hash, Changed: record.Changed, BucketsKept: 41, BucketsRescaled: 12}, nil
}

func (g *gateway) queues() any {
	wait := g.predicted()
	retry := map[string]any{}
	if share(wait) > 0 {
		retry["bulk"] = "40s"
	}
	return map[string]any{"orders": map[string]any{
		"wait_seconds": wait, "max_useful_age_seconds": 300, "strain_share": wait / 300,
		"share_admitted": map[string]any{"critical": 1, "standard": 1 - share(wait)/4, "bulk": 1 - share(wait)},
		"retry_after":    retry, "mode": "enforce", "worst_signal": "redis_stream", "closed": false, "transitions": 4,
	}}
}

func (g *gateway) signals() any {
	return map[string]any{"orders/redis_stream": map[string]any{
		"health": "fresh", "on_loss": "hold", "last": "sound", "age_seconds": g.predicted() * 0.9, "depth": 41_200, "done": nil,
		"wait_seconds": g.predicted(), "backlog": 41_500, "rate": 212.4, "stall_seconds": 0, "stuck": false, "read_ago_seconds": 0.4, "error": nil,
	}}
}

func (g *gateway) places() any {
	type class struct{ Used, Waiting int }
	return map[string]any{"all routes": struct {
		Max, Limit, Used int
		Classes          []class
	}{200, 200, 25, []class{{18, 0}, {5, 0}, {2, 3}}}}
}

func (g *gateway) keys() any {
	return map[string]any{
		"store": "redis", "requests": map[string]int{"fresh": 51_204, "replayed": 1288, "in_progress": 17, "in_doubt": 2, "reused": 0},
		"refused_store_down": 0, "store_errors": 0, "from_memory": 961, "running": 21, "waiting": 1, "put_in_doubt": 2,
		"taken_over": 0, "not_stored": 0, "retrying": 0,
	}
}

func (g *gateway) predicted() float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.wait
}

func (g *gateway) series() map[string]float64 {
	wait := g.predicted()
	return map[string]float64{
		"queues/orders/wait_seconds": wait, "queues/orders/age_seconds": wait * 0.9,
		"queues/orders critical/share_admitted": 1, "queues/orders standard/share_admitted": 1 - share(wait)/4, "queues/orders bulk/share_admitted": 1 - share(wait),
	}
}

// share is the part of bulk work refused at that wait.
func share(wait float64) float64 { return min(1, max(0, (wait-120)/120)) }

// traffic makes requests until ctx ends, in waves of two minutes.
func (g *gateway) traffic(ctx context.Context) {
	const every = 20 * time.Millisecond
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	owed := 0.
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			t := now.Sub(g.started).Seconds()
			wave := 1 + 0.35*math.Sin(t/19) + 0.5*max(0, math.Sin(t/23-1))
			g.mu.Lock()
			g.wait = max(2, 150*max(0, math.Sin(t/23-1.4))+8*math.Sin(t/3)+12)
			g.mu.Unlock()
			for owed += g.rate * wave * every.Seconds() * (0.7 + 0.6*g.rng.Float64()); owed >= 1; owed-- {
				g.metrics.Begin()
				g.running = append(g.running, g.request(now, share(g.wait)))
			}
			g.finish(now)
		}
	}
}

// finish reports the requests that have ended by now.
func (g *gateway) finish(now time.Time) {
	g.running = slices.DeleteFunc(g.running, func(e *admission.Event) bool {
		if e.Request.Received.Add(e.Done).After(now) {
			return false
		}
		g.observer.Observe(e)
		return true
	})
}

func (g *gateway) request(now time.Time, shed float64) *admission.Event {
	rng := g.rng
	route := g.policy.Routes[[]int{0, 0, 0, 0, 1, 1, 2, 2, 3, 4}[rng.IntN(10)]]
	r := &admission.Request{ID: fmt.Sprintf("%016x", rng.Uint64()), Received: now, Route: route, Class: route.Class,
		Tenant: tenants[min(len(tenants)-1, int(rng.ExpFloat64()*2.6))]}
	if rng.IntN(60) == 0 {
		r.Route, r.Class = nil, admission.NoClass
	}
	e := &admission.Event{Request: r, Decided: time.Duration(900+rng.ExpFloat64()*900) * time.Nanosecond, BytesIn: rng.Int64N(4000), BytesOut: rng.Int64N(1000)}
	refuse := func(reason admission.Reason, after time.Duration, detail string) {
		e.Decision = admission.Decision{Verdict: admission.Refuse, Reason: reason, Status: reason.Status(), RetryAfter: after}
		e.Status, e.Detail, e.Done = reason.Status(), detail, e.Decided+time.Duration(rng.IntN(30_000))
	}
	switch p := rng.Float64(); {
	case r.Tenant == "acme" && p < 0.25:
		refuse(admission.TenantLimit, time.Duration(rng.IntN(4000))*time.Millisecond, "bucket default: 0 of 200 tokens")
	case route.Class == 2 && p < shed && route.Mode == admission.Shadow:
		e.Decision.Shadow = admission.Deferred
		g.forward(e)
	case route.Class == 2 && p < shed:
		refuse(admission.Deferred, 40*time.Second, "queue orders: predicted wait over the band of bulk")
	case route.Class == 1 && p < shed/4:
		refuse(admission.Shed, 20*time.Second, "queue orders: predicted wait over the band of standard")
	case p > 0.996:
		refuse(admission.KeyReused, 0, "")
	case p > 0.97:
		e.Decision.Verdict, e.Status, e.Done = admission.Replay, 201, e.Decided+40*time.Microsecond
	default:
		g.forward(e)
	}
	r.Second = second(r, &e.Decision, g.policy)
	return e
}

// second is what a candidate with a tighter band for bulk and a larger limit
// decides.
func second(r *admission.Request, d *admission.Decision, p *admin.Policy) admission.Second {
	s := admission.Second{Asked: true, Verdict: d.Verdict, Reason: d.Reason}
	if r.Route != nil {
		s.Route, s.Class = r.Route.ID, p.Classes[r.Class]
	}
	switch {
	case d.Reason == admission.TenantLimit && r.ID[0] < 'a':
		s.Verdict, s.Reason = admission.Admit, admission.None
	case d.Verdict == admission.Admit && r.Class == 2 && r.ID[1] < '4':
		s.Verdict, s.Reason = admission.Refuse, admission.Deferred
	case d.Reason == admission.Shed:
		s.Reason = admission.Deferred
	}
	return s
}

func (g *gateway) forward(e *admission.Event) {
	rng := g.rng
	e.Decision.Verdict = admission.Admit
	e.Sent = e.Decided + time.Duration(40_000+rng.IntN(80_000))
	took := time.Duration(3+rng.ExpFloat64()*9+g.wait/8*rng.ExpFloat64()) * time.Millisecond
	if rng.IntN(900) == 0 {
		e.Outcome, e.Failure, e.Status, e.Done = admission.Unknown, admission.OriginTimeout, 504, 10*time.Second
		e.Detail = "10.0.3.17:3000: no answer within 10s"
		return
	}
	e.Outcome, e.Status = admission.Answered, 202
	e.OriginAnswered = e.Sent + took
	e.Done = e.OriginAnswered + 30*time.Microsecond
}
