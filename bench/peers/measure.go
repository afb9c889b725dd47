package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"sluice/bench/load"
)

// nullOrigin answers at once: all that is measured is what stands before it.
type nullOrigin struct {
	url      string
	listener net.Listener
	server   *fasthttp.Server
	served   chan error
	count    atomic.Int64 // of requests
}

func startOrigin() (*nullOrigin, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	body := []byte("{\"accepted\":1}\n")
	o := &nullOrigin{url: "http://" + l.Addr().String(), listener: l, served: make(chan error, 1)}
	o.server = &fasthttp.Server{
		Handler: func(ctx *fasthttp.RequestCtx) {
			o.count.Add(1)
			ctx.SetStatusCode(fasthttp.StatusAccepted)
			ctx.SetContentType("application/json")
			ctx.SetBody(body)
		},
		CloseOnShutdown: true, Logger: log.New(io.Discard, "", 0),
	}
	go func() { o.served <- o.server.Serve(l) }()
	return o, nil
}

func (o *nullOrigin) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Second)
	defer cancel()
	err := o.server.ShutdownWithContext(ctx)
	_ = o.listener.Close()
	<-o.served
	return err
}

// bodySize of the requests.
const bodySize = 256

// reaches says whether a request of a kind of work has to reach the origin.
func reaches(w Work) bool { return w == Forward || w == Keyed }

// account checks that the origin saw what the work has it see: every request of
// those that are forwarded, and of the others those alone that clients were told
// got in.
func account(work Work, asked, gotIn, saw int64) error {
	want := gotIn
	if reaches(work) {
		want = asked
	}
	if saw != want {
		return fmt.Errorf("the origin saw %d requests, and should have seen %d: the program does other work than the one that is measured", saw, want)
	}
	return nil
}

// measure takes one sample: first at the given rate, then as much as the program
// can take.
func (o *Options) measure(ctx context.Context, f *running, origin *nullOrigin, work Work) (s sample, err error) {
	p := f.proc
	if err := o.warm(ctx, p, work); err != nil {
		return s, err
	}
	class := load.Class{Name: "orders", Path: "/v1/orders", Body: bodySize, Tenants: load.Tenants{Count: tenants}}
	seed := uint64(1)
	switch work {
	case Replay:
		class.Keys = load.Keys{Use: true, Repeat: 1}
	case Keyed:
		// Another seed makes other keys: each time they are new.
		class.Keys = load.Keys{Use: true}
		seed = rand.Uint64()
	}
	send := func(rate float64, span time.Duration) (*load.Interval, error) {
		var all load.Interval
		g, err := load.New(load.Options{
			Target: p.url, Seed: seed, Timeout: 5 * time.Second,
			Stages:     []load.Stage{{From: rate, To: rate, Duration: span}},
			Classes:    []load.Class{class},
			OnInterval: all.Merge,
		})
		if err != nil {
			return nil, err
		}
		return &all, g.Run(ctx)
	}
	if work == Replay {
		// The same seed makes the same key: from here on it has been answered.
		if _, err := send(50, 200*time.Millisecond); err != nil {
			return s, err
		}
	}
	before, saw := p.usage(), origin.count.Load()
	all, err := send(o.Rate, o.Span)
	if err != nil {
		return s, err
	}
	spent := p.usage().CPU - before.CPU
	c := all.Sum()
	want := load.Admitted
	switch {
	case work == Refuse:
		want = load.Refused
	case c.Endings[load.Replayed] > 0:
		want = load.Replayed
	}
	spare := int64(0)
	if work == Refuse {
		spare = c.Endings[load.Admitted]
	}
	if n := c.Endings[want]; n+spare != c.Offered || spare > f.spare {
		return s, fmt.Errorf("%d of %d requests were %s (%v)", n, c.Offered, want, c.Reasons)
	}
	if err := account(work, c.Offered, spare, origin.count.Load()-saw); err != nil {
		return s, err
	}
	s.cpu = float64(spent.Nanoseconds()) / 1e3 / float64(c.Offered)
	s.p50 = float64(load.Quantile(c.Response[want], 0.5).Microseconds())
	s.p99 = float64(load.Quantile(c.Response[want], 0.99).Microseconds())
	s.lag = float64(load.Quantile(all.Lag, 0.99).Microseconds())

	before, saw = p.usage(), origin.count.Load()
	begin := time.Now()
	n, wrong, err := o.saturate(ctx, p.url, work, o.Span, 1)
	if err != nil {
		return s, err
	}
	took := time.Since(begin)
	spent = p.usage().CPU - before.CPU
	if wrong > f.spare {
		return s, fmt.Errorf("%d of %d answers are not those of the work that is measured", wrong, n)
	}
	if err := account(work, n, wrong, origin.count.Load()-saw); err != nil {
		return s, err
	}
	s.busy = float64(spent.Nanoseconds()) / 1e3 / float64(n)
	s.throughput = float64(n) / took.Seconds()
	return s, nil
}

