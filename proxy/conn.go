package proxy

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"sluice/admission"
	"sluice/internal/nowait"
)

// stub is all that fasthttp gets to read of a connection: it takes it for the
// one request there is, and calls the handler, which serves those that really
// come.
var stub = []byte("GET / HTTP/1.1\r\nHost: sluice\r\n\r\n")

// conn is a client connection, as fasthttp's server holds it. Its Read gives
// fasthttp the stub, its Write drops what fasthttp says on its own. The handler
// reads requests from it and writes the answers to it.
type conn struct {
	socket
	server *Server
	peer   netip.Addr
	secure bool   // over TLS
	cert   string // tenant name in the client's certificate; "" none

	peerText []byte

	x        *exchange // the request under way; nil while the connection is idle
	stubRead int

	state  atomic.Int32
	closed atomic.Bool

	armed  time.Time // the read deadline in force; zero: none
	used   bool      // a request has been awaited before
	unread bool      // the client has sent, or may yet send, bytes that nobody reads
	abort  bool      // an orderly end would pass for the end of the answer
}

// States of a connection, for drain: an idle one can be closed at any time.
const (
	connIdle    = iota // waiting for the first byte of a request
	connReading        // a head has begun to arrive
	connServing        // a request is being served
)

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{server: s}
	if tcp, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		c.peer = tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	c.peerText, _ = c.peer.AppendText(nil)
	c.init(nc)
	if c.raw != nil {
		c.readFn = c.readReady
	}
	return c
}

// useTLS puts a TLS session on top. The handshake runs with the first read,
// under the time for heads.
func (c *conn) useTLS(config *tls.Config) {
	c.Conn, c.raw, c.secure = tls.Server(nowait.Wrap(c.Conn), config), nil, true
}

// learnCert finds the tenant name in the client's certificate, once the
// handshake is over.
func (c *conn) learnCert() {
	session, ok := c.Conn.(*tls.Conn)
	if !ok || c.server.opts.CertName == nil {
		return
	}
	if chain := session.ConnectionState().VerifiedChains; len(chain) > 0 {
		c.cert = c.server.opts.CertName(chain[0][0])
	}
}

// Read gives fasthttp the stub.
func (c *conn) Read(p []byte) (int, error) {
	n := copy(p, stub[c.stubRead:])
	c.stubRead += n
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Write drops what fasthttp writes: the handler has answered already.
func (c *conn) Write(p []byte) (int, error) { return len(p), nil }

// awaitRequest is nextRequest, but for a bug in it, which costs the connection
// and not the process.
func (c *conn) awaitRequest() (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.server.opts.Log.Error("reading a request made the gateway panic; its connection was closed",
				slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			err = io.EOF
		}
	}()
	return c.nextRequest()
}

// nextRequest waits for a request and reads its head. It returns io.EOF where
// none comes: there is nobody to answer then.
func (c *conn) nextRequest() error {
	timeouts := c.server.timeouts()
	if c.x != nil && len(c.x.in) > 0 {
		// The client has sent the next request, or part of it, already.
		c.state.Store(connReading)
		c.armRead(timeouts.header)
		if c.x.readHead() {
			return nil
		}
	} else {
		if c.used {
			c.armIdle(timeouts.idle)
		} else {
			c.armRead(timeouts.header)
		}
		c.state.Store(connIdle)
	}
	first := !c.used
	c.used = true
	for {
		err := c.more()
		if first && c.secure && err == nil {
			c.learnCert()
			first = false
		}
		switch begun := c.x != nil && len(c.x.in) > 0; {
		case err == nil:
		case begun && errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(c.armed):
			// Drain took us for idle just as a head began to arrive.
			_ = c.Conn.SetReadDeadline(c.armed)
			continue
		case begun && errors.Is(err, os.ErrDeadlineExceeded):
			c.x.refuseHead(violation{admission.RequestTimeout, "the request head did not arrive in time"})
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded) || !c.lastLook():
			return io.EOF
		}
		if c.x.readHead() {
			return nil
		}
		// The rest of a slow head: from here on the time for heads counts.
		if c.state.CompareAndSwap(connIdle, connReading) {
			c.armRead(timeouts.header)
		}
	}
}

