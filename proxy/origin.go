package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"sluice/admission"
)

// OriginOptions describe the API behind the gateway.
type OriginOptions struct {
	// URLs are the addresses, at least one, as scheme://host[:port].
	URLs []string
	// ConnectTimeout bounds dialling and the TLS handshake together.
	ConnectTimeout time.Duration
	// MaxConnections bounds the connections to each address.
	MaxConnections int
	// IdleTimeout closes connections unused that long. It should be below the
	// origin's own, so that it is we who close.
	IdleTimeout time.Duration
	// MaxConnectionAge replaces connections that old, so that a changed DNS
	// entry is followed. 0: no limit.
	MaxConnectionAge time.Duration
	// TLS is for https addresses; nil: the system's roots.
	TLS *tls.Config
	// EjectAfter is how many failures in a row take an address out of use for
	// EjectFor. 0: never.
	EjectAfter int
	EjectFor   time.Duration
}

// Origin is the API behind the gateway, at one address or several. It is safe
// for concurrent use.
type Origin struct {
	opts      OriginOptions
	authority string // of the first address, for requests without Host
	addresses []*address
	turn      atomic.Uint32
}

// address is one address of the origin, with its pool of connections.
//
// fasthttp's HostClient is used as a pool and for nothing else: its own round
// trip re-sends requests that may have been executed, and hands out connections
// on which an earlier answer is still arriving.
type address struct {
	origin   *Origin
	name     string // host:port
	url      string // scheme://host[:port]
	tls      *tls.Config
	pool     fasthttp.HostClient
	failures atomic.Int32
	ejected  atomic.Int64 // until this time, in Unix nanoseconds
	sick     atomic.Bool  // by active health check
	lastFail atomic.Pointer[string]
}

// NewOrigin prepares the addresses; it connects to none.
func NewOrigin(opts OriginOptions) (*Origin, error) {
	o := &Origin{opts: opts}
	for _, raw := range opts.URLs {
		u, err := url.Parse(raw)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("origin address %q: want http://host:port or https://host:port", raw)
		}
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
		}
		a := &address{origin: o, name: net.JoinHostPort(u.Hostname(), port)}
		dialer := &net.Dialer{KeepAlive: 30 * time.Second}
		a.url = u.Scheme + "://" + u.Host
		var tlsConfig *tls.Config
		if u.Scheme == "https" {
			tlsConfig = &tls.Config{}
			if opts.TLS != nil {
				tlsConfig = opts.TLS.Clone()
			}
			if tlsConfig.ServerName == "" {
				tlsConfig.ServerName = u.Hostname()
			}
			tlsConfig.NextProtos = []string{"http/1.1"}
			a.tls = tlsConfig
		}
		a.pool = fasthttp.HostClient{
			Addr:                a.name,
			MaxConns:            opts.MaxConnections,
			MaxIdleConnDuration: opts.IdleTimeout,
			ConnPoolStrategy:    fasthttp.LIFO,
			DialTimeout: func(addr string, timeout time.Duration) (net.Conn, error) {
				return dialOrigin(dialer, addr, tlsConfig, timeout)
			},
		}
		if o.authority == "" {
			o.authority = u.Host
		}
		o.addresses = append(o.addresses, a)
	}
	if len(o.addresses) == 0 {
		return nil, errors.New("origin: no address given")
	}
	return o, nil
}

// dialOrigin connects and, for https, completes the handshake: every phase is
// under the one timeout (a TLS handshake that is left to the first write would
// not be).
func dialOrigin(d *net.Dialer, addr string, tlsConfig *tls.Config, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	oc := &originConn{born: time.Now()}
	oc.init(nc)
	if tlsConfig != nil {
		if err := oc.startTLS(tlsConfig).HandshakeContext(ctx); err != nil {
			nc.Close()
			return nil, fmt.Errorf("TLS: %w", err)
		}
	}
	return oc, nil
}

// result is what came of a round trip.
type result struct {
	outcome admission.Outcome
	failure admission.Reason // None: answered
	detail  string           // for operators
	relayed bool             // the answer has gone to the client already
}

// roundTrip sends the request to the origin and reads its answer. What was not
// sent is tried once more, at another address where there is one; what may
// have been received is never sent again.
func (o *Origin) roundTrip(x *exchange, rp *RoutePolicy) result {
	deadline := time.Now().Add(rp.Timeout)
	if by := x.request.SendBy; !by.IsZero() && by.Before(deadline) {
		deadline = by
	}
	a := o.pick(nil)
	res := a.try(x, rp, deadline)
	if res.outcome == admission.NotSent && res.failure == admission.OriginUnreachable && time.Now().Before(deadline) {
		x.answer.reset()
		a = o.pick(a)
		res = a.try(x, rp, deadline)
	}
	return res
}

