package proxy

import (
	"bytes"
	"errors"
	"fmt"
)

// answer is an origin's answer: its head, read as strictly as a request's, and
// its body where that is buffered. It lives in the exchange and not in the
// origin connection, so that idle connections hold no memory.
type answer struct {
	in     []byte // bytes from the origin: the head, then what came after it
	pos    int    // how much of in is used up
	next   int
	line   int
	size   int // length of the head; 0 until complete
	fields []field

	status            int
	reason, reasonEnd int // reason phrase
	minor             byte
	contentLength     int64 // -1: none
	left              int64 // of a body whose length is known
	chunked           bool
	close             bool
	switching         bool // the head names a protocol to switch to
	nominated         bool
	chunks            dechunker
	body              []byte // complete decoded body, where it was buffered
	bodyBuf           []byte
}

const (
	maxAnswerHead = 64 << 10
	maxInterim    = 100 // informational answers before the final one
)

func (a *answer) reset() {
	*a = answer{in: trimmed(a.in), fields: a.fields[:0], bodyBuf: trimmed(a.bodyBuf), contentLength: -1}
}

// another forgets an interim head, so that the one behind it can be read.
func (a *answer) another() {
	rest := copy(a.in, a.in[a.size:])
	in := a.in[:rest]
	a.reset()
	a.in = in
}

// room makes place for at least n more bytes.
func (a *answer) room(n int) {
	if cap(a.in)-len(a.in) < n {
		a.in = append(make([]byte, 0, max(2*cap(a.in), len(a.in)+n, bufferSize)), a.in...)
	}
}

var errAnswerHead = errors.New("the origin's answer is not valid HTTP/1.1")

func garbage(what string) error { return fmt.Errorf("%w: %s", errAnswerHead, what) }

// readHead reads on in what has arrived; a.size is set once the head is
// complete.
func (a *answer) readHead() error {
	for a.size == 0 {
		i := bytes.IndexByte(a.in[a.next:], '\n')
		if i < 0 {
			if len(a.in) > maxAnswerHead {
				return garbage("its head is too large")
			}
			if a.line == 0 && len(a.in) > 0 && a.in[0] != 'H' {
				return garbage("it does not begin with a status line")
			}
			return nil
		}
		end := a.next + i
		if i == 0 || a.in[end-1] != '\r' {
			return garbage("a line ends in LF without CR")
		}
		var err error
		switch {
		case a.line == 0:
			err = a.readStatusLine(a.in[:end-1])
		case i == 1:
			a.size = end + 1
			a.pos = a.size
			err = a.finishHead()
		case end > maxAnswerHead:
			err = garbage("its head is too large")
		default:
			err = a.readField(a.next, end-1)
		}
		if err != nil {
			return err
		}
		a.line++
		a.next = end + 1
	}
	return nil
}

func (a *answer) readStatusLine(b []byte) error {
	if len(b) < 12 || string(b[:7]) != "HTTP/1." || b[7] != '0' && b[7] != '1' || b[8] != ' ' {
		return garbage("its status line is malformed")
	}
	a.minor = b[7] - '0'
	for _, c := range b[9:12] {
		if !isDigit(c) {
			return garbage("its status is not a number")
		}
		a.status = a.status*10 + int(c-'0')
	}
	a.reason, a.reasonEnd = 12, len(b)
	if a.status < 100 || len(b) > 12 && b[12] != ' ' || !validValue(b[12:]) {
		return garbage("its status line is malformed")
	}
	return nil
}

func (a *answer) readField(from, to int) error {
	f, fault := scanField(a.in, from, to)
	if fault != "" {
		return garbage(fault)
	}
	value := a.in[f.value:f.valueEnd]
	switch f.kind {
	case kindContentLength:
		n, ok := parseLength(value)
		if !ok || a.contentLength >= 0 {
			return garbage("its Content-Length is malformed or repeated")
		}
		a.contentLength, a.left = n, n
	case kindTransferEncoding:
		if a.chunked || !equalFold(value, "chunked") {
			return garbage("its transfer coding is not chunked")
		}
		a.chunked = true
	case kindUpgrade:
		a.switching = true
	case kindConnection:
		for len(value) > 0 {
			var token []byte
			token, value = nextListItem(value)
			switch {
			case len(token) == 0, equalFold(token, "keep-alive"), equalFold(token, "upgrade"):
			case equalFold(token, "close"):
				a.close = true
			default:
				a.nominated = true
			}
		}
	}
	a.fields = append(a.fields, f)
	return nil
}

func (a *answer) finishHead() error {
	if a.chunked && a.contentLength >= 0 {
		return garbage("Content-Length and Transfer-Encoding are both given")
	}
	if a.chunked && a.minor == 0 {
		return garbage("Transfer-Encoding is not part of HTTP/1.0")
	}
	a.close = a.close || a.minor == 0
	if a.nominated {
		dropNominated(a.in, a.fields, func(k kind) bool {
			return k == kindPlain || k > kindTrailer
		})
	}
	return nil
}

// hasBody reports whether a body follows the head (RFC 9112 section 6.3).
func (a *answer) hasBody(method string) bool {
	return method != "HEAD" && a.status != 204 && a.status != 304 && a.contentLength != 0
}

// header yields the fields as the origin sent them.
func (a *answer) header(yield func(name, value []byte) bool) {
	for i := range a.fields {
		f := &a.fields[i]
		if !yield(a.in[f.line:f.nameEnd], a.in[f.value:f.valueEnd]) {
			return
		}
	}
}
