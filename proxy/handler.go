package proxy

import (
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"sluice/admission"
)

// handle is fasthttp's handler. It serves all requests of a connection, one
// after the other: what fasthttp does around each call costs as much as reading a
// request, and none of it is needed.
func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	c := ctx.Conn().(*conn)
	for c.awaitRequest() == nil && c.serve() {
	}
	ctx.SetConnectionClose()
}

// serve serves the request whose head has been read. It reports whether the
// connection can serve another.
func (c *conn) serve() (keep bool) {
	x := c.x
	x.serve(c.server)
	if !x.keep {
		c.x = nil
		x.release()
		return false
	}
	x.reset()
	return true
}

// serve leads one request the whole way: facts, decision, origin, answer, and
// the report at the end. It answers exactly once.
func (x *exchange) serve(s *Server) {
	x.policy = s.policy.Load()
	x.keep = !x.head.close && !s.draining.Load()
	x.event.Request = &x.request
	x.fromTrusted = x.trusted()
	defer x.finish(s)
	s.opts.Observer.Begin()

	if v := x.violation; v.is() {
		x.keep = false
		x.request.ID = x.requestID()
		x.refuse(v)
		return
	}
	x.facts()
	if x.looped() {
		x.refuse(violation{reason: admission.LoopDetected})
		return
	}

	ctl := x.policy.Controller
	if f := ctl.Classify(&x.request); f.Is() {
		x.decision.Refuse(f)
		x.answerProblem()
		return
	}
	if s.closed.Load() {
		x.refuseDraining()
		return
	}
	rp := x.policy.route(x.request.Route)
	if rp.MaxBody > 0 && x.head.contentLength > rp.MaxBody {
		x.refuse(violation{reason: admission.TooLarge})
		return
	}

	// A body that is buffered is read before anything is reserved, so that a
	// slow client holds no permit. A client that asks before it sends gets its
	// decision first, unless that depends on the body; a stream has to.
	decideFirst := (rp.Stream || x.body.expected) && !x.body.arrived() && !x.request.Keyed
	if !decideFirst {
		if v := x.readBody(rp); v.is() {
			x.refuse(v)
			return
		}
	}
	if x.request.Keyed {
		ctl.Keys.Prepare(&x.request, x.bodyBuf)
	}
	asked := time.Now()
	x.event.Asked = asked.Sub(x.request.Received)
	ctl.Admit(asked, &x.request, &x.decision)
	x.event.Decided = x.since()
	switch x.decision.Verdict {
	case admission.Refuse:
		x.answerProblem()
		return
	case admission.Replay:
		x.answerReplay()
		return
	}
	if decideFirst && !rp.Stream {
		if v := x.readBody(rp); v.is() {
			ctl.GiveBack(time.Now(), &x.request)
			x.refuse(v)
			return
		}
	}

	x.event.Outcome = admission.Unknown // until it is known
	res := x.policy.Origin.roundTrip(x, rp)
	x.event.Outcome, x.event.Failure, x.event.Detail = res.outcome, res.failure, res.detail
	if res.failure == admission.OriginFull {
		// No connection was to be had, so it was not let in after all.
		ctl.GiveBack(time.Now(), &x.request)
		x.event.Outcome, x.event.Failure = admission.NotTried, admission.None
		x.decision.Refuse(admission.Refusal{Reason: res.failure, RetryAfter: time.Second})
		x.answerProblem()
		return
	}
	x.decision.KeyStatus = ctl.End(time.Now(), &x.request, res.outcome, x.recordable())
	switch {
	case res.relayed:
	case res.failure != admission.None:
		x.answerProblem()
	default:
		x.answerBuffered()
	}
}

// finish ends the exchange whatever happened in it, a panic included: permits
// end, the client gets an answer if it can, and the observer is told.
func (x *exchange) finish(s *Server) {
	if p := recover(); p != nil {
		x.panicked(s, p)
		x.afterPanic(s)
	}
	defer x.guard(s)
	if x.request.Keyed {
		x.policy.Controller.Keys.Forget(&x.request)
	}
	x.event.Decision = x.decision
	x.event.BytesIn = max(x.event.BytesIn, x.body.got)
	x.event.Done = x.since()
	s.opts.Observer.Observe(&x.event)
}

// afterPanic ends what the request held. Of one that had not been sent nothing
// counts; the outcome of another is unknown.
func (x *exchange) afterPanic(s *Server) {
	end := func() (done bool) {
		defer x.guard(s)
		x.policy.Controller.End(time.Now(), &x.request, x.event.Outcome, admission.Answer{})
		return true
	}
	// Permits end once each, so where ending one panics the next call goes on
	// behind it.
	for range maxEndings {
		if end() {
			break
		}
	}
	if x.event.Status == 0 {
		defer x.guard(s)
		x.event.Failure = admission.Internal
		x.answerProblem()
	}
}

