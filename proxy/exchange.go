package proxy

import (
	"sync"
	"time"

	"sluice/admission"
)

// exchange is one request and its answer: all the memory that handling it
// takes. It is pooled, so a request allocates nothing, and an idle connection
// holds none.
type exchange struct {
	c   *conn
	in  []byte // from the client: the head, then body bytes that came with it
	pos int    // how much of in is used up

	head      head
	violation violation
	form      admission.Form // of a refusal by the protocol
	body      bodyReader
	bodyBuf   []byte // the whole body, where the route buffers it

	out []byte // what is being written, to the origin or to the client

	answer answer
	watch  watch

	policy   *Policy
	request  admission.Request
	decision admission.Decision
	event    admission.Event

	id   [32]byte // request id, where it is ours
	xff  []byte   // scratch
	keep bool     // the client's connection can serve another request

	fromTrusted bool // the peer is a trusted proxy
}

const (
	bufferSize    = 4 << 10
	maxKeptBuffer = 64 << 10 // larger buffers are left to the garbage collector
	maxKeptFields = 1024     // likewise
)

var exchanges = sync.Pool{New: func() any {
	x := &exchange{in: make([]byte, 0, bufferSize), out: make([]byte, 0, bufferSize)}
	x.answer.in = make([]byte, 0, bufferSize)
	x.head.fields = make([]field, 0, 32)
	x.answer.fields = make([]field, 0, 32)
	x.reset()
	return x
}}

var wasteBuffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

func acquireExchange(c *conn) *exchange {
	x := exchanges.Get().(*exchange)
	x.c = c
	return x
}

func (x *exchange) release() {
	x.c, x.policy = nil, nil
	x.in, x.pos = trimmed(x.in), 0
	x.reset()
	exchanges.Put(x)
}

// reset makes x ready for the next request on its connection, keeping bytes of
// it that have arrived already.
func (x *exchange) reset() {
	rest := x.in[x.pos:]
	x.in, x.pos = append(trimmed(x.in), rest...), 0
	x.bodyBuf = trimmed(x.bodyBuf)
	x.out = trimmed(x.out)
	if cap(x.head.fields) > maxKeptFields {
		x.head.fields = nil
	}
	x.head.reset()
	x.violation = violation{}
	x.body = bodyReader{}
	x.answer.reset()
	x.watch.begin(nil, nil, time.Time{})
	x.request.Reset()
	x.decision = admission.Decision{}
	x.event = admission.Event{}
}

func trimmed(b []byte) []byte {
	if cap(b) > maxKeptBuffer {
		return nil
	}
	return b[:0]
}

// grow makes room in x.in for more bytes.
func (x *exchange) grow() {
	if cap(x.in)-len(x.in) < 512 {
		x.in = append(make([]byte, 0, max(2*cap(x.in), bufferSize)), x.in...)
	}
}

// readHead reads on in what has arrived. It reports whether the request can be
// served: its head is complete, or it is known that it will be refused.
func (x *exchange) readHead() bool {
	x.head.buf = x.in
	lim := x.c.server.headLimits()
	if v := x.head.read(lim); v.is() {
		x.refuseHead(v)
		return true
	}
	if x.head.size == 0 {
		return false
	}
	x.pos = x.head.size
	x.body.begin(x)
	x.began()
	return true
}

// refuseHead lets a request be served that is no valid one, so that its
// refusal is answered and counted like any other.
func (x *exchange) refuseHead(v violation) {
	x.violation = v
	x.pos = len(x.in)
	x.c.unread = true
	x.began()
}

func (x *exchange) began() {
	x.c.state.Store(connServing)
	x.request.Received = time.Now()
}

// since is how long ago the request's head was complete.
func (x *exchange) since() time.Duration { return time.Since(x.request.Received) }
