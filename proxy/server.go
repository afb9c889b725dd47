package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"sluice/admission"
)

// Options are what a Server needs for its whole life.
type Options struct {
	Limits Limits
	TLS    *tls.Config // nil: plain HTTP
	// CertName returns the tenant name in a client's verified certificate, ""
	// for none. Needed where TLS asks for certificates.
	CertName func(*x509.Certificate) string
	Via      string // pseudonym in Via; an instance's random suffix is added
	Observer Observer
	Log      *slog.Logger
}

// Observer is told of every request twice: when its head has been read (or is
// known to be refused), and, as an admission.Observer, at its end.
type Observer interface {
	admission.Observer
	Begin()
}

// Server accepts client connections and serves the requests on them.
type Server struct {
	opts   Options
	via    string
	limits atomic.Pointer[Limits]
	policy atomic.Pointer[Policy]
	http   fasthttp.Server

	draining   atomic.Bool // answers close their connections
	closed     atomic.Bool // requests are refused
	lingering  atomic.Int32
	turnedAway atomic.Int64

	mu        sync.Mutex
	listeners []*listener
	conns     map[*conn]struct{}
	clients   map[netip.Addr]int
}

// NewServer makes a server that serves under the given policy once Serve is
// called.
func NewServer(opts Options, policy *Policy) *Server {
	s := &Server{
		opts:    opts,
		conns:   make(map[*conn]struct{}),
		clients: make(map[netip.Addr]int),
	}
	s.via = opts.Via + "-" + string(appendHex(nil, rand.Uint64())[:8])
	s.limits.Store(&opts.Limits)
	s.policy.Store(policy)
	s.http = fasthttp.Server{
		Handler:               s.handle,
		Name:                  "sluice",
		Concurrency:           1 << 30, // connections are counted in accept
		ReadBufferSize:        64,      // all it reads is the stub
		WriteBufferSize:       256,     // and what it writes is dropped
		NoDefaultServerHeader: true,
		NoDefaultDate:         true,
		NoDefaultContentType:  true,
		LazyRequestTime:       true,
		SecureErrorLogMessage: true,
		Logger:                log.New(io.Discard, "", 0),
	}
	return s
}

// SetPolicy swaps the policy. Requests under way finish under their own.
func (s *Server) SetPolicy(p *Policy) { s.policy.Store(p) }

// SetLimits swaps the limits on connections. They hold for what is read next.
func (s *Server) SetLimits(l Limits) { s.limits.Store(&l) }

type timeouts struct{ header, idle, write time.Duration }

func (s *Server) timeouts() timeouts {
	l := s.limits.Load()
	return timeouts{l.HeaderTimeout, l.IdleTimeout, l.WriteTimeout}
}

func (s *Server) headLimits() headLimits {
	l := s.limits.Load()
	return headLimits{target: l.Target, headers: l.Headers}
}

// Serve serves connections from ln until Shutdown.
func (s *Server) Serve(ln net.Listener) error {
	l := &listener{Listener: ln, server: s}
	s.mu.Lock()
	s.listeners = append(s.listeners, l)
	s.mu.Unlock()
	return s.http.Serve(l)
}

// Shutdown stops accepting connections, lets running requests finish, and
// closes what is left when ctx ends. It returns nil if nothing had to be cut
// off. Drain must have been called.
func (s *Server) Shutdown(ctx context.Context) error {
	s.closeListeners()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var shut chan error
	for {
		// fasthttp would close connections on which a request is just arriving,
		// since it has not seen any of it. Idle ones are woken instead and close
		// by themselves; its own end comes when none is left.
		if s.wakeIdle() == 0 && shut == nil {
			shut = make(chan error, 1)
			go func() { shut <- s.http.Shutdown() }()
		}
		select {
		case err := <-shut:
			return err
		case <-tick.C:
		case <-ctx.Done():
			s.closeAll()
			s.awaitCutOff(tick.C)
			return errors.Join(ctx.Err(), errors.New("requests were still running and have been cut off"))
		}
	}
}

// awaitCutOff gives requests whose connections have been closed the moment that
// they need to notice and be reported.
func (s *Server) awaitCutOff(tick <-chan time.Time) {
	for end := time.Now().Add(cutOffTime); s.Connections() > 0 && time.Now().Before(end); {
		<-tick
	}
}

const cutOffTime = time.Second

func (s *Server) closeListeners() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		_ = l.Close()
	}
}

// wakeIdle ends the wait of every idle connection, and returns how many
// connections there are.
func (s *Server) wakeIdle() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.wake()
	}
	return len(s.conns)
}

func (s *Server) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.Conn.Close()
	}
}

// Connections returns how many client connections are open.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// TurnedAway returns how many connections were refused for lack of room.
func (s *Server) TurnedAway() int64 { return s.turnedAway.Load() }

// admit takes a new connection in, unless there are too many.
func (s *Server) admit(nc net.Conn) (*conn, bool) {
	c := newConn(s, nc)
	l := s.limits.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	full := l.Connections > 0 && len(s.conns) >= l.Connections ||
		l.PerClient > 0 && s.clients[c.peer] >= l.PerClient
	if !full {
		s.conns[c] = struct{}{}
		s.clients[c.peer]++
	}
	return c, !full
}

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.conns[c]; !ok {
		return
	}
	delete(s.conns, c)
	if s.clients[c.peer]--; s.clients[c.peer] == 0 {
		delete(s.clients, c.peer)
	}
}

// listener hands out connections that frame requests.
type listener struct {
	net.Listener
	server *Server
	closed sync.Once
}

// Close closes the listener; fasthttp does so again.
func (l *listener) Close() (err error) {
	l.closed.Do(func() { err = l.Listener.Close() })
	return err
}

// Accept waits for the next connection that there is room for. Running out of
// file descriptors is waited out: to fasthttp it would be the end.
func (l *listener) Accept() (net.Conn, error) {
	pause := 5 * time.Millisecond
	for {
		nc, err := l.Listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil, err
		case err != nil:
			l.server.opts.Log.Error("cannot accept connections; trying again", slog.Any("error", err), slog.Duration("after", pause))
			time.Sleep(pause)
			pause = min(2*pause, time.Second)
			continue
		}
		pause = 5 * time.Millisecond
		c, ok := l.server.admit(nc)
		if !ok {
			l.server.turnedAway.Add(1)
			l.server.turnAway(c)
			continue
		}
		if l.server.opts.TLS != nil {
			c.useTLS(l.server.opts.TLS)
		}
		return c, nil
	}
}

// turnAway tells a connection that there is no room, without waiting for what
// it has to say. Over TLS nothing can be said without a handshake.
func (s *Server) turnAway(c *conn) {
	if s.opts.TLS == nil {
		_, _ = c.write(tooManyConnections, time.Second)
	}
	c.unread = true
	_ = c.Close()
}

var tooManyConnections = func() []byte {
	x := &exchange{policy: &Policy{}}
	x.request.ID = "none"
	x.decision.Refuse(admission.Refusal{Reason: admission.TooManyConnections, RetryAfter: 5 * time.Second})
	return x.appendProblem(nil)
}()
