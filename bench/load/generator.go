package load

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/url"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"sluice/bench/wire"
)

// Generator sends one load. Use [New]; it runs once.
type Generator struct {
	opts     Options
	host     string
	prefix   string // path of the target URL
	client   *fasthttp.HostClient
	mix      *mix
	recorder *recorder
	returns  returns
	start    atomic.Pointer[time.Time]
	jobs     chan request
	senders  int
	sending  sync.WaitGroup
	started  atomic.Bool

	randMu sync.Mutex
	rand   *rand.Rand // for clients that ignore Retry-After
}

// New checks the options.
func New(opts Options) (*Generator, error) {
	opts = opts.withDefaults()
	if err := opts.check(); err != nil {
		return nil, err
	}
	u, err := url.Parse(opts.Target)
	if err != nil {
		return nil, err
	}
	g := &Generator{
		opts:     opts,
		host:     u.Host,
		prefix:   u.EscapedPath(),
		mix:      newMix(opts.Classes, opts.Seed),
		recorder: newRecorder(opts.Classes, opts.OnInterval),
		jobs:     make(chan request),
		rand:     rand.New(rand.NewPCG(opts.Seed, 30)),
	}
	if g.prefix == "/" {
		g.prefix = ""
	}
	g.client = &fasthttp.HostClient{
		Addr:                      u.Host,
		MaxConns:                  opts.MaxInFlight,
		MaxIdleConnDuration:       5 * time.Second,
		ReadTimeout:               opts.Timeout,
		WriteTimeout:              opts.Timeout,
		MaxIdemponentCallAttempts: 1, // each attempt is ours, or duplicates would be made here
		RetryIfErr:                func(*fasthttp.Request, int, error) (bool, bool) { return false, false },
		DisablePathNormalizing:    true,
		NoDefaultUserAgentHeader:  true,
		ConnPoolStrategy:          fasthttp.LIFO,
		DialTimeout: func(addr string, timeout time.Duration) (net.Conn, error) {
			return fasthttp.DialDualStackTimeout(addr, min(timeout, opts.Timeout))
		},
	}
	return g, nil
}

// Run sends the load, returns when all stages are over or ctx ends, and all
// requests under way have ended. Clients that would come back later than that
// do not.
func (g *Generator) Run(ctx context.Context) error {
	if !g.started.CompareAndSwap(false, true) {
		return errors.New("load: a generator runs once")
	}
	start := time.Now()
	g.start.Store(&start)
	stop := make(chan struct{})
	blocks := make(chan []arrival, 4)
	plan := newPlan(g.opts.Stages, g.opts.Arrivals, g.opts.Seed)
	go plan.produce(blocks, stop)

	var house sync.WaitGroup
	house.Go(func() {
		t := time.NewTicker(250 * time.Millisecond)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				g.recorder.release(false)
			case <-stop:
				return
			}
		}
	})
	done := make(chan struct{})
	go func() { // a locked thread of its own, which dies with the goroutine
		runtime.LockOSThread()
		sharpen()
		g.dispatch(ctx, blocks)
		close(done)
	}()
	<-done
	close(stop)
	for range blocks { // lets the planner end
	}
	close(g.jobs)
	g.sending.Wait()
	house.Wait()
	g.recorder.release(true)
	g.client.CloseIdleConnections()
	return nil
}

// Live returns what the load has done so far. Latencies in it are of the time
// since the previous call.
func (g *Generator) Live() Live {
	var now time.Duration
	if g.start.Load() != nil {
		now = g.since()
	}
	return g.recorder.read(now, g.returns.len())
}

// Start is when the load began; intended times count from it. It is zero before
// Run.
func (g *Generator) Start() time.Time {
	if t := g.start.Load(); t != nil {
		return *t
	}
	return time.Time{}
}

func (g *Generator) since() time.Duration { return time.Since(*g.start.Load()) }

// longestNap bounds how late a client that came back meanwhile is noticed.
const longestNap = time.Millisecond

// dispatch hands each request to a sender when it is due, and never waits for
// one.
func (g *Generator) dispatch(ctx context.Context, blocks <-chan []arrival) {
	end := g.planned()
	var due []arrival
	more := true
	for ctx.Err() == nil {
		if len(due) == 0 && more {
			due, more = <-blocks
		}
		at, returning, over := end, false, true
		if len(due) > 0 {
			at, over = due[0].at, false
		}
		if back, ok := g.returns.peek(); ok && (over && (end == 0 || back < end) || !over && back < at) {
			at, returning, over = back, true, false
		}
		now := g.since()
		g.recorder.advance(min(at, now))
		switch {
		case now < at:
			// Also when no arrival is left: until the last stage is over, a request
			// under way may still turn into a client that comes back.
			nap(min(at-now, longestNap))
		case over:
			return
		case returning:
			q := g.returns.pop()
			q.stage = g.stageAt(q.intended)
			g.send(q)
		default:
			g.send(g.mix.request(due[0]))
			due = due[1:]
		}
	}
}

