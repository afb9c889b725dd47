package proxy

import (
	"bytes"

	"sluice/admission"
)

// field is one header field, as offsets into the head's bytes. The whole line,
// with its CRLF, is [line, next), so that fields that need no change can be
// passed on byte for byte, in runs.
type field struct {
	line, nameEnd, value, valueEnd, next uint32
	kind                                 kind
}

// head is the head of one request: the request line and the header fields,
// read strictly. Offsets point into buf, which holds exactly the head's bytes
// once it is complete.
//
// It is filled line by line as bytes arrive, so every byte is looked at once.
type head struct {
	buf    []byte // bytes of the message so far; may hold more than the head
	next   int    // start of the line to be read next
	start  int    // start of the request line (after an ignored empty line)
	line   int    // lines read so far
	block  int    // start of the header fields
	size   int    // length of the head including its final empty line; 0 until complete
	fields []field

	method, target, targetEnd int // method is [start, method), target [target, targetEnd)
	minor                     byte
	hostField                 int // index into fields; -1: none

	contentLength  int64 // -1: no Content-Length
	chunked        bool
	close          bool // the client asks to close the connection
	keepAlive      bool // an HTTP/1.0 client asks to keep it
	expectContinue bool
	upgrade        bool // a request to switch to WebSocket
	nominated      int  // how many further fields Connection names as hop-by-hop

	hosts, upgrades, keys, auths uint8
	connectionUpgrade, webSocket bool

	peeked [][]byte // what PeekAll returned
}

// violation says why a head is refused. The zero value is no violation.
type violation struct {
	reason admission.Reason
	detail string // for the client: what was wrong, without echoing its bytes
}

func (v violation) is() bool { return v.reason != admission.None }

// headLimits bound what is read before a head is refused.
type headLimits struct {
	target  int // longest request target
	headers int // longest header block
}

func (h *head) reset() {
	clear(h.peeked) // which would keep a buffer alive
	*h = head{fields: h.fields[:0], peeked: h.peeked[:0], contentLength: -1, hostField: -1}
}

func bad(detail string) violation { return violation{admission.BadRequest, detail} }

// read parses the lines that have arrived in h.buf since the last call. When
// the head is complete h.size is set; while it is not and there is no
// violation, more bytes are needed.
//
// The grammar is RFC 9112 without its leniences: they are where two readers
// come to different requests.
func (h *head) read(lim headLimits) violation {
	for h.size == 0 {
		i := bytes.IndexByte(h.buf[h.next:], '\n')
		if i < 0 {
			return h.unfinished(lim)
		}
		end := h.next + i // of the line, at its LF
		if i == 0 || h.buf[end-1] != '\r' {
			return bad("a line ends in LF without CR")
		}
		var v violation
		switch {
		case h.line == 0 && i == 1 && h.next == 0:
			// RFC 9112 section 2.2: one empty line before the request line is ignored.
			h.start = 2
			h.next = 2
			continue
		case h.line == 0:
			v = h.readRequestLine(h.next, end-1, lim)
		case i == 1:
			h.size = end + 1
			v = h.finish()
		default:
			if end+1-h.block > lim.headers {
				return violation{admission.HeadersTooLarge, "the header fields are too large"}
			}
			v = h.readField(h.next, end-1)
		}
		if v.is() {
			return v
		}
		if h.line == 0 {
			h.block = end + 1
		}
		h.line++
		h.next = end + 1
	}
	return violation{}
}

// unfinished judges a line whose end has not arrived yet: it may already be
// too long, or be no HTTP at all.
func (h *head) unfinished(lim headLimits) violation {
	got := len(h.buf) - h.next
	if h.line > 0 {
		if len(h.buf)-h.block > lim.headers+2 {
			return violation{admission.HeadersTooLarge, "the header fields are too large"}
		}
		return violation{}
	}
	if got > lim.target+maxMethod+16 {
		return violation{admission.URITooLong, "the request target is too long"}
	}
	// TLS spoken to a plain port, a binary protocol: refuse at the first byte.
	if got > 0 && h.buf[h.next] != '\r' && !isTchar(h.buf[h.next]) {
		return bad("this is not HTTP/1.1")
	}
	return violation{}
}

