package proxy

import (
	"errors"
	"io"
	"os"

	"sluice/admission"
)

// bodyReader reads a request's body from its connection, with the framing
// taken off. The zero value is at the end of a body.
type bodyReader struct {
	x        *exchange
	left     int64 // of a body with Content-Length
	chunks   dechunker
	chunked  bool
	expected bool  // the client waits for "100 Continue" before it sends the body
	got      int64 // bytes of body read so far
	err      error // sticky; io.EOF at the end
}

func (b *bodyReader) begin(x *exchange) {
	*b = bodyReader{
		x:        x,
		left:     x.head.contentLength,
		chunked:  x.head.chunked,
		expected: x.head.expectContinue,
	}
	if !b.chunked && b.left <= 0 {
		b.err = io.EOF
		return
	}
	x.c.unread = true
}

// ended reports whether the whole body has been read.
func (b *bodyReader) ended() bool { return b.x == nil || b.err == io.EOF }

// arrived reports whether the whole body can be read without waiting.
func (b *bodyReader) arrived() bool {
	return b.ended() || !b.chunked && !b.expected && b.left <= int64(len(b.x.in)-b.x.pos)
}

var continueLine = []byte("HTTP/1.1 100 Continue\r\n\r\n")

// Read implements io.Reader. Errors other than io.EOF are final: errChunk and
// errTrailers for a malformed body, the connection's own otherwise.
func (b *bodyReader) Read(p []byte) (n int, err error) {
	if b.err != nil {
		return 0, b.err
	}
	if err := b.invite(); err != nil {
		return 0, err
	}
	if b.chunked {
		n, err = b.readChunked(p)
	} else {
		n, err = b.readCounted(p)
	}
	b.got += int64(n)
	if err == nil {
		return n, nil
	}
	b.err = err
	if err == io.EOF {
		b.x.c.unread = false
	}
	return n, err
}

// invite tells a client that waits for it to send the body.
func (b *bodyReader) invite() error {
	if b.expected {
		b.expected = false
		b.err = b.x.c.send(continueLine)
	}
	return b.err
}

func (b *bodyReader) readCounted(p []byte) (n int, err error) {
	x := b.x
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	if x.pos < len(x.in) {
		n = copy(p, x.in[x.pos:])
		x.pos += n
	} else if n, err = x.c.read(p); err != nil {
		return n, truncated(err)
	}
	if b.left -= int64(n); b.left == 0 {
		return n, io.EOF
	}
	return n, nil
}

func (b *bodyReader) readChunked(p []byte) (int, error) {
	x := b.x
	for {
		if x.pos < len(x.in) {
			data, used, err := b.chunks.next(x.in[x.pos:], len(p))
			x.pos += used
			if len(data) > 0 || err != nil {
				return copy(p, data), err
			}
			continue
		}
		// The head's bytes stay where they are: the facts point into them.
		x.in, x.pos = x.in[:x.head.size], x.head.size
		if err := x.c.more(); err != nil {
			return 0, truncated(err)
		}
	}
}

// truncated turns the end of the connection into the end of an unfinished body.
func truncated(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// bodyViolation says what reading a body failed of, for the client.
func bodyViolation(err error) violation {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return violation{admission.RequestTimeout, "the request body did not arrive in time"}
	case errors.Is(err, errTrailers), errors.Is(err, errChunk):
		return bad(err.Error())
	}
	return bad("the request body ended early")
}
