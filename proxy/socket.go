package proxy

import (
	"net"
	"syscall"
	"time"

	"sluice/internal/nowait"
)

// socket reads and writes one connection. On a plain TCP socket it makes the
// system calls itself, which buys three things: waiting needs no buffer, so an
// idle connection costs next to nothing; a write that the kernel takes at once
// needs no deadline; and a round trip can prove that a connection is clean at
// no cost (see originConn). Over TLS it uses the connection's own methods.
//
// A socket is used by one goroutine at a time for reading and one for writing.
type socket struct {
	net.Conn
	raw syscall.RawConn // nil over TLS

	// Arguments and results of the callbacks, which are made once per socket
	// so that a read or a write allocates nothing.
	readFn, writeFn func(fd uintptr) bool
	in              []byte
	nr, nw          int
	errR, errW      error
	out             []byte
}

func (s *socket) init(c net.Conn) {
	s.Conn = c
	if tcp, ok := c.(*net.TCPConn); ok {
		if raw, err := tcp.SyscallConn(); err == nil {
			s.raw = raw
			s.readFn = s.readReady
			s.writeFn = s.writeReady
		}
	}
}

// read reads what is there into p, waiting for it up to the read deadline.
func (s *socket) read(p []byte) (int, error) {
	if s.raw == nil {
		return s.Conn.Read(p)
	}
	s.in = p
	err := s.raw.Read(s.readFn)
	s.in = nil
	if err != nil {
		return 0, err
	}
	return s.nr, s.errR
}

func (s *socket) readReady(fd uintptr) bool {
	s.nr, s.errR = nowait.Read(fd, s.in)
	return s.errR != syscall.EAGAIN
}

// write writes all of p. Only where the kernel does not take it at once does
// it wait, at most for the given time.
func (s *socket) write(p []byte, timeout time.Duration) (n int, err error) {
	if s.raw != nil {
		s.out = p
		err = s.raw.Write(s.writeFn)
		s.out = nil
		if err != nil {
			return 0, err
		}
		n = s.nw
		if s.errW != nil && s.errW != syscall.EAGAIN {
			return n, s.errW
		}
		if n == len(p) {
			return n, nil
		}
	}
	if err := s.Conn.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return n, err
	}
	m, err := s.Conn.Write(p[n:])
	if err == nil {
		err = s.Conn.SetWriteDeadline(time.Time{})
	}
	return n + m, err
}

func (s *socket) writeReady(fd uintptr) bool {
	s.nw, s.errW = nowait.Write(fd, s.out)
	return true
}

// closeWrite ends our side of the stream and leaves the other open.
func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
