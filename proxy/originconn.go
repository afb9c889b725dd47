package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"sluice/admission"
	"sluice/internal/nowait"
)

// originConn is a connection to the origin.
//
// Before a request is written the connection must be proved clean: a byte that
// is already there would be taken for the answer to this request, whosever it
// is, and an end of stream means that the write would go nowhere. The proof is
// a read that finds nothing. It is free: a read that finds nothing is made
// between write and answer anyway, to learn that one has to wait; here it is
// made before the write, inside the callback of one raw read, which the runtime
// then lets wait for the answer. No wake-up is lost in between, since the
// poller was armed before the callback ran.
type originConn struct {
	socket
	born time.Time
	used bool

	below *records // what Conn, a TLS session, runs over; nil on plain TCP
	step  step
	more  bool // more is to be written after x.out
	x     *exchange
	sent  int
	err   error
}

type step uint8

const (
	stepProve step = iota
	stepAwait
)

// errStale says that a connection turned out unusable before anything was
// written to it.
var errStale = errors.New("the connection was closed or not clean")

func (oc *originConn) init(nc net.Conn) {
	oc.socket.init(nc)
	oc.readFn = oc.ready
}

// ready is the callback of raw reads: of the round trip where oc.x is set, of
// plain reads otherwise.
func (oc *originConn) ready(fd uintptr) bool {
	if oc.x == nil {
		return oc.socket.readReady(fd)
	}
	a := &oc.x.answer
	free := a.in[len(a.in):cap(a.in)]
	n, err := nowait.Read(fd, free)
	if oc.step == stepProve {
		if err != syscall.EAGAIN {
			oc.err = errStale
			return true
		}
		oc.step = stepAwait
		oc.sent, oc.err = nowait.Write(fd, oc.x.out)
		// Everything is written: wait for the answer.
		return oc.err != nil || oc.more
	}
	if err == syscall.EAGAIN {
		return false
	}
	a.in = a.in[:len(a.in)+n]
	oc.err = err
	return true
}

// send proves the connection clean, writes x.out and waits for the first bytes
// of the answer; of a stream at most for watchAfter, so that then the client can
// be watched too, and not at all where more is to be written. sent is how many
// bytes were written.
func (oc *originConn) send(x *exchange, deadline time.Time, stream, more bool) (sent int, err error) {
	until := deadline
	if soon := time.Now().Add(watchAfter); stream && soon.Before(deadline) {
		until = soon
	}
	if oc.below != nil && oc.used && !oc.below.atRest(oc.Conn) {
		return 0, errStale
	}
	if err := oc.Conn.SetReadDeadline(until); err != nil {
		return 0, errStale
	}
	x.answer.room(bufferSize / 2)
	if oc.below != nil {
		// Whether the session put anything on the wire cannot be told from its
		// error, so a failure counts as sent.
		_, err = oc.writeBy(x.out, deadline)
		return len(x.out), err
	}
	oc.x, oc.step, oc.sent, oc.err = x, stepProve, 0, nil
	oc.more = more
	err = oc.raw.Read(oc.readFn)
	oc.x = nil
	if err == nil {
		err = oc.err
	}
	switch {
	case err == syscall.EAGAIN:
		var n int
		n, err = oc.writeBy(x.out[oc.sent:], deadline)
		oc.sent += n
	case oc.sent == len(x.out) && errors.Is(err, os.ErrDeadlineExceeded) && until != deadline:
		err = nil
	}
	return oc.sent, err
}

// writeBy writes all of p, waiting no longer than to the deadline.
func (oc *originConn) writeBy(p []byte, deadline time.Time) (int, error) {
	if err := oc.Conn.SetWriteDeadline(deadline); err != nil {
		return 0, err
	}
	return oc.Conn.Write(p)
}

// fill reads more of the answer.
func (oc *originConn) fill(a *answer) error {
	a.room(1)
	n, err := oc.read(a.in[len(a.in):cap(a.in)])
	a.in = a.in[:len(a.in)+n]
	if n > 0 {
		return nil
	}
	return err
}

// exchange makes the round trip on this connection. reusable says that the
// answer was complete and nothing is left over.
func (oc *originConn) exchange(x *exchange, rp *RoutePolicy, deadline time.Time) (res result, reusable bool) {
	w := &x.watch
	w.begin(oc, x, deadline)
	defer w.stop()
	x.out = x.appendRequestHead(x.out[:0], rp)
	body := x.bodyBuf
	if len(body) > 0 && len(body) <= maxJoined {
		x.out, body = append(x.out, body...), nil
	}
	upload := rp.Stream && !x.body.ended()
	sent, err := oc.send(x, deadline, rp.Stream, upload || len(body) > 0)
	if sent == 0 && err != nil {
		return result{admission.NotSent, admission.OriginUnreachable, err.Error(), false}, false
	}
	x.event.Sent = x.since()
	switch {
	case err != nil:
	case len(body) > 0:
		w.up = oc.startWrite(body, deadline)
	case upload:
		w.up = oc.startUpload(x, rp)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return oc.broken(err), false
	}
	// Even when writing failed the origin may have said why: an early 413, say.
	if readErr := oc.readHead(x, w, rp.Stream); readErr != nil {
		if err == nil {
			err = readErr
		}
		return w.broken(err), false
	}
	x.event.OriginAnswered = x.since()
	x.takeSignals()

	a := &x.answer
	switch {
	case a.status == 101 && rp.Upgrade && x.head.upgrade:
		return oc.tunnel(x), false
	case a.status == 101:
		return oc.broken(garbage("it switches protocols unasked")), false
	case rp.Stream:
		res = oc.relay(x, w)
	default:
		if err := oc.readBody(x, rp.MaxAnswer); err != nil {
			return oc.broken(err), false
		}
		res = result{outcome: admission.Answered}
	}
	uploaded := w.stop()
	return res, err == nil && uploaded && res.outcome == admission.Answered && !a.close && a.pos == len(a.in)
}

