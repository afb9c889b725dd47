package proxy

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync/atomic"
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

// framing is how the end of an answer's body is told to the client where the
// origin gave no length.
type framing uint8

const (
	framedByClose  framing = iota // by the connection's end
	framedByChunks                // by the chunked coding
	framedByLength                // by the length of what was buffered
)

// takeSignals hands over the fields that tell of queues. They end here, unless
// nothing in force listens to them.
func (x *exchange) takeSignals() {
	for i := range x.policy.Signals {
		s, a := &x.policy.Signals[i], &x.answer
		for j := range a.fields {
			if f := &a.fields[j]; equalFold(a.in[f.line:f.nameEnd], s.Name) {
				if !s.Pass {
					f.kind = kindHop
				}
				s.Offer(str(a.in[f.value:f.valueEnd]))
			}
		}
	}
}

// appendAnswer appends the head of the final answer as the client gets it.
func (x *exchange) appendAnswer(b []byte, f framing) []byte {
	a := &x.answer
	switch {
	case a.status == 204: // has no length (RFC 9110 section 8.6)
		b = x.appendAnswerHead(b)
	case a.contentLength >= 0:
		b = x.appendAnswerHead(b, kindContentLength)
	default:
		b = x.appendAnswerHead(b)
		switch {
		case !a.hasBody(x.request.Method):
		case f == framedByChunks:
			b = append(b, "Transfer-Encoding: chunked\r\n"...)
		case f == framedByLength:
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
	f := framedByClose
	if hasBody && a.contentLength < 0 && x.head.minor == 1 {
		f = framedByChunks
	}
	chunked := f == framedByChunks
	w.up.settle()
	endless := hasBody && a.contentLength < 0 && !chunked
	if endless || w.up.waits() {
		x.keep = false
	}
	a.chunks.trailers = true
	x.event.Status = a.status
	x.out = x.appendAnswer(x.out[:0], f)
	w.streaming()
	for more := hasBody; more; {
		piece, err := oc.nextPiece(a, w.flushAndFill)
		if err != nil && err != io.EOF {
			x.keep = false
			_ = x.flush()
			x.c.abort = endless
			res := w.broken(err)
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
	gone     atomic.Bool
}

func (w *watch) begin(oc *originConn, x *exchange, deadline time.Time) {
	w.oc, w.x, w.up, w.deadline, w.done = oc, x, nil, deadline, nil
	w.gone.Store(false)
}

// past is a deadline that ends a wait at once.
var past = time.Unix(1, 0)

// streaming lifts the deadline: the head has arrived.
func (w *watch) streaming() {
	w.deadline = time.Time{}
	w.up.headArrived()
}

// due is when the answer's head must be there: counted from the end of the
// upload where there is one, zero while that runs and once the head is there.
func (w *watch) due() time.Time {
	if w.up == nil || w.deadline.IsZero() {
		return w.deadline
	}
	return w.up.due()
}

// fill reads more of the answer, and watches the client meanwhile if that takes
// longer.
func (w *watch) fill() error {
	a := &w.x.answer
	if cap(a.in)-len(a.in) < bufferSize/2 || a.pos == a.size && cap(a.in) < maxJoined && w.deadline.IsZero() {
		a.room(max(bufferSize/2, min(2*cap(a.in), maxJoined)))
	}
	if !w.up.waits() {
		until := w.due()
		if soon := time.Now().Add(watchAfter); w.done == nil && (until.IsZero() || soon.Before(until)) {
			until = soon
		}
		_ = w.oc.Conn.SetReadDeadline(until)
	}
	for {
		// Whoever ends the wait says why first and moves the deadline then, so
		// this look, which comes after our own move of it, misses nothing.
		if w.gone.Load() {
			return errClientGone
		}
		err := w.oc.fill(a)
		if err == nil {
			return nil
		}
		if w.up.refused().is() {
			return errUpload
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if due := w.due(); !due.IsZero() && !time.Now().Before(due) {
			return err
		}
		switch {
		case w.up.waits():
		case w.done == nil:
			w.start()
		default:
			_ = w.oc.Conn.SetReadDeadline(w.due())
		}
	}
}

// flushAndFill is fill for the body of a stream: what has been said so far must
// not wait for what may be a long time coming.
func (w *watch) flushAndFill() error {
	if err := w.x.flush(); err != nil {
		return fmt.Errorf("%w: %v", errClientGone, err)
	}
	return w.fill()
}

// start begins to watch the client. Should it send anything, that is kept for
// the next request, and it is taken to be there.
func (w *watch) start() {
	_ = w.oc.Conn.SetReadDeadline(w.due())
	c, oc := w.x.c, w.oc
	w.done = make(chan struct{})
	_ = c.Conn.SetReadDeadline(time.Time{})
	go func() {
		defer close(w.done)
		if err := c.more(); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			w.gone.Store(true)
			_ = oc.Conn.SetReadDeadline(past)
		}
	}()
}

// stop ends what goes on beside the answer. It reports whether the request's
// body has been sent in full. It may be called more than once.
func (w *watch) stop() (uploaded bool) {
	if w.done != nil {
		_ = w.x.c.Conn.SetReadDeadline(past)
		<-w.done
		w.x.c.armed = time.Time{}
		w.done = nil
	}
	return w.up.stop(w.x)
}

// broken is the result of a round trip that failed after something was sent: by
// the client's fault where it did not send a proper body, by the origin's
// otherwise.
func (w *watch) broken(err error) result {
	if fault := w.up.refused(); err == errUpload && fault.is() {
		w.x.violation = fault
		return result{admission.Unknown, fault.reason, errUpload.Error(), false}
	}
	return w.oc.broken(err)
}