// planned is how long the stages last together; 0 is until the context ends.
func (g *Generator) planned() (d time.Duration) {
	for _, s := range g.opts.Stages {
		if s.Duration == 0 {
			return 0
		}
		d += s.Duration
	}
	return d
}

func (g *Generator) stageAt(t time.Duration) int {
	for i, s := range g.opts.Stages {
		if t < s.Duration || s.Duration == 0 {
			return i
		}
		t -= s.Duration
	}
	return len(g.opts.Stages) - 1
}

// send gives q to an idle sender, or to a new one, or counts it as unsent.
func (g *Generator) send(q request) {
	g.recorder.offer(&q)
	select {
	case g.jobs <- q:
		return
	default:
	}
	if g.senders < g.opts.MaxInFlight {
		g.senders++
		g.sending.Go(func() {
			g.perform(q)
			for q := range g.jobs {
				g.perform(q)
			}
		})
		return
	}
	now := g.since()
	g.finish(&q, &answer{ending: Unsent, reason: "unsent"}, now, now)
}

// perform sends q, waits for its end and does what its client does then.
func (g *Generator) perform(q request) {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	g.fill(req, &q)
	sent := g.since()
	err := g.client.DoTimeout(req, resp, g.opts.Timeout)
	ended := g.since()
	var a answer
	if err != nil {
		a = failed(err)
	} else {
		a = read(resp)
	}
	fasthttp.ReleaseRequest(req)
	fasthttp.ReleaseResponse(resp)
	if a.ending == TimedOut {
		// Given up early or late, it was at least as long as that.
		ended = max(ended, sent+g.opts.Timeout)
	}
	g.finish(&q, &a, sent, ended)
}

func (g *Generator) fill(req *fasthttp.Request, q *request) {
	c := &g.mix.classes[q.class]
	h := &req.Header
	h.SetMethod(c.Method)
	req.SetRequestURI(g.prefix + c.Path)
	h.SetHost(g.host)
	for _, f := range c.fields {
		h.Set(f[0], f[1])
	}
	h.Set(g.opts.TenantHeader, c.tenants[q.tenant])
	var buf [64]byte
	h.SetBytesV(wire.Effect, strconv.AppendUint(buf[:0], q.effect, 10))
	if q.key != 0 {
		h.SetBytesV("Idempotency-Key", g.mix.appendKey(buf[:0], q.key))
	}
	if q.ticket != "" {
		h.Set("Sluice-Ticket", q.ticket)
	}
	if c.Method != "GET" && c.Method != "HEAD" {
		h.SetContentType("application/json")
		req.SetBodyRaw(c.appendBody(make([]byte, 0, max(c.Body, 64)), q.effect))
	}
}

// finish counts the end of q and, where its client comes back, books its
// return.
func (g *Generator) finish(q *request, a *answer, sent, ended time.Duration) {
	back, returns := g.comesBack(q, a, ended)
	if returns {
		g.returns.add(back)
	}
	g.recorder.end(q, a, sent, ended)
	if g.opts.OnEnd != nil {
		g.opts.OnEnd(&Report{
			Effect: q.effect, Class: q.class, Tenant: g.mix.classes[q.class].tenants[q.tenant],
			Attempt: q.attempt, Repeat: q.repeat, Conflict: q.conflict,
			First: q.first, Intended: q.intended, Sent: sent, Ended: ended,
			Ending: a.ending, Reason: a.reason, RetryAfter: a.after, Returns: returns,
		})
	}
}

// comesBack says whether and when the client of q sends it again.
func (g *Generator) comesBack(q *request, a *answer, ended time.Duration) (request, bool) {
	c := &g.mix.classes[q.class]
	if q.attempt >= c.MaxAttempts {
		return request{}, false
	}
	again := q.again()
	switch {
	case c.OnRefusal == Obey && a.after > 0:
		again.intended = ended + a.after
		again.obeyed, again.ticket = true, a.ticket
	case c.OnRefusal == Ignore && a.ending == Refused,
		c.RetryFailed && (a.ending == Failed || a.ending == TimedOut || a.ending == Broken):
		g.randMu.Lock()
		u := g.rand.Float64()
		g.randMu.Unlock()
		again.intended = ended + time.Duration((0.5+u)*float64(c.RetryEvery))
	default:
		return request{}, false
	}
	return again, true
}