// maxMethod is the longest method accepted; the longest registered one has 17.
const maxMethod = 24

func (h *head) readRequestLine(from, to int, lim headLimits) violation {
	b := h.buf[from:to]
	sp := bytes.IndexByte(b, ' ')
	if sp <= 0 {
		return bad("the request line is malformed")
	}
	lower := false
	for _, c := range b[:sp] {
		if !isTchar(c) {
			return bad("the method is not a token")
		}
		lower = lower || 'a' <= c && c <= 'z'
	}
	rest := b[sp+1:]
	sp2 := bytes.IndexByte(rest, ' ')
	if sp2 < 0 {
		return bad("the request line is malformed")
	}
	target, version := rest[:sp2], rest[sp2+1:]
	if v := h.readVersion(version); v.is() {
		return v
	}
	h.method = from + sp
	h.target = h.method + 1
	h.targetEnd = h.target + sp2
	if sp2 > lim.target {
		return violation{admission.URITooLong, "the request target is too long"}
	}
	method := b[:sp]
	switch {
	case sp > maxMethod, lower:
		return violation{admission.MethodNotAllowed, "the method is not known"}
	case string(method) == "CONNECT", string(method) == "TRACE":
		return violation{admission.MethodNotAllowed, "the method is not served here"}
	case sp2 == 1 && target[0] == '*':
		return violation{admission.MethodNotAllowed, "OPTIONS * is not served here"}
	case sp2 == 0 || target[0] != '/':
		return bad("the request target must be a path that begins with a slash")
	}
	for _, c := range target {
		if c <= ' ' || c == 0x7f || c == '#' {
			return bad("the request target holds a character that must be percent-encoded")
		}
	}
	return violation{}
}

func (h *head) readVersion(v []byte) violation {
	if len(v) == 8 && string(v[:7]) == "HTTP/1." && (v[7] == '1' || v[7] == '0') {
		h.minor = v[7] - '0'
		return violation{}
	}
	if len(v) < 6 || string(v[:5]) != "HTTP/" {
		return bad("the request line is malformed")
	}
	for _, c := range v[5:] {
		if !isDigit(c) && c != '.' {
			return bad("the request line is malformed")
		}
	}
	return violation{admission.VersionUnsupported, "only HTTP/1.1 and HTTP/1.0 are served"}
}

func (h *head) readField(from, to int) violation {
	f, fault := scanField(h.buf, from, to)
	if fault != "" {
		return bad(fault)
	}
	h.fields = append(h.fields, f)
	if f.kind == kindPlain {
		return violation{}
	}
	return h.note(f.kind, h.valueOf(&f))
}

// scanField reads one header line, buf[from:to] without its CRLF. fault says
// what is wrong with it.
func scanField(buf []byte, from, to int) (f field, fault string) {
	b := buf[from:to]
	if b[0] == ' ' || b[0] == '\t' {
		return f, "a header line is folded"
	}
	colon := 0
	for colon < len(b) && isTchar(b[colon]) {
		colon++
	}
	switch {
	case colon == len(b):
		return f, "a header line has no colon"
	case b[colon] != ':':
		return f, "a header name holds a character that is not allowed"
	case colon == 0:
		return f, "a header name is empty"
	}
	value, valueEnd := colon+1, len(b)
	for value < valueEnd && isBlank(b[value]) {
		value++
	}
	for valueEnd > value && isBlank(b[valueEnd-1]) {
		valueEnd--
	}
	if !validValue(b[value:valueEnd]) {
		return f, "a header value holds a control character"
	}
	return field{
		line:     uint32(from),
		nameEnd:  uint32(from + colon),
		value:    uint32(from + value),
		valueEnd: uint32(from + valueEnd),
		next:     uint32(to + 2),
		kind:     kindOf(b[:colon]),
	}, ""
}

