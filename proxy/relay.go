package proxy

import (
	"errors"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"sluice/admission"
)

// answered are the kinds of answer fields that reach the client as the origin
// sent them.
var answered = ^kindSet(kindHop, kindConnection, kindContentLength, kindTransferEncoding, kindUpgrade, kindTrailer, kindRequestID, kindOurs)

// appendAnswerHead appends the origin's status line and end-to-end fields, and
// those of the further kinds, without the final empty line.
func (x *exchange) appendAnswerHead(b []byte, further ...kind) []byte {
	a := &x.answer
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(a.status), 10)
	if a.reason == a.reasonEnd {
		b = append(b, ' ')
	}
	b = append(b, a.in[a.reason:a.reasonEnd]...)
	b = append(b, '\r', '\n')
	return appendFields(b, a.in, a.fields, answered|kindSet(further...))
}

// appendAnswer appends the head of the final answer as the client gets it.
func (x *exchange) appendAnswer(b []byte, chunked bool) []byte {
	a := &x.answer
	if a.contentLength >= 0 {
		b = x.appendAnswerHead(b, kindContentLength)
	} else {
		b = x.appendAnswerHead(b)
		switch {
		case !a.hasBody(x.request.Method):
		case chunked:
			b = append(b, "Transfer-Encoding: chunked\r\n"...)
		case x.keep:
			b = append(b, "Content-Length: "...)
			b = strconv.AppendInt(b, int64(len(a.body)), 10)
			b = append(b, '\r', '\n')
		}
	}
	b = appendField(b, "X-Request-Id: ", x.request.ID)
	b = x.appendKeyStatus(b)
	b = x.appendRateLimit(b)
	b = x.appendConnection(b)
	return append(b, '\r', '\n')
}

// relay passes a streamed answer on as it arrives. Once its head is out there
// is no way to report a failure but to end the connection early.
func (oc *originConn) relay(x *exchange, w *watch) result {
	a := &x.answer
	hasBody := a.hasBody(x.request.Method)
	chunked := hasBody && a.contentLength < 0 && x.head.minor == 1
	if hasBody && a.contentLength < 0 && !chunked || w.up.running() {
		x.keep = false
	}
	a.chunks.trailers = true
	x.event.Status = a.status
	x.out = x.appendAnswer(x.out[:0], chunked)
	w.streaming()
	for more := hasBody; more; {
		if a.pos == len(a.in) {
			// Nothing at hand: what has been said so far must not wait.
			if err := x.flush(); err != nil {
				return clientGone(err)
			}
		}
		piece, err := oc.nextPiece(a, w.fill)
		if err != nil && err != io.EOF {
			x.keep = false
			_ = x.flush()
			res := oc.broken(err)
			res.relayed = true
			return res
		}
		more = err == nil
		x.event.BytesOut += int64(len(piece))
		if chunked && len(piece) > 0 {
			x.out = appendChunkSize(x.out, len(piece))
			x.out = append(x.out, piece...)
			x.out = append(x.out, '\r', '\n')
		} else {
			x.out = append(x.out, piece...)
		}
		if chunked && !more {
			x.out = append(x.out, "0\r\n"...)
			x.out = append(x.out, a.chunks.trailer...)
			x.out = append(x.out, '\r', '\n')
		}
		if len(x.out) >= maxJoined {
			if err := x.flush(); err != nil {
				return clientGone(err)
			}
		}
	}
	if err := x.flush(); err != nil {
		return clientGone(err)
	}
	return result{outcome: admission.Answered, relayed: true}
}

// flush sends what has been gathered for the client.
func (x *exchange) flush() error {
	if len(x.out) == 0 {
		return nil
	}
	err := x.c.send(x.out)
	x.out = x.out[:0]
	if err != nil {
		x.keep = false
	}
	return err
}

var errClientGone = errors.New("the client went away")

// clientGone is the result of a stream whose client stopped listening. The
// origin had answered; that nobody heard it out is no failure of the origin.
func clientGone(err error) result {
	return result{admission.Unknown, admission.None, errClientGone.Error() + ": " + err.Error(), true}
}

// watchAfter is how long a stream may be silent before its client is watched.
const watchAfter = 500 * time.Millisecond

// watch looks after what goes on beside a streamed answer: the upload of the
// request's body, and whether the client is still there. Looking for the
// client takes a goroutine, so it is done for silent streams only: where
// something is written, a client that went away shows by itself.
type watch struct {
	oc       *originConn
	x        *exchange
	up       *upload
	deadline time.Time // for the answer's head; zero once that is there
	done     chan struct{}
	gone     bool // valid after done is closed
}

// streaming lifts the deadline: the head has arrived.
func (w *watch) streaming() {
	w.deadline = time.Time{}
	w.up.headArrived()
}

