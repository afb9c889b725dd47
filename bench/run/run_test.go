package run

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"sluice/bench/result"
	"sluice/bench/scenario"
)

// behaviour is how a target treats one request: it may forward it, and answers.
type behaviour func(ctx *fasthttp.RequestCtx, forward func(*fasthttp.Response))

// wrap makes a target with that behaviour, for one test.
func wrap(t *testing.T, b behaviour) func(string) (string, error) {
	return func(originURL string) (string, error) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		client := &fasthttp.HostClient{Addr: strings.TrimPrefix(originURL, "http://"), MaxConns: 4096, MaxIdemponentCallAttempts: 1}
		s := &fasthttp.Server{CloseOnShutdown: true, Handler: func(ctx *fasthttp.RequestCtx) {
			b(ctx, func(resp *fasthttp.Response) {
				if err := client.Do(&ctx.Request, resp); err != nil {
					resp.SetStatusCode(502)
				}
			})
		}}
		done := make(chan error, 1)
		go func() { done <- s.Serve(l) }()
		t.Cleanup(func() {
			client.CloseIdleConnections()
			_ = s.Shutdown()
			<-done
		})
		return "http://" + l.Addr().String(), nil
	}
}

func honest(ctx *fasthttp.RequestCtx, forward func(*fasthttp.Response)) { forward(&ctx.Response) }

// base is a scenario that a good target passes; %s takes further keys.
const base = `
version: 1
name: test
rehearses: A test.
healthy: All is well.
seed: 7
origin: {workers: 4, work: {fixed: 4ms}}
classes:
  - {name: critical, share: 50%%, path: /orders, deadline: 60s, tenants: {count: 3}%s}
  - {name: bulk, share: 50%%, path: /exports, deadline: 60s, tenants: {count: 3}}
stages:
  - {name: hold, rate: 200/s, for: 2s}
%s
`