// note keeps what the gateway itself has to know of a field.
func (h *head) note(k kind, value []byte) violation {
	switch k {
	case kindHost:
		h.hosts++
		if h.hosts > 1 {
			return bad("Host is given more than once")
		}
		if !validHost(value) {
			return bad("Host is malformed")
		}
		h.hostField = len(h.fields) - 1
	case kindContentLength:
		if h.contentLength >= 0 {
			return bad("Content-Length is given more than once")
		}
		n, ok := parseLength(value)
		if !ok {
			return bad("Content-Length is not a number")
		}
		h.contentLength = n
	case kindTransferEncoding:
		if h.chunked {
			return bad("Transfer-Encoding is given more than once")
		}
		if len(value) == 0 {
			return bad("Transfer-Encoding is empty")
		}
		if !equalFold(value, "chunked") {
			return violation{admission.EncodingUnsupported, "the only transfer coding served is chunked"}
		}
		h.chunked = true
	case kindTrailer:
		return bad("trailers are not accepted")
	case kindExpect:
		if !equalFold(value, "100-continue") {
			return violation{admission.ExpectationFailed, "the only expectation served is 100-continue"}
		}
		h.expectContinue = true
	case kindUpgrade:
		h.upgrades++
		h.webSocket = equalFold(value, "websocket")
	case kindIdempotencyKey:
		h.keys++
		if h.keys > 1 {
			return bad("Idempotency-Key is given more than once")
		}
	case kindAuthorization:
		h.auths++
		if h.auths > 1 {
			return bad("Authorization is given more than once")
		}
	case kindConnection:
		return h.noteConnection(value)
	}
	return violation{}
}

// finish judges the head as a whole.
func (h *head) finish() violation {
	switch {
	case h.minor == 1 && h.hosts == 0:
		return bad("Host is missing")
	case h.chunked && h.contentLength >= 0:
		return bad("Content-Length and Transfer-Encoding are both given")
	case h.chunked && h.minor == 0:
		return bad("Transfer-Encoding is not part of HTTP/1.0")
	}
	if h.minor == 0 {
		// RFC 9110 section 10.1.1: an expectation from HTTP/1.0 is ignored.
		h.expectContinue = false
		h.close = h.close || !h.keepAlive
	}
	if h.contentLength <= 0 && !h.chunked {
		h.expectContinue = false
	}
	// No other protocol is passed on: a connection switched to HTTP/2, say,
	// would carry requests past every gate.
	h.upgrade = h.connectionUpgrade && h.upgrades == 1 && h.webSocket && h.minor == 1 &&
		h.contentLength <= 0 && !h.chunked && string(h.buf[h.start:h.method]) == "GET"
	if h.nominated > 0 {
		dropNominated(h.buf, h.fields, func(k kind) bool { return k == kindPlain })
	}
	return violation{}
}

// hostValue returns the Host field's value, nil where there is none.
func (h *head) hostValue() []byte {
	if h.hostField < 0 {
		return nil
	}
	return h.valueOf(&h.fields[h.hostField])
}

func (h *head) nameOf(f *field) []byte  { return h.buf[f.line:f.nameEnd] }
func (h *head) valueOf(f *field) []byte { return h.buf[f.value:f.valueEnd] }

// Get implements admission.Header. Fields that end at this hop are not there: a
// request is judged by what the origin is told too.
func (h *head) Get(name string) (value string, count int) {
	for i := range h.fields {
		f := &h.fields[i]
		if f.kind != kindHop && int(f.nameEnd-f.line) == len(name) && equalFold(h.nameOf(f), name) {
			if count == 0 {
				value = str(h.valueOf(f))
			}
			count++
		}
	}
	return value, count
}

// parseLength reads a Content-Length: digits only, no sign, no list.
func parseLength(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	var n int64
	for _, c := range b {
		if !isDigit(c) {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}