// fill reads more of the answer, and watches the client meanwhile if that takes
// longer.
func (w *watch) fill() error {
	a := &w.x.answer
	if cap(a.in)-len(a.in) < bufferSize/2 || a.pos == a.size && cap(a.in) < maxJoined && w.deadline.IsZero() {
		a.room(max(bufferSize/2, min(2*cap(a.in), maxJoined)))
	}
	if !w.up.running() {
		until := w.deadline
		if soon := time.Now().Add(watchAfter); w.done == nil && (until.IsZero() || soon.Before(until)) {
			until = soon
		}
		_ = w.oc.Conn.SetReadDeadline(until)
	}
	for {
		err := w.oc.fill(a)
		if err == nil {
			return nil
		}
		if w.up.failed() {
			return errClientGone
		}
		late := !w.deadline.IsZero() && !time.Now().Before(w.deadline)
		if !errors.Is(err, os.ErrDeadlineExceeded) || late && !w.up.running() {
			return err
		}
		if w.done != nil {
			return errClientGone
		}
		if w.up.running() {
			_ = w.oc.Conn.SetReadDeadline(time.Time{})
			continue
		}
		w.start()
	}
}

// start begins to watch the client. Should it send anything, that is kept for
// the next request, and it is taken to be there.
func (w *watch) start() {
	_ = w.oc.Conn.SetReadDeadline(w.deadline)
	c, oc := w.x.c, w.oc
	w.done = make(chan struct{})
	_ = c.Conn.SetReadDeadline(time.Time{})
	go func() {
		defer close(w.done)
		if err := c.more(); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			w.gone = true
			_ = oc.Conn.SetReadDeadline(time.Unix(1, 0))
		}
	}()
}

// stop ends what goes on beside the answer. It reports whether the request's
// body has been sent in full. It may be called more than once.
func (w *watch) stop() (uploaded bool) {
	if w.done != nil {
		_ = w.x.c.Conn.SetReadDeadline(time.Unix(1, 0))
		<-w.done
		w.x.c.armed = time.Time{}
		w.done = nil
	}
	return w.up.stop(w.x)
}

// upload sends a request's body to the origin while its answer is being read,
// since an origin may answer before it has read everything. The methods can be
// called on nil, which is an upload that is over and went well.
type upload struct {
	oc   *originConn
	done chan struct{}
	err  error // valid after done is closed

	mu      sync.Mutex
	hasHead bool
}

// startUpload begins to send the body.
func (oc *originConn) startUpload(x *exchange, rp *RoutePolicy) *upload {
	u := &upload{oc: oc, done: make(chan struct{})}
	if err := x.body.invite(); err != nil {
		u.err = err
		close(u.done)
		return u
	}
	_ = oc.Conn.SetReadDeadline(time.Time{})
	go u.run(x, rp)
	return u
}

func (u *upload) run(x *exchange, rp *RoutePolicy) {
	defer close(u.done)
	buf := wasteBuffers.Get().(*[32 << 10]byte)
	defer wasteBuffers.Put(buf)
	const front = 16 // room for the chunk's size line
	for {
		x.c.armRead(rp.BodyTimeout)
		n, err := x.body.Read(buf[front : len(buf)-2])
		if err != nil && err != io.EOF {
			// The client's fault; the origin must not take a part for the whole.
			u.err = err
			_ = u.oc.Conn.Close()
			return
		}
		piece := buf[front : front+n]
		if x.head.chunked {
			piece = piece[:0]
			if n > 0 {
				line := appendChunkSize(make([]byte, 0, front), n)
				piece = append(buf[front-len(line):front-len(line)], line...)
				piece = append(piece[:len(line)+n], '\r', '\n')
			}
			if err == io.EOF {
				piece = append(piece, "0\r\n\r\n"...)
			}
		}
		if len(piece) > 0 {
			if _, werr := u.oc.writeBy(piece, time.Now().Add(x.c.server.timeouts().write)); werr != nil {
				// The origin may have answered already; its answer counts.
				u.err = werr
				u.awaitHead(rp.Timeout)
				return
			}
		}
		if err == io.EOF {
			u.awaitHead(rp.Timeout)
			return
		}
	}
}

// awaitHead starts the clock for the answer, unless that has begun to arrive.
func (u *upload) awaitHead(timeout time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.hasHead {
		_ = u.oc.Conn.SetReadDeadline(time.Now().Add(timeout))
	}
}

func (u *upload) headArrived() {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.hasHead = true
	_ = u.oc.Conn.SetReadDeadline(time.Time{})
}

func (u *upload) running() bool {
	if u == nil {
		return false
	}
	select {
	case <-u.done:
		return false
	default:
		return true
	}
}

// failed reports whether the client did not send the whole body.
func (u *upload) failed() bool {
	return u != nil && !u.running() && u.err != nil
}

// stop ends the upload. It reports whether it was complete.
func (u *upload) stop(x *exchange) bool {
	if u == nil {
		return true
	}
	if u.running() {
		_ = x.c.Conn.SetReadDeadline(time.Unix(1, 0))
		_ = u.oc.Conn.SetWriteDeadline(time.Unix(1, 0))
	}
	<-u.done
	x.c.armed = time.Time{}
	if !x.body.ended() {
		x.keep = false
	}
	return u.err == nil && x.body.ended()
}
