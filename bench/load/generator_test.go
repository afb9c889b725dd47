package load

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"sluice/bench/origin"
)

// serve answers with h on a free port until the test ends.
func serve(t testing.TB, h fasthttp.RequestHandler) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &fasthttp.Server{Handler: h, CloseOnShutdown: true}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
		<-done
	})
	return "http://" + l.Addr().String()
}

// run sends a load and returns all of it as one interval, and the parts.
func run(t testing.TB, o Options) (*Interval, []*Interval) {
	t.Helper()
	var all Interval
	var parts []*Interval
	o.OnInterval = func(i *Interval) {
		parts = append(parts, i)
		all.Merge(i)
	}
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &all, parts
}

// quiet reports whether requests were sent on time. Where the machine is busy
// with other things they are not, everything takes longer than it should, and
// only lower bounds can be held against the truth.
func quiet(t *testing.T, all *Interval) bool {
	lag := Quantile(all.Lag, 0.99)
	if lag > 2*time.Millisecond {
		t.Logf("the machine is busy (requests were sent %v late at p99): upper bounds are not checked", lag)
		return false
	}
	return true
}

// A server that stalls for a second shows in the response time of every request
// that was due meanwhile, with the value that geometry demands, although the
// service time of a closed loop would show one slow request.
func TestAStallShowsAtItsTrueSize(t *testing.T) {
	const rate, stall = 500.0, time.Second
	begin := time.Now()
	var gate sync.RWMutex
	url := serve(t, func(ctx *fasthttp.RequestCtx) {
		gate.RLock()
		defer gate.RUnlock()
		ctx.SetStatusCode(202)
	})
	go func() {
		time.Sleep(time.Until(begin.Add(time.Second)))
		gate.Lock()
		time.Sleep(stall)
		gate.Unlock()
	}()
	all, _ := run(t, Options{
		Target: url, Seed: 1, Arrivals: Uniform,
		Stages:  []Stage{{From: rate, To: rate, Duration: 4 * time.Second}},
		Classes: []Class{{Name: "a"}},
	})
	c := all.Sum()
	if c.Endings[Admitted] != int64(4*rate)-1 && c.Endings[Admitted] != int64(4*rate) {
		t.Fatalf("%d of %v requests admitted: %v", c.Endings[Admitted], 4*rate, c.Reasons)
	}
	// A quarter of all requests was due during the stall, spread evenly over it:
	// the share q of all requests that waits longer than (1-4q) seconds.
	upper := quiet(t, all)
	for _, q := range []float64{0.99, 0.95, 0.9, 0.8} {
		want := stall - time.Duration(4*(1-q)*float64(time.Second))
		got := Quantile(c.Response[Admitted], q)
		if got < want-60*time.Millisecond || upper && got > want+150*time.Millisecond {
			t.Errorf("p%v of the response time is %v; a stall of %v makes it %v", q*100, got, stall, want)
		}
	}
}

// Requests go on being sent on time while the target answers nothing at all,
// and their time is at least the timeout.
func TestAMuteTargetDoesNotSlowTheSender(t *testing.T) {
	hold := make(chan struct{})
	var arrived atomic.Int64
	url := serve(t, func(*fasthttp.RequestCtx) { arrived.Add(1); <-hold })
	t.Cleanup(func() { close(hold) })
	const timeout = 300 * time.Millisecond
	all, parts := run(t, Options{
		Target: url, Seed: 2, Timeout: timeout,
		Stages:  []Stage{{From: 300, To: 300, Duration: 2 * time.Second}},
		Classes: []Class{{Name: "a"}},
	})
	c := all.Sum()
	if c.Endings[TimedOut] != c.Offered || c.Offered < 500 || arrived.Load() != c.Offered {
		t.Fatalf("offered %d, arrived %d, timed out %d", c.Offered, arrived.Load(), c.Endings[TimedOut])
	}
	if least := time.Duration(c.Response[TimedOut].Min()) * time.Microsecond; least < timeout-time.Millisecond {
		t.Errorf("a request that timed out counts as %v, less than the timeout", least)
	}
	for _, i := range parts {
		if c := i.Sum(); c.Offered != sum(c.Endings) {
			t.Errorf("second %v: offered %d, ended %d", i.Start, c.Offered, sum(c.Endings))
		}
	}
}

func sum(e [Endings]int64) (n int64) {
	for _, x := range e {
		n += x
	}
	return n
}

// What is due beyond the permitted number under way is counted, never silently
// skipped.
func TestUnsentIsCounted(t *testing.T) {
	hold := make(chan struct{})
	url := serve(t, func(*fasthttp.RequestCtx) { <-hold })
	t.Cleanup(func() { close(hold) })
	all, _ := run(t, Options{
		Target: url, Seed: 3, MaxInFlight: 10, Timeout: 5 * time.Second, Arrivals: Uniform,
		Stages:  []Stage{{From: 100, To: 100, Duration: time.Second}},
		Classes: []Class{{Name: "a"}},
	})
	if c := all.Sum(); c.Endings[TimedOut] != 10 || c.Endings[Unsent] != c.Offered-10 {
		t.Errorf("offered %d, timed out %d, unsent %d; ten may be under way", c.Offered, c.Endings[TimedOut], c.Endings[Unsent])
	}
}