// pick takes the next address in turn that is in use, another than the given
// one where there is a choice. Where all are out of use it takes the next one
// all the same: trying is better than refusing.
func (o *Origin) pick(but *address) *address {
	if len(o.addresses) == 1 {
		return o.addresses[0]
	}
	n := uint32(len(o.addresses))
	start := o.turn.Add(1)
	now := time.Now().UnixNano()
	for i := range n {
		if a := o.addresses[(start+i)%n]; a != but && a.usable(now) {
			return a
		}
	}
	for i := range n {
		if a := o.addresses[(start+i)%n]; a != but {
			return a
		}
	}
	return but
}

func (a *address) usable(now int64) bool {
	return !a.sick.Load() && a.ejected.Load() <= now
}

// try makes one attempt at the address.
func (a *address) try(x *exchange, rp *RoutePolicy, deadline time.Time) result {
	for {
		wait := min(time.Until(deadline), a.origin.opts.ConnectTimeout)
		if wait <= 0 {
			return result{admission.NotSent, admission.OriginUnreachable, a.name + ": no time left to connect", false}
		}
		cc, err := a.pool.AcquireConn(wait, false)
		if err == fasthttp.ErrNoFreeConns {
			return result{admission.NotSent, admission.OriginFull, a.name + ": all connections allowed by origin.max_connections are in use", false}
		}
		if err != nil {
			a.failed(err.Error())
			return result{admission.NotSent, admission.OriginUnreachable, fmt.Sprintf("%s: %v", a.name, err), false}
		}
		oc := cc.Conn().(*originConn)
		if age := a.origin.opts.MaxConnectionAge; age > 0 && oc.used && time.Since(oc.born) > age {
			a.pool.CloseConn(cc)
			continue
		}
		reused := oc.used
		keep := false
		res := func() (res result) {
			// Deferred, so that a panic does not take a place in the pool along.
			defer func() {
				oc.used = true
				if keep {
					a.pool.ReleaseConn(cc)
				} else {
					a.pool.CloseConn(cc)
				}
			}()
			res, keep = oc.exchange(x, rp, deadline)
			return res
		}()
		if res.outcome == admission.NotSent && reused {
			// A kept connection had died meanwhile, which says nothing about
			// the origin: take the next one. Each turn uses one up.
			continue
		}
		switch {
		case res.failure == admission.OriginFailed || res.failure == admission.OriginUnreachable:
			a.failed(res.detail)
		case res.outcome == admission.Answered && a.lastFail.Load() != nil:
			a.failures.Store(0)
			a.lastFail.Store(nil)
		}
		if res.detail != "" {
			res.detail = a.name + ": " + res.detail
		}
		return res
	}
}

// failed counts a failure, and takes the address out of use for a while after
// several in a row. Time-outs do not count: the origin may just be slow, and
// taking load off one address puts it on the others. Nor does what clients do.
func (a *address) failed(why string) {
	a.lastFail.Store(&why)
	after := a.origin.opts.EjectAfter
	if after > 0 && int(a.failures.Add(1)) >= after {
		a.failures.Store(0)
		a.ejected.Store(time.Now().Add(a.origin.opts.EjectFor).UnixNano())
	}
}

// AddressStatus is the state of one address, for operators.
type AddressStatus struct {
	Address     string `json:"address"`
	InUse       bool   `json:"in_use"` // neither ejected nor found sick
	Failures    int    `json:"failures"`
	Connections int    `json:"connections"`
	Idle        int    `json:"idle"`
	LastError   string `json:"last_error"` // of the latest failure; "" while all is well
}

// Status reports on every address.
func (o *Origin) Status() []AddressStatus {
	now := time.Now().UnixNano()
	all := make([]AddressStatus, len(o.addresses))
	for i, a := range o.addresses {
		all[i] = AddressStatus{a.name, a.usable(now), int(a.failures.Load()), a.pool.ConnsCount(), a.pool.IdleConnsCount(), ""}
		if e := a.lastFail.Load(); e != nil {
			all[i].LastError = *e
		}
	}
	return all
}

// Close closes the connections that are not in use.
func (o *Origin) Close() {
	for _, a := range o.addresses {
		a.pool.CloseIdleConnections()
	}
}
