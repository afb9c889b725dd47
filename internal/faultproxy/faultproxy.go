// Package faultproxy breaks connections on purpose. A [Proxy] stands between a
// client and a server on loopback and, when told to, delays replies, loses
// them, swallows everything, resets connections or refuses new ones: what a
// network does to a gateway and its store, at a moment of a test's choosing.
//
// It knows no protocol. What it calls a reply is what the server sends in one
// piece; with a client that waits for each reply that is one.
package faultproxy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Proxy forwards TCP connections to one server. It is safe for concurrent use.
type Proxy struct {
	target   string
	listener net.Listener
	wg       sync.WaitGroup

	mu        sync.Mutex
	links     map[*link]struct{}
	latency   time.Duration
	drop      int // replies still to be lost
	blackHole bool
	cut       bool
	closed    bool
	dropped   int
	changed   chan struct{} // closed and replaced when a fault is set or cleared
}

// New starts a proxy for the server at target, listening on a free port of
// loopback.
func New(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("faultproxy: %w", err)
	}
	p := &Proxy{target: target, listener: l, links: map[*link]struct{}{}, changed: make(chan struct{})}
	p.wg.Go(p.accept)
	return p, nil
}

// Addr is where to connect instead of to the server.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Latency delays every reply by d from now on; 0 ends it.
func (p *Proxy) Latency(d time.Duration) { p.set(func() { p.latency = d }) }

// DropReplies loses the next n replies: the server has received and done what
// was asked, the client sees its connection reset instead of the reply.
func (p *Proxy) DropReplies(n int) { p.set(func() { p.drop = n }) }

// Dropped is how many replies have been lost so far.
func (p *Proxy) Dropped() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped
}

// BlackHole swallows all bytes in both directions while on, without a sign to
// either side. Connections that lost bytes are reset when it ends.
func (p *Proxy) BlackHole(on bool) { p.set(func() { p.blackHole = on }) }

// Cut resets all connections and refuses new ones until it is called with
// false.
func (p *Proxy) Cut(on bool) {
	p.set(func() { p.cut = on })
	if on {
		p.Reset()
	}
}

// Reset resets all connections that are open now.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.reset()
	}
}

// Heal ends all faults.
func (p *Proxy) Heal() {
	p.set(func() { p.latency, p.drop, p.blackHole, p.cut = 0, 0, false, false })
}

// Close ends the proxy and all its connections.
func (p *Proxy) Close() error {
	p.set(func() { p.closed = true })
	err := p.listener.Close()
	p.Reset()
	p.wg.Wait()
	return err
}

func (p *Proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // the client has gone already
		}
		p.wg.Go(func() { p.serve(client.(*net.TCPConn)) })
	}
}

// link is one forwarded connection.
type link struct{ client, server *net.TCPConn }

// reset ends both sides as a crash would: unsent bytes are lost, and the peer
// gets an error, not an end.
func (l *link) reset() {
	for _, c := range []*net.TCPConn{l.client, l.server} {
		if c != nil {
			c.SetLinger(0)
			c.Close()
		}
	}
}

func (p *Proxy) serve(client *net.TCPConn) {
	l := &link{client: client}
	defer l.reset()
	p.mu.Lock()
	refused := p.cut || p.closed
	p.mu.Unlock()
	if refused {
		return
	}
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	l.server = server.(*net.TCPConn)
	p.mu.Lock()
	refused = p.cut || p.closed
	if !refused {
		p.links[l] = struct{}{}
	}
	p.mu.Unlock()
	if refused {
		return
	}
	defer func() {
		p.mu.Lock()
		delete(p.links, l)
		p.mu.Unlock()
	}()
	done := make(chan struct{})
	p.wg.Go(func() {
		defer close(done)
		p.forward(l, l.server, l.client, false)
	})
	p.forward(l, l.client, l.server, true)
	<-done
}

// forward moves bytes until either side ends or a fault ends the connection.
func (p *Proxy) forward(l *link, to, from *net.TCPConn, replies bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && (!p.pass(replies) || write(to, buf[:n]) != nil) {
			l.reset()
			return
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				to.CloseWrite()
			} else {
				l.reset()
			}
			return
		}
	}
}

func write(to *net.TCPConn, b []byte) error {
	_, err := to.Write(b)
	return err
}

// pass applies the faults to one piece; false means that the connection ends.
func (p *Proxy) pass(reply bool) bool {
	p.mu.Lock()
	if reply && p.drop > 0 {
		p.drop--
		p.dropped++
		p.mu.Unlock()
		return false
	}
	if p.blackHole {
		for p.blackHole && !p.closed && !p.cut {
			changed := p.changed
			p.mu.Unlock()
			<-changed
			p.mu.Lock()
		}
		p.mu.Unlock()
		return false
	}
	latency, changed := p.latency, p.changed
	p.mu.Unlock()
	if reply && latency > 0 {
		t := time.NewTimer(latency)
		defer t.Stop()
		select {
		case <-t.C:
		case <-changed: // whatever changed, this piece has waited enough
		}
	}
	return true
}
