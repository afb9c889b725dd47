// Package gateway wires the parts of Sluice together from a configuration, and
// owns their life: start, reload, drain, stop.
//
// What can change at run time is in a [proxy.Policy], built anew from each
// configuration: everything that can fail is prepared first, then the policy is
// swapped in one step, and requests under way finish under the one that they
// began with. What has to outlive a reload (bucket levels, counts, connections
// to an unchanged origin) is held here and handed from one policy to the next.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"sluice/admin"
	"sluice/admission/ratelimit"
	"sluice/config"
	"sluice/proxy"
)

// Options say where a gateway gets its configuration and what it reports to.
type Options struct {
	// Load returns the configuration: at the start, and again at each reload.
	// Its error says all that is wrong.
	Load func() (*config.Config, error)
	// Path is the configuration file, watched for changes; "" for the embedded
	// defaults.
	Path string
	// Candidate returns the configuration of a policy that decides beside the one
	// in force and is not obeyed, at the start and again at each reload; nil:
	// there is none. Its error says all that is wrong. CandidatePath is its file,
	// watched like Path.
	Candidate     func() (*config.Config, error)
	CandidatePath string
	// Explain tells a decision that is remembered step by step, under the
	// configuration that made it; nil: [Gateway.Explain] cannot.
	Explain func(cfg *config.Config, m admin.Remembered) (any, error)
	// Version of the program.
	Version string
	// Log is told of starts, stops, reloads and problems. Nil discards.
	Log *slog.Logger
}

// Gateway is one running gateway. Make it with [New] and run it once with
// [Gateway.Run]; the other methods are safe for concurrent use.
type Gateway struct {
	opts    Options
	log     *slog.Logger
	started time.Time
	first   *config.Config // what settings that need a restart are judged by

	server   *proxy.Server
	listener net.Listener
	admin    *admin.Server
	metrics  *admin.Metrics
	live     *admin.Live
	observer observers
	records  *admin.DecisionLog
	file     *admin.LogFile // of the decision log; nil where it is none
	buckets  *ratelimit.Gate
	store    *store
	places   places
	certs    *certificates // nil without TLS
	adminTLS *certificates // the same for the private listener

	draining atomic.Bool
	drained  drain

	candidatePanics atomic.Uint64

	mu      sync.Mutex // held by reload
	reading bool       // the signals of the current queues are being read; by mu
	current atomic.Pointer[running]
}

// running is the configuration in force.
type running struct {
	*prepared
	candidate *candidate // nil: none

	loaded  time.Time
	failure string   // of the latest reload; "" where it succeeded
	pending []string // changed settings that take effect at the next start
}

// observers is what the proxy reports to: all of admin's, and the count of
// requests begun.
type observers struct {
	admin.Fanout
	metrics *admin.Metrics
}

func (o observers) Begin() { o.metrics.Begin() }