// lastLook takes what has arrived on a connection that is about to be closed as
// idle. A request may have come just then.
func (c *conn) lastLook() (got bool) {
	if c.raw == nil {
		return false
	}
	c.in = nil
	_ = c.raw.Control(func(fd uintptr) { got = c.readReady(fd) && c.errR == nil })
	return got
}

// more waits for bytes and appends them to the exchange's buffer. Over plain
// TCP an idle connection holds no exchange, and so no buffer, while it waits.
func (c *conn) more() error {
	if c.raw == nil {
		if c.x == nil {
			c.x = acquireExchange(c)
		}
		c.x.grow()
		n, err := c.Conn.Read(c.x.in[len(c.x.in):cap(c.x.in)])
		c.x.in = c.x.in[:len(c.x.in)+n]
		if n > 0 {
			return nil
		}
		return err
	}
	c.in = nil
	if err := c.raw.Read(c.readFn); err != nil {
		return err
	}
	return c.errR
}

// readReady is the callback of every read of a plain socket: into c.in where
// that is set (a body), otherwise into the exchange's buffer.
func (c *conn) readReady(fd uintptr) bool {
	if c.in != nil {
		return c.socket.readReady(fd)
	}
	if c.x == nil {
		c.x = acquireExchange(c)
	}
	x := c.x
	x.grow()
	n, err := nowait.Read(fd, x.in[len(x.in):cap(x.in)])
	if err == syscall.EAGAIN {
		if len(x.in) == 0 {
			c.x = nil
			x.release()
		}
		return false
	}
	x.in = x.in[:len(x.in)+n]
	c.errR = err
	return true
}

func (c *conn) armRead(d time.Duration) {
	c.armed = time.Now().Add(d)
	_ = c.Conn.SetReadDeadline(c.armed)
}

// armIdle bounds the wait for the next request. Moving a deadline costs, so one
// that has at least seven eighths of its time left is kept: idle connections
// close a little early rather than late, as their peers should expect.
func (c *conn) armIdle(d time.Duration) {
	left := time.Until(c.armed)
	if left > d || left < d-d/8 {
		c.armRead(d)
	}
}

// wake ends the wait of an idle connection, so that it closes by itself.
func (c *conn) wake() {
	if c.state.Load() == connIdle {
		_ = c.Conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// send writes b to the client.
func (c *conn) send(b []byte) error {
	_, err := c.write(b, c.server.timeouts().write)
	return err
}

const (
	lingerTime  = 10 * time.Second // how long unread bytes are drained after an answer
	lingerPause = 2 * time.Second  // longest silence meanwhile
)

// Close closes the connection. Where the client may still be sending, closing
// at once would reset the connection and destroy the answer on its way (RFC
// 9112 section 9.6); so our side ends, and what still comes is discarded for a
// while, in the background: Close is called under a lock at shutdown.
func (c *conn) Close() error {
	if !c.closed.CompareAndSwap(false, true) {
		return nil
	}
	if c.abort {
		c.reset()
	} else if c.unread {
		if c.server.lingering.Add(1) <= maxLingering {
			go c.linger()
			return nil
		}
		c.server.lingering.Add(-1)
	}
	c.server.forget(c)
	return c.Conn.Close()
}

// reset ends the connection such that the client sees a failure and not the end
// of the stream.
func (c *conn) reset() {
	nc := c.Conn
	if session, ok := nc.(*tls.Conn); ok {
		nc = session.NetConn()
	}
	if tcp, ok := nc.(interface{ SetLinger(seconds int) error }); ok {
		_ = tcp.SetLinger(0)
		_ = nc.Close()
	}
}

const maxLingering = 1024

func (c *conn) linger() {
	defer func() {
		c.server.lingering.Add(-1)
		c.server.forget(c)
		_ = c.Conn.Close()
	}()
	closeWrite(c.Conn)
	end := time.Now().Add(lingerTime)
	waste := wasteBuffers.Get().(*[32 << 10]byte)
	defer wasteBuffers.Put(waste)
	for time.Now().Before(end) {
		_ = c.Conn.SetReadDeadline(time.Now().Add(lingerPause))
		if _, err := c.Conn.Read(waste[:]); err != nil {
			return
		}
	}
}
