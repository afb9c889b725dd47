// Package nowait reads and writes sockets without telling Go's scheduler.
//
// The scheduler wants to be told of each system call, since it may block. Being
// told, it wakes its monitor thread where that sleeps, and the monitor then looks
// every 20 µs whether the call has blocked (runtime.sysmon). A gateway goes to
// sleep between most requests, so at a few thousand requests a second that adds
// up to a tenth and more of all its CPU time. But the descriptors of Go's
// sockets never block, so nothing has to be told.
//
// The price is that whoever stops the world, as the garbage collector does for a
// moment, waits for the end of the call. So only short calls are made this way.
package nowait

import (
	"io"
	"net"
	"syscall"
)

// Short is up to how many bytes a call counts as short.
const Short = 64 << 10

// Read reads from a descriptor that does not block: EAGAIN where nothing is
// there, [io.EOF] at the end of the stream. It does not allocate.
func Read(fd uintptr, p []byte) (int, error) {
	for {
		n, err := read(fd, p)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return 0, err
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// Write writes to a descriptor that does not block what the kernel takes: EAGAIN
// where that is not all of p, with how much it was. It does not allocate.
func Write(fd uintptr, p []byte) (n int, err error) {
	for n < len(p) {
		m, err := write(fd, p[n:])
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return n, err
		default:
			n += m
		}
	}
	return n, nil
}

// Conn is a connection whose Read and Write work so. One goroutine at a time may
// read, and one may write.
type Conn struct {
	*net.TCPConn
	raw             syscall.RawConn
	readFn, writeFn func(fd uintptr) bool // made once: a call allocates nothing
	in, out         []byte
	nr, nw          int
	errR, errW      error
}

// Wrap returns c as a [Conn] where it is a plain TCP connection, and c itself
// where it is not.
func Wrap(c net.Conn) net.Conn {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return c
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return c
	}
	w := &Conn{TCPConn: tcp, raw: raw}
	w.readFn = func(fd uintptr) bool {
		w.nr, w.errR = Read(fd, w.in)
		return w.errR != syscall.EAGAIN
	}
	w.writeFn = func(fd uintptr) bool {
		var n int
		n, w.errW = Write(fd, w.out[w.nw:])
		w.nw += n
		return w.errW != syscall.EAGAIN
	}
	return w
}

// Read implements [net.Conn].
func (c *Conn) Read(p []byte) (int, error) {
	c.in, c.nr = p, 0
	err := c.raw.Read(c.readFn)
	c.in = nil
	if err != nil {
		return 0, err
	}
	return c.nr, c.errR
}

// Write implements [net.Conn].
func (c *Conn) Write(p []byte) (int, error) {
	c.out, c.nw = p, 0
	err := c.raw.Write(c.writeFn)
	c.out = nil
	if err != nil {
		return c.nw, err
	}
	return c.nw, c.errW
}