// New loads the configuration, prepares everything and takes the ports. It
// serves nothing yet.
func New(opts Options) (*Gateway, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	cfg, err := opts.Load()
	if err != nil {
		return nil, err
	}
	g := &Gateway{opts: opts, log: opts.Log, started: time.Now(), first: cfg}
	p, err := prepare(cfg, nil)
	if err != nil {
		return nil, err
	}
	if g.buckets, err = newBuckets(p, time.Now()); err != nil {
		return nil, err
	}
	if g.store, err = newStore(cfg); err != nil {
		return nil, err
	}
	p.attach(g)
	now := &running{prepared: p, loaded: time.Now()}
	if opts.Candidate != nil {
		beside, err := opts.Candidate()
		if err != nil {
			return nil, err
		}
		if now.candidate, err = g.newCandidate(beside, p, nil, now.loaded); err != nil {
			return nil, fmt.Errorf("candidate %s: %w", beside.Source.File, err)
		}
		now.candidate.beside(p, g)
	}
	if err := g.observe(cfg); err != nil {
		return nil, err
	}
	g.observer.SetPolicy(p.names)
	p.queues.keepers = g.keepers()
	if now.candidate != nil {
		g.metrics.CandidateLoaded(now.candidate.cfg.Source.Hash)
	}

	options := proxy.Options{Limits: p.limits, Via: string(cfg.Forwarding.Via), Observer: g.observer, Log: g.log}
	if cfg.TLS != nil {
		g.certs = &certificates{}
		g.certs.store(p.tls)
		options.TLS = g.certs.config()
		options.CertName = g.certName
	}
	g.server = proxy.NewServer(options, p.policy)
	g.current.Store(now)
	if g.listener, err = net.Listen("tcp", string(cfg.Listen)); err != nil {
		return nil, listenError("listen", string(cfg.Listen), err)
	}
	desk := admin.Options{
		Listen: string(cfg.Admin.Listen), Pprof: cfg.Admin.Pprof, Token: cfg.Admin.Token.Reveal(), Hosts: cfg.Admin.Hosts, Write: cfg.Admin.Write,
		Gateway: g, Metrics: g.metrics, Live: g.live, Records: records{g}, Explain: g.Explain, Signals: signalDesk{g}, Sections: g.sections(), Logger: g.log,
		Config: func() []byte { return g.current.Load().cfg.Shown() },
	}
	if cfg.Admin.TLS != nil {
		g.adminTLS = &certificates{}
		g.adminTLS.store(p.adminTLS)
		desk.TLS, desk.ClientCerts = g.adminTLS.config(), cfg.Admin.TLS.ClientCA != ""
	}
	g.admin, err = admin.NewServer(desk)
	if err == nil {
		if err = g.admin.Start(); err != nil {
			err = listenError("admin.listen", string(cfg.Admin.Listen), err)
		}
	}
	if err != nil {
		g.listener.Close()
		return nil, err
	}
	g.metrics.ConfigLoaded(admin.ReloadRecord{At: time.Now(), Trigger: "start", Hash: cfg.Source.Hash})
	for _, w := range cfg.Source.Warnings {
		g.log.Warn("the configuration may not mean what it says", "where", w.Error())
	}
	return g, nil
}

// listenError says what to do about a port that cannot be had.
func listenError(path, addr string, err error) error {
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("%s: no permission to listen on %s; use a port above 1023: %w", path, addr, err)
	}
	return fmt.Errorf("%s: cannot listen on %s; free the port or set %s to another (port 0 takes any): %w", path, addr, path, err)
}

// observe makes what the proxy reports to.
func (g *Gateway) observe(cfg *config.Config) error {
	hider := hiderOf(cfg)
	out := cfg.DecisionLog.Output
	if out != "off" {
		w, err := g.openLog(out)
		if err != nil {
			return err
		}
		g.records = admin.NewDecisionLog(w, logOptions(cfg, g.log, hider))
	}
	g.metrics = admin.NewMetrics(admin.MetricsOptions{Version: g.opts.Version, TopTenants: topTenants(cfg), Log: g.records})
	g.metrics.AddSource(g.measure)
	g.live = admin.NewLive(g.metrics, admin.LiveOptions{Sections: g.sections(), Hider: hider})
	g.observer = observers{admin.Fanout{g.metrics, g.live}, g.metrics}
	if g.records != nil {
		g.observer.Fanout = append(g.observer.Fanout, g.records)
	}
	return nil
}

// topTenants is how many tenants have series of their own, as admin wants it:
// negative for none.
func topTenants(cfg *config.Config) int {
	if n := cfg.Metrics.Tenants; n > 0 {
		return n
	}
	return -1
}

func (g *Gateway) openLog(out config.Output) (interface{ Write([]byte) (int, error) }, error) {
	path, isFile := out.File()
	switch {
	case isFile:
		f, err := admin.OpenLogFile(path)
		if err != nil {
			return nil, fmt.Errorf("decision_log.output: %w", err)
		}
		g.file = f
		return f, nil
	case out == "stdout":
		return os.Stdout, nil
	}
	return os.Stderr, nil
}

// Addr is the address that clients connect to.
func (g *Gateway) Addr() string { return g.listener.Addr().String() }

