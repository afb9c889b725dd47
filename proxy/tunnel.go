package proxy

import (
	"io"
	"net"
	"time"

	"sluice/admission"
)

// tunnelPause is how long the second direction of a tunnel may go on once the
// first has ended.
const tunnelPause = 10 * time.Second

// tunnel passes on an answer that switches protocols, and then bytes both ways
// until both sides have ended. The handler stays in it, so that a drain counts
// tunnels like any request and ends them by closing the client's connection.
func (oc *originConn) tunnel(x *exchange) result {
	a, c := &x.answer, x.c
	x.keep = false
	x.event.Status = a.status
	x.out = x.appendAnswerHead(x.out[:0], kindConnection, kindUpgrade)
	x.out = append(x.out, '\r', '\n')
	x.out = append(x.out, a.in[a.pos:]...)
	a.pos = len(a.in)
	early := x.in[x.pos:]
	x.pos = len(x.in)
	if err := x.flush(); err != nil {
		return clientGone(err)
	}
	_ = c.Conn.SetDeadline(time.Time{})
	_ = oc.Conn.SetDeadline(time.Time{})

	done := make(chan int64, 1)
	go func() {
		n, err := int64(0), error(nil)
		if _, err = oc.Conn.Write(early); err == nil {
			n, err = pipe(oc.Conn, c.Conn)
		}
		endTunnel(oc.Conn, err)
		done <- n + int64(len(early))
	}()
	n, err := pipe(c.Conn, oc.Conn)
	x.event.BytesOut = n
	endTunnel(c.Conn, err)
	x.event.BytesIn = <-done
	return result{outcome: admission.Answered, relayed: true}
}

// endTunnel passes the end of one direction on. Where that was an orderly one
// the other direction may take its time; where it was not, nobody is left to
// listen, and it ends at once.
func endTunnel(to net.Conn, err error) {
	closeWrite(to)
	until := past
	if err == nil {
		until = time.Now().Add(tunnelPause)
	}
	_ = to.SetReadDeadline(until)
}

// pipe copies until the source ends.
func pipe(dst io.Writer, src io.Reader) (int64, error) {
	buf := wasteBuffers.Get().(*[32 << 10]byte)
	defer wasteBuffers.Put(buf)
	// Hide ReadFrom and WriteTo, which would bring buffers of their own.
	return io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{src}, buf[:])
}