// maxJoined is up to which size a body is written in one piece with its head:
// copying it costs less than another system call.
const maxJoined = 32 << 10

// readHead reads the head of the final answer, passing interim ones on to the
// client.
func (oc *originConn) readHead(x *exchange, w *watch, stream bool) error {
	a := &x.answer
	for interim := 0; ; {
		if err := a.readHead(); err != nil {
			return err
		}
		switch {
		case a.size == 0 && stream:
			if err := w.fill(); err != nil {
				return err
			}
			continue
		case a.size == 0:
			if err := oc.fill(a); err != nil {
				return err
			}
			continue
		case a.status >= 200 || a.status == 101:
			return nil
		}
		if interim++; interim > maxInterim {
			return garbage("it has too many interim answers")
		}
		// 100 would answer an Expect, and the origin is sent none.
		if a.status != 100 && x.head.minor == 1 {
			x.out = append(x.appendAnswerHead(x.out[:0]), '\r', '\n')
			if err := x.c.send(x.out); err != nil {
				return err
			}
		}
		a.another()
	}
}

// firstRoom is how much of an answer's announced length is made room for before
// any of it has come.
const firstRoom = 1 << 20

var errTooLong = errors.New("its body is longer than max_response allows")

// readBody reads the whole body into x.answer.body.
func (oc *originConn) readBody(x *exchange, limit int64) error {
	a := &x.answer
	if !a.hasBody(x.request.Method) {
		return nil
	}
	switch {
	case limit > 0 && a.contentLength > limit:
		return errTooLong
	case a.contentLength >= 0:
		end := a.size + int(a.contentLength)
		if missing := end - len(a.in); missing > 0 {
			a.room(min(missing, firstRoom)) // what is announced need not come
		}
		for len(a.in) < end {
			if err := oc.fill(a); err != nil {
				return truncated(err)
			}
		}
		a.body, a.pos = a.in[a.size:end], end
		return nil
	}
	a.bodyBuf = a.bodyBuf[:0]
	a.chunks.trailers = true // and end here: a buffered answer is given a length
	for {
		piece, err := oc.nextPiece(a, func() error { return oc.fill(a) })
		a.bodyBuf = append(a.bodyBuf, piece...)
		if limit > 0 && int64(len(a.bodyBuf)) > limit {
			return errTooLong
		}
		if err == io.EOF {
			a.body = a.bodyBuf
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// nextPiece returns the next piece of the body, valid until the next call;
// io.EOF at its end, with the last piece or after it.
func (oc *originConn) nextPiece(a *answer, fill func() error) ([]byte, error) {
	for {
		if a.pos == len(a.in) && !(a.contentLength >= 0 && a.left == 0) {
			a.in, a.pos = a.in[:a.size], a.size
			err := fill()
			if err == io.EOF && !a.chunked && a.contentLength < 0 {
				// A body without framing ends with its connection.
				a.close = true
				return nil, io.EOF
			}
			if err != nil {
				return nil, truncated(err)
			}
		}
		var piece []byte
		var err error
		switch {
		case a.chunked:
			var used int
			piece, used, err = a.chunks.next(a.in[a.pos:], len(a.in))
			a.pos += used
		case a.contentLength >= 0:
			n := min(int64(len(a.in)-a.pos), a.left)
			piece = a.in[a.pos : a.pos+int(n)]
			a.pos += int(n)
			if a.left -= n; a.left == 0 {
				err = io.EOF
			}
		default:
			piece = a.in[a.pos:]
			a.pos = len(a.in)
		}
		if len(piece) > 0 || err != nil {
			return piece, err
		}
	}
}

// broken is the result of a round trip that failed after something was sent.
func (oc *originConn) broken(err error) result {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return result{admission.Unknown, admission.OriginTimeout, "no complete answer within the timeout", false}
	}
	if errors.Is(err, errClientGone) {
		return result{admission.Unknown, admission.None, err.Error(), true}
	}
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return result{admission.Unknown, admission.OriginFailed, "the connection was closed before the answer was complete", false}
	}
	return result{admission.Unknown, admission.OriginFailed, err.Error(), false}
}