// AdminAddr is the address of the private listener.
func (g *Gateway) AdminAddr() string { return g.admin.Addr() }

// Run serves until ctx ends, then drains and stops: readiness fails and answers
// close their connections for the drain time, then no connection is accepted
// any more, and running requests finish. It returns nil if everything that was
// accepted was answered.
func (g *Gateway) Run(ctx context.Context) error {
	cfg, files := g.current.Load().cfg, fingerprint(g.files())
	g.log.Info("sluice is serving",
		"version", g.opts.Version, "listen", g.Addr(), "admin", g.AdminAddr(),
		"origin", originURLs(cfg), "config", cfg.Source.File, "hash", cfg.Source.Hash, "routes", len(cfg.Routes))
	if c := g.current.Load().candidate; c != nil {
		g.log.Info("a candidate policy decides beside the one in force, and is not obeyed", "config", c.cfg.Source.File, "hash", c.cfg.Source.Hash)
	}
	if len(cfg.Routes) == 0 {
		g.log.Warn("no routes are configured: every request is passed on unguarded")
	}
	g.read(true)
	g.awaitSignals(ctx)
	served := make(chan error, 1)
	go func() { served <- g.server.Serve(g.listener) }()
	watching, stopWatching := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { g.watch(watching, files) })
	background.Go(func() { g.checkHealth(watching) })
	background.Go(func() { g.narrate(watching) })
	background.Go(func() { g.store.check(watching, g) })
	defer background.Wait()
	defer stopWatching()

	select {
	case <-ctx.Done():
	case err := <-served:
		return fmt.Errorf("the listener stopped: %w", err)
	}
	return g.stop(served)
}

// read begins or ends reading the signals of whichever queues are in force.
func (g *Gateway) read(on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reading = on; on {
		g.current.Load().read()
	} else {
		g.current.Load().stopReading()
	}
}

// allQueues are those of the policy in force and of the candidate.
func (r *running) allQueues() []*queues {
	if r.candidate == nil {
		return []*queues{r.queues}
	}
	return []*queues{r.queues, r.candidate.queues}
}

func (r *running) read() {
	for _, q := range r.allQueues() {
		q.start()
	}
}

// closeReaders lets go of readers that were never started.
func (r *running) closeReaders() {
	for _, q := range r.allQueues() {
		q.close()
	}
}

func (r *running) stopReading() {
	for _, q := range r.allQueues() {
		q.stop()
	}
}

// firstReading bounds how long a start waits for the first reading of every
// signal. Connections wait in the listener's backlog meanwhile.
const firstReading = 2 * time.Second

// awaitSignals lets the signals be read once before anything is let in: a
// restart in the middle of an overload must not open the gates. Signals that
// only speak when there is traffic, and those that do not answer, are not waited
// for longer than firstReading.
func (g *Gateway) awaitSignals(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, firstReading)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !g.current.Load().queues.gate.Ready(time.Now()) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (g *Gateway) stop(served <-chan error) error {
	cfg := g.current.Load().cfg
	begun := time.Now()
	g.drainToStop()
	g.log.Info("draining", "drain", cfg.Shutdown.Drain.String(), "connections", g.server.Connections())
	time.Sleep(time.Duration(cfg.Shutdown.Drain))

	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(cfg.Shutdown.Timeout))
	defer cancel()
	err := g.server.Shutdown(ctx)
	g.read(false)
	if err == nil {
		err = <-served
	}
	g.current.Load().policy.Origin.Close()

	end, cancelEnd := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancelEnd()
	err = errors.Join(err, g.store.close(end))
	if g.records != nil {
		err = errors.Join(err, g.records.Close(end))
	}
	if g.file != nil {
		err = errors.Join(err, g.file.Close())
	}
	_ = g.admin.Shutdown(end)
	if err != nil {
		g.log.Error("stopped, but not everything could finish", "error", err, "after", time.Since(begun).Round(time.Millisecond))
		return err
	}
	g.log.Info("stopped", "after", time.Since(begun).Round(time.Millisecond))
	return nil
}
