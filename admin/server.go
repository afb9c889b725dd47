package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Options configure [NewServer].
type Options struct {
	// Listen is the address; "" means 127.0.0.1:9090. Port 0 takes a free one.
	Listen string
	// Hosts are names under which the listener may be addressed besides
	// localhost and addresses.
	Hosts []string
	// Token, if not empty, has to be sent with everything but /livez and
	// /readyz: as a bearer token, or as the password that a browser asks for.
	// An address that other machines can reach needs one, or ClientCerts.
	Token string
	// TLS, if not nil, is spoken instead of plain HTTP.
	TLS *tls.Config
	// ClientCerts tells that TLS verifies certificates of clients that show one.
	// Whoever shows one needs no token, and without either nothing is told but
	// /livez and /readyz.
	ClientCerts bool
	// Write is whether the listener takes what changes something. Otherwise
	// POST /reload, /signals and /records, and POST and DELETE /drain, are
	// refused.
	Write bool
	// Pprof serves the Go profiler under /debug/pprof/.
	Pprof bool

	Gateway  Gateway       // required
	Metrics  *Metrics      // required
	Live     *Live         // required; the server runs it
	Config   func() []byte // the configuration in force as YAML, without secrets; nil: it is not served
	Records  Records       // nil: there are none
	Explain  Explain       // nil: what the tail holds is all there is to tell
	Signals  Signals       // nil: there are none
	Sections []Section     // shown in the status besides what is always there
	Logger   *slog.Logger  // nil means slog.Default()
}

// Server is the private listener. Its methods are safe for concurrent use;
// make one with [NewServer], then [Server.Start] and [Server.Shutdown] it once.
type Server struct {
	o        Options
	hosts    []string
	loopback bool
	registry *prometheus.Registry
	hub      *hub
	server   *http.Server
	listener net.Listener
	stop     context.CancelFunc // ends streams and Live
	running  sync.WaitGroup
}

// NewServer checks o and returns a server that does not listen yet.
func NewServer(o Options) (*Server, error) {
	if o.Gateway == nil || o.Metrics == nil || o.Live == nil {
		return nil, errors.New("admin: Options.Gateway, Metrics and Live are required")
	}
	if o.Listen == "" {
		o.Listen = "127.0.0.1:9090"
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	host, _, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return nil, fmt.Errorf("admin.listen: %q is not an address of the form host:port", o.Listen)
	}
	if o.ClientCerts && o.TLS == nil {
		return nil, errors.New("admin: Options.ClientCerts without TLS")
	}
	if !isLoopback(host) && o.Token == "" && !o.ClientCerts {
		return nil, fmt.Errorf("admin.listen: %s can be reached from other machines; set admin.token, or client_ca in admin.tls", o.Listen)
	}
	s := &Server{o: o, loopback: isLoopback(host), registry: prometheus.NewRegistry(), hub: newHub()}
	for _, h := range o.Hosts {
		s.hosts = append(s.hosts, strings.ToLower(strings.TrimSuffix(h, ".")))
	}
	s.registry.MustRegister(o.Metrics, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.server = &http.Server{
		Handler:           s.guard(s.routes()),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    16 << 10,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
	}
	return s, nil
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// Start listens and serves until [Server.Shutdown]. Its error is the network's.
func (s *Server) Start() error {
	ln, err := net.Listen("tcp", s.o.Listen)
	if err != nil {
		return err
	}
	s.listener = ln
	if s.o.TLS != nil {
		ln = tls.NewListener(ln, s.o.TLS)
	}
	s.running.Go(func() {
		if err := s.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			s.o.Logger.Error("the admin listener stopped", "error", err)
		}
	})
	s.running.Go(func() { s.o.Live.run(s.server.BaseContext(ln), s.tick) })
	return nil
}

// Addr is the address listened on, after [Server.Start].
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Shutdown stops listening, ends streams, and lets other answers finish until
// ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	err := s.server.Shutdown(ctx)
	if err != nil {
		s.server.Close()
	}
	if s.listener != nil {
		s.running.Wait()
	}
	return err
}