// ceiling measures the generator against a target that does nothing.
func (o *Options) ceiling(ctx context.Context) (float64, error) {
	o.Note("the generator against a target that does nothing")
	p, _, err := startBare(ctx, o, "", "", "")
	if err != nil {
		return 0, fmt.Errorf("peers: %w", err)
	}
	begin := time.Now()
	n, wrong, err := o.saturate(ctx, p.url, Forward, o.Span, 1)
	took := time.Since(begin)
	if err = errors.Join(err, p.stop()); err != nil {
		return 0, fmt.Errorf("peers: %w", err)
	}
	if wrong > 0 {
		return 0, fmt.Errorf("peers: a target that does nothing gave %d wrong answers of %d", wrong, n)
	}
	return float64(n) / took.Seconds(), nil
}

// warm opens the connections, uses up each tenant's burst and has each tenant's
// key answered.
func (o *Options) warm(ctx context.Context, p *process, work Work) error {
	if work != Replay && work != Keyed {
		work = "" // answers may still be others while bursts last
	}
	n, wrong, err := o.saturate(ctx, p.url, work, 300*time.Millisecond, tenants)
	if err == nil && wrong > 0 {
		err = fmt.Errorf("%d of %d answers are not those of the work that is measured", wrong, n)
	}
	return err
}

// saturate keeps all connections busy for a while and returns how many requests
// were answered, and how many of the answers are not those of the work. It is a
// closed loop, and says nothing about response times. Every connection is good
// for at least least requests.
func (o *Options) saturate(ctx context.Context, url string, work Work, span time.Duration, least int) (answered, wrong int64, err error) {
	var count, others atomic.Int64
	client := &fasthttp.HostClient{
		Addr: strings.TrimPrefix(url, "http://"), MaxConns: o.Connections, MaxIdemponentCallAttempts: 1,
		ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second, NoDefaultUserAgentHeader: true,
	}
	defer client.CloseIdleConnections()
	end := time.Now().Add(span)
	body := []byte(`{"pad":"` + strings.Repeat("x", bodySize-10) + `"}`)
	var wg sync.WaitGroup
	errs := make([]error, o.Connections)
	fresh := strconv.FormatUint(rand.Uint64(), 36)
	for i := range o.Connections {
		wg.Go(func() {
			req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
			defer fasthttp.ReleaseRequest(req)
			defer fasthttp.ReleaseResponse(resp)
			for n := i; (n-i < least || time.Now().Before(end)) && ctx.Err() == nil; n++ {
				req.Reset()
				req.Header.SetMethod("POST")
				req.SetRequestURI("/v1/orders")
				req.Header.SetHost(client.Addr)
				req.Header.SetContentType("application/json")
				tenant := "tenant-" + strconv.Itoa(1+n%tenants)
				req.Header.Set("X-Tenant-Id", tenant)
				switch work {
				case Replay:
					req.Header.Set("Idempotency-Key", "saturate-"+tenant)
				case Keyed:
					req.Header.Set("Idempotency-Key", fresh+"-"+strconv.Itoa(i)+"-"+strconv.Itoa(n))
				}
				req.SetBodyRaw(body)
				if err := client.Do(req, resp); err != nil {
					errs[i] = err
					return
				}
				if work != "" && !expect(work, resp.StatusCode()) {
					others.Add(1)
				}
				count.Add(1)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, 0, err
	}
	return count.Load(), others.Load(), ctx.Err()
}

// Bare serves the bare proxy that everything is compared with: fasthttp's server
// and client, and nothing else. Without an origin it answers at once, and is what
// the generator itself is measured against. It returns when ctx ends.
func Bare(ctx context.Context, listen, origin string) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("peers: %w", err)
	}
	client := &fasthttp.HostClient{
		Addr: strings.TrimPrefix(origin, "http://"), MaxConns: 1024, MaxIdemponentCallAttempts: 1,
		NoDefaultUserAgentHeader: true, DisablePathNormalizing: true,
		ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
	}
	s := &fasthttp.Server{
		NoDefaultServerHeader: true, CloseOnShutdown: true, Logger: log.New(io.Discard, "", 0),
		Handler: func(ctx *fasthttp.RequestCtx) {
			if origin == "" {
				ctx.SetStatusCode(fasthttp.StatusNoContent)
				return
			}
			if err := client.Do(&ctx.Request, &ctx.Response); err != nil {
				ctx.Error("bad gateway", fasthttp.StatusBadGateway)
			}
		},
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.Background(), 6*time.Second)
	defer cancel()
	err = s.ShutdownWithContext(stop)
	_ = l.Close()
	<-served
	return err
}