// Clients that obey come back when told, as further attempts at the same
// effect; clients that ignore come back sooner; others do not.
func TestClientsReactToRefusals(t *testing.T) {
	for _, c := range []struct {
		on       OnRefusal
		attempts int
		least    time.Duration
	}{{Obey, 2, time.Second}, {Ignore, 4, 50 * time.Millisecond}, {GiveUp, 1, 0}} {
		var mu sync.Mutex
		seen := map[string][]time.Time{}
		url := serve(t, func(ctx *fasthttp.RequestCtx) {
			mu.Lock()
			defer mu.Unlock()
			e := string(ctx.Request.Header.Peek("Bench-Effect"))
			if c.on == Obey && len(seen[e]) > 0 && string(ctx.Request.Header.Peek("Sluice-Ticket")) != "come again" {
				t.Errorf("the ticket did not come back")
			}
			seen[e] = append(seen[e], time.Now())
			if len(seen[e]) == c.attempts && c.on != GiveUp {
				ctx.SetStatusCode(202)
				return
			}
			ctx.SetStatusCode(503)
			ctx.Response.Header.Set("Retry-After", "1")
			ctx.Response.Header.Set("Sluice-Ticket", "come again")
			ctx.SetBodyString(`{"reason":"shed"}`)
		})
		all, _ := run(t, Options{
			Target: url, Seed: 4,
			Stages: []Stage{{From: 40, To: 40, Duration: 500 * time.Millisecond}, {Name: "recover", Duration: 2500 * time.Millisecond}},
			Classes: []Class{{
				Name: "a", OnRefusal: c.on, RetryEvery: 100 * time.Millisecond,
			}},
		})
		s := all.Sum()
		for e, at := range seen {
			if len(at) != c.attempts {
				t.Fatalf("behaviour %d: effect %s was tried %d times, wanted %d", c.on, e, len(at), c.attempts)
			}
			for i := 1; i < len(at); i++ {
				if d := at[i].Sub(at[i-1]); d < c.least-20*time.Millisecond {
					t.Errorf("behaviour %d: came back after %v, wanted at least %v", c.on, d, c.least)
				}
			}
		}
		if s.First != int64(len(seen)) || s.Offered != s.First*int64(c.attempts) {
			t.Errorf("behaviour %d: offered %d, first %d, effects %d", c.on, s.Offered, s.First, len(seen))
		}
		if c.on == Obey && (s.Obeyed != s.First || s.Kept != s.Obeyed) {
			t.Errorf("obeyed %d, kept %d of %d", s.Obeyed, s.Kept, s.First)
		}
	}
}

// A known distribution of service times comes back within its error.
func TestServiceTimesComeBack(t *testing.T) {
	r := make(chan time.Duration, 4096)
	const n = 2000
	for i := range n { // 10ms to 50ms, evenly
		r <- 10*time.Millisecond + time.Duration(i*7919%n)*40*time.Millisecond/n
	}
	url := serve(t, func(ctx *fasthttp.RequestCtx) {
		time.Sleep(<-r)
		ctx.SetStatusCode(202)
	})
	all, _ := run(t, Options{
		Target: url, Seed: 5, Arrivals: Uniform,
		Stages:  []Stage{{From: 500, To: 500, Duration: n * time.Second / 500}},
		Classes: []Class{{Name: "a"}},
	})
	h := all.Sum().Service[Admitted]
	upper := quiet(t, all)
	for _, q := range []float64{0.1, 0.5, 0.9, 0.99} {
		want := 10*time.Millisecond + time.Duration(q*40*float64(time.Millisecond))
		if got := Quantile(h, q); got < want-time.Millisecond || upper && got > want+6*time.Millisecond {
			t.Errorf("p%v of the service time is %v, the server's is %v", q*100, got, want)
		}
	}
}

// A load that is cut short, or lasts until its context ends, still accounts for
// every request, while it is read.
func TestTotalsAddUpWhenCutShort(t *testing.T) {
	o, err := origin.Start(origin.Options{Workers: 4, Work: origin.Rate(200, 4)})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	g, err := New(Options{
		Target: o.URL(), Seed: 6, Stages: []Stage{{To: 400}},
		Classes: []Class{{Name: "a", Tenants: Tenants{Count: 9, Skew: 1}}, {Name: "b"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			l := g.Live()
			if l.InFlight != 0 || l.Offered != l.Ended(Admitted) || l.Offered != o.Ledger().Totals().Recorded || l.Offered < 400 {
				t.Fatalf("offered %d, admitted %d, in flight %d, recorded %d", l.Offered, l.Ended(Admitted), l.InFlight, o.Ledger().Totals().Recorded)
			}
			return
		case <-time.After(100 * time.Millisecond):
			l := g.Live()
			if ended := l.Ended(Admitted); l.Offered != ended+l.InFlight {
				t.Fatalf("offered %d, admitted %d, in flight %d", l.Offered, ended, l.InFlight)
			}
		}
	}
}

func TestOptionsAreCheckedAtOnce(t *testing.T) {
	_, err := New(Options{Target: "http://example.com:80", Stages: []Stage{{From: -1}, {}}, Classes: []Class{{Name: "a", Keys: Keys{Repeat: 0.5}}}})
	if err == nil {
		t.Fatal("nonsense passes")
	}
	for _, want := range []string{"not on this machine's loopback", "stage 1 ()", "rate above zero", "repeats and conflicts need keys"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
}

// BenchmarkNull is what one request costs the generator and a target that does
// nothing, together.
func BenchmarkNull(b *testing.B) {
	url := serve(b, func(ctx *fasthttp.RequestCtx) { ctx.SetStatusCode(204) })
	const rate = 5000
	g, err := New(Options{
		Target: url, Stages: []Stage{{From: rate, To: rate, Duration: time.Duration(b.N) * time.Second / rate}},
		Classes: []Class{{Name: "a", Body: 256}},
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := g.Run(context.Background()); err != nil {
		b.Fatal(err)
	}
	l := g.Live()
	b.ReportMetric(l.LagP99.Seconds()*1e6, "µs-lag-p99")
	if l.Ended(Admitted) != l.Offered {
		b.Errorf("%d of %d admitted", l.Ended(Admitted), l.Offered)
	}
}