// maxEndings is more than a request can hold permits.
const maxEndings = 8

// guard is deferred around code that must not end the process.
func (x *exchange) guard(s *Server) {
	if p := recover(); p != nil {
		x.panicked(s, p)
	}
}

// panicked gives up the connection and tells the operator.
func (x *exchange) panicked(s *Server, p any) {
	x.keep = false
	x.event.Detail = fmt.Sprint("panic: ", p)
	s.opts.Log.Error("a request made the gateway panic",
		slog.String("request_id", x.request.ID), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
}

// refuse answers a request that the protocol forbids.
func (x *exchange) refuse(v violation) {
	x.form.Detail = v.detail
	x.decision.Refuse(admission.Refusal{Reason: v.reason, Form: &x.form})
	x.answerProblem()
}

// answerProblem sends the problem document of a refusal or failure.
func (x *exchange) answerProblem() {
	x.keepIfRead()
	x.out = x.appendProblem(x.out[:0])
	x.event.BytesOut = int64(len(x.out))
	_ = x.flush()
}

// smallRest is how much of an unread body is read and forgotten so that the
// connection can be kept.
const smallRest = 64 << 10

// keepIfRead gives up the connection unless the rest of the request can be
// skipped without waiting: it must have arrived already.
func (x *exchange) keepIfRead() {
	if !x.keep || x.body.ended() {
		return
	}
	b := &x.body
	if b.err != nil || b.expected || b.chunked || b.left > int64(len(x.in)-x.pos) || b.left > smallRest {
		x.keep = false
		return
	}
	x.pos += int(b.left)
	b.left, b.err = 0, io.EOF
	x.c.unread = false
}

// answerBuffered sends the origin's answer, which has been read in full.
func (x *exchange) answerBuffered() {
	x.event.Status = x.answer.status
	x.out = x.appendAnswer(x.out[:0], framedByLength)
	x.sendWith(x.answer.body)
}

// sendWith sends x.out and a body after it.
func (x *exchange) sendWith(body []byte) {
	x.event.BytesOut = int64(len(body))
	if len(body) <= maxJoined {
		x.out = append(x.out, body...)
		body = nil
	}
	if err := x.flush(); err == nil && len(body) > 0 {
		if err := x.c.send(body); err != nil {
			x.keep = false
		}
	}
}

// answerReplay sends the recorded answer to the request's first execution.
func (x *exchange) answerReplay() {
	x.keepIfRead()
	rec := &x.decision.Recorded
	x.event.Status = rec.Status
	b := appendStatusLine(x.out[:0], rec.Status)
	for _, f := range rec.Fields {
		b = append(b, f.Name...)
		b = append(b, ": "...)
		b = appendField(b, "", f.Value)
	}
	b = append(b, "Idempotent-Replayed: true\r\n"...)
	b = x.appendKeyStatus(b)
	b = appendField(b, "X-Request-Id: ", x.request.ID)
	b = x.appendRateLimit(b)
	b = x.appendConnection(b)
	if rec.Status != 204 && rec.Status != 304 {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, int64(len(rec.Body)), 10)
		b = append(b, "\r\n"...)
	}
	x.out = append(b, "\r\n"...)
	x.sendWith(rec.Body)
}

// recordable is the origin's answer as Keys may keep it.
func (x *exchange) recordable() admission.Answer {
	a := &x.answer
	if !x.request.Keyed || a.size == 0 {
		return admission.Answer{}
	}
	return admission.Answer{Status: a.status, Header: a.header, Body: a.body}
}

// readBody reads the whole body into x.bodyBuf.
func (x *exchange) readBody(rp *RoutePolicy) violation {
	if x.body.ended() {
		return violation{}
	}
	if here := len(x.in) - x.pos; x.body.chunked || int64(here) < x.body.left {
		x.c.armRead(rp.BodyTimeout)
	}
	size := int64(bufferSize)
	if n := x.head.contentLength; n > 0 {
		size = min(n, 256<<10)
	}
	if int64(cap(x.bodyBuf)) < size {
		x.bodyBuf = make([]byte, 0, size)
	}
	for {
		n, err := x.body.Read(x.bodyBuf[len(x.bodyBuf):cap(x.bodyBuf)])
		x.bodyBuf = x.bodyBuf[:len(x.bodyBuf)+n]
		switch {
		case rp.MaxBody > 0 && int64(len(x.bodyBuf)) > rp.MaxBody:
			return violation{reason: admission.TooLarge}
		case err == io.EOF:
			return violation{}
		case err != nil:
			return bodyViolation(err)
		case len(x.bodyBuf) == cap(x.bodyBuf):
			x.bodyBuf = append(make([]byte, 0, 2*cap(x.bodyBuf)), x.bodyBuf...)
		}
	}
}