func runWith(t *testing.T, classKeys, more string, b behaviour) *result.Result {
	t.Helper()
	s, err := scenario.Parse("test.yaml", fmt.Appendf(nil, base, classKeys, more))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), Options{Scenario: s, CountsOnly: true, Wrap: wrap(t, b)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wants checks the verdict and that its reasons say so.
func wants(t *testing.T, r *result.Result, v result.Verdict, why string) {
	t.Helper()
	if r.Verdict != v || !strings.Contains(strings.Join(r.Why, "\n"), why) {
		t.Errorf("the verdict is %s, wanted %s because of %q:\n%s", r.Verdict, v, why, strings.Join(r.Why, "\n"))
	}
}

func TestAnHonestTargetPasses(t *testing.T) {
	t.Parallel()
	r := runWith(t, "", `
thresholds:
  - {metric: admitted_share, at_least: 100%}
  - {metric: done_in_time_share, at_least: 100%}
  - {metric: lost, at_most: none}
  - {metric: duplicates, at_most: none}
  - {metric: inversions, at_most: none}
`, honest)
	wants(t, r, result.Pass, "")
	if r.Total.Offered < 300 || r.Total.InTime != r.Total.Asked || r.Total.Goodput < 150 {
		t.Errorf("offered %d, asked %d, done in time %d, goodput %.0f/s", r.Total.Offered, r.Total.Asked, r.Total.InTime, r.Total.Goodput)
	}
}

// A target that says yes and does nothing is caught.
func TestDroppedEffectsAreCaught(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	r := runWith(t, "", "", func(ctx *fasthttp.RequestCtx, forward func(*fasthttp.Response)) {
		if n.Add(1)%50 == 0 {
			ctx.SetStatusCode(202)
			return
		}
		forward(&ctx.Response)
	})
	wants(t, r, result.Missed, "what was accepted is recorded")
	wants(t, r, result.Missed, fmt.Sprintf("%d effects that clients were told are accepted", n.Load()/50))
}

// A target that sends a request twice is caught, though its clients see nothing.
func TestDoubledEffectsAreCaught(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	r := runWith(t, "", "", func(ctx *fasthttp.RequestCtx, forward func(*fasthttp.Response)) {
		if n.Add(1)%50 == 0 {
			var lost fasthttp.Response
			forward(&lost)
		}
		forward(&ctx.Response)
	})
	wants(t, r, result.Missed, fmt.Sprintf("%d records that no client's answer accounts for", n.Load()/50))
}

// A target that refuses and lets the request through all the same is caught.
func TestEffectsOfRefusedRequestsAreCaught(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	r := runWith(t, "", "", func(ctx *fasthttp.RequestCtx, forward func(*fasthttp.Response)) {
		if n.Add(1)%50 == 0 {
			var hidden fasthttp.Response
			forward(&hidden)
			ctx.SetStatusCode(503)
			ctx.SetBodyString(`{"reason":"shed"}`)
			return
		}
		forward(&ctx.Response)
	})
	wants(t, r, result.Missed, "nothing was recorded that was not accepted")
}

// Keys that are not honoured show as duplicates.
func TestDuplicatesUnderAKeyAreCounted(t *testing.T) {
	t.Parallel()
	r := runWith(t, ", keys: {repeat: 20%}", "thresholds: [{metric: duplicates, at_most: none}]", honest)
	wants(t, r, result.Missed, "duplicates is")
	repeats := r.Classes[0].Offered - r.Classes[0].First
	if r.Classes[0].Duplicates != repeats || repeats == 0 {
		t.Errorf("%d duplicates counted, %d requests were repeats", r.Classes[0].Duplicates, repeats)
	}
}

// A target that refuses the more important class is caught, second by second.
func TestInversionsAreCaught(t *testing.T) {
	t.Parallel()
	refuse := func(word string) behaviour {
		var n atomic.Int64
		return func(ctx *fasthttp.RequestCtx, forward func(*fasthttp.Response)) {
			if strings.Contains(string(ctx.Path()), word) && n.Add(1)%2 == 0 {
				ctx.SetStatusCode(503)
				ctx.SetBodyString(`{"reason":"shed"}`)
				return
			}
			forward(&ctx.Response)
		}
	}
	const th = "thresholds: [{metric: inversions, at_most: none}]"
	wants(t, runWith(t, "", th, refuse("orders")), result.Missed, "inversions is")
	wants(t, runWith(t, "", th, refuse("exports")), result.Pass, "")
}

// Load that could not be sent makes the run invalid, whatever the figures say.
func TestASaturatedGeneratorIsInvalid(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	time.AfterFunc(2500*time.Millisecond, func() { close(hold) })
	r := runWith(t, "", "load: {max_in_flight: 5}", func(ctx *fasthttp.RequestCtx, forward func(*fasthttp.Response)) {
		<-hold
		forward(&ctx.Response)
	})
	wants(t, r, result.Invalid, "could not be sent")
	if r.Verdict.ExitCode() != 3 {
		t.Errorf("the exit code of an invalid run is %d, wanted 3", r.Verdict.ExitCode())
	}
}

// What cannot be known is neither a pass nor a failure.
func TestTooFewSamplesAreInconclusive(t *testing.T) {
	t.Parallel()
	r := runWith(t, "", "thresholds: [{metric: promises_kept_share, at_least: 95%}]", honest)
	wants(t, r, result.Inconclusive, "promises_kept_share is not known: nobody came back")
}

// An outage of the workers shows as age, and recovery is measured from the
// stage that is for it.
func TestEventsHappenAndShow(t *testing.T) {
	t.Parallel()
	r := runWith(t, "", `
events:
  - {at: 500ms, for: 1s, origin: {pause: true}}
  - {at: 500ms, for: 1s, origin: {errors: 30%}}
thresholds:
  - {metric: failed_share, at_least: 10%}
`, honest)
	// Between pause and resume lies a second, give or take how late a busy machine
	// gets round to either; without a pause nothing waits at all.
	if age := r.Stages[0].QueueAgeMax; age < 0.3 || age > 2 {
		t.Errorf("a pause of a second made the oldest work %.2fs old", age)
	}
	if r.Total.Reasons["origin_503"] == 0 || r.Verdict != result.Pass {
		t.Errorf("verdict %s, reasons %v, why %v", r.Verdict, r.Total.Reasons, r.Why)
	}
	if r.Total.InTime != r.Total.Accepted {
		t.Errorf("%d of %d accepted effects were done; all could be", r.Total.InTime, r.Total.Accepted)
	}
}

// Answers that are lost after success leave requests in doubt, not wrong.
func TestLostAnswersAreInDoubt(t *testing.T) {
	t.Parallel()
	r := runWith(t, "", "events: [{at: 0s, origin: {lost: 10%}}]", honest)
	wants(t, r, result.Pass, "")
	if r.Total.FailedShare < 0.05 {
		t.Errorf("%.1f%% failed, a tenth of all answers was lost", 100*r.Total.FailedShare)
	}
	for _, c := range r.Counts {
		if c.What == "recorded" && (c.Doubt == 0 || c.Origin != c.Client+c.Doubt) {
			t.Errorf("recorded: %+v; what was in doubt was recorded", c)
		}
	}
}
