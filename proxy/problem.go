package proxy

import (
	"net/http"
	"strconv"
	"time"

	"sluice/admission"
)

// appendProblem appends the whole answer to a refused or failed request: a
// problem document (RFC 9457) with the header fields of the wire contract.
func (x *exchange) appendProblem(b []byte) []byte {
	d := &x.decision
	reason, status := x.event.Failure, 0
	if reason == admission.None {
		reason, status = d.Reason, d.Status
	}
	if status == 0 {
		status = reason.Status()
	}
	x.event.Status = status
	detail := d.Detail()
	switch {
	case x.event.Failure != admission.None && reason == x.violation.reason:
		detail = x.violation.detail
	case x.event.Failure != admission.None:
		detail = ""
	}
	if detail == "" {
		detail = reason.Detail()
	}

	b = appendStatusLine(b, status)
	b = append(b, "Content-Type: application/problem+json\r\nCache-Control: no-store\r\n"...)
	b = appendField(b, "X-Request-Id: ", x.request.ID)
	switch {
	case status == http.StatusMethodNotAllowed:
		b = append(b, "Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n"...)
	case d.Challenge() != "":
		b = appendField(b, "WWW-Authenticate: ", d.Challenge())
	}
	if reason.Retryable() {
		b = append(b, "Retry-After: "...)
		b = strconv.AppendInt(b, wholeSeconds(d.RetryAfter), 10)
		b = append(b, '\r', '\n')
	}
	if d.Promise.Made() && d.Promise.Signer != nil && reason == d.Reason {
		b = append(b, "Sluice-Ticket: "...)
		b = d.Promise.Signer.AppendTicket(b, &x.request, &d.Promise)
		b = append(b, '\r', '\n')
	}
	b = x.appendKeyStatus(b)
	b = x.appendRateLimit(b)
	b = x.appendConnection(b)
	b = append(b, "Content-Length: "...)
	body := x.appendProblemBody(x.xff[:0], reason, status, detail)
	b = strconv.AppendInt(b, int64(len(body)), 10)
	b = append(b, "\r\n\r\n"...)
	if x.request.Method != http.MethodHead {
		b = append(b, body...)
	}
	x.xff = body
	return b
}

func (x *exchange) appendProblemBody(b []byte, reason admission.Reason, status int, detail string) []byte {
	b = append(b, `{"type":"`...)
	b = append(b, reason.Type()...)
	b = append(b, `","title":"`...)
	b = append(b, reason.Title()...)
	b = append(b, `","status":`...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, `,"detail":"`...)
	b = appendEscaped(b, detail)
	b = append(b, `","reason":"`...)
	b = append(b, reason.String()...)
	b = append(b, `","request_id":"`...)
	b = appendEscaped(b, x.request.ID)
	if d := &x.decision; reason == admission.Deferred && d.Promise.Made() {
		b = append(b, `","expected_at":"`...)
		b = d.Promise.NotBefore.UTC().AppendFormat(b, time.RFC3339)
	}
	return append(b, "\"}\n"...)
}

// appendEscaped appends ASCII text as the inside of a JSON string.
func appendEscaped(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' {
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		} else {
			b = append(b, c)
		}
	}
	return b
}

// wholeSeconds rounds up, to at least one: a client that waits that long waits
// long enough.
func wholeSeconds(d time.Duration) int64 {
	return max(1, int64((d+time.Second-1)/time.Second))
}

// statusLines are the lines of the statuses that the gateway answers with.
var statusLines = func() (lines [600]string) {
	for code := range lines {
		if text := http.StatusText(code); text != "" {
			lines[code] = "HTTP/1.1 " + strconv.Itoa(code) + " " + text + "\r\n"
		}
	}
	return lines
}()

func appendStatusLine(b []byte, status int) []byte {
	if status < len(statusLines) && statusLines[status] != "" {
		return append(b, statusLines[status]...)
	}
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(status), 10)
	return append(b, " \r\n"...)
}

// appendConnection says what becomes of the client's connection.
func (x *exchange) appendConnection(b []byte) []byte {
	if x.keep && x.c.server.draining.Load() { // since the request began
		x.keep = false
	}
	switch {
	case !x.keep:
		return append(b, "Connection: close\r\n"...)
	case x.head.minor == 0:
		return append(b, "Connection: keep-alive\r\n"...)
	}
	return b
}

// appendKeyStatus says what became of the request's idempotency key.
func (x *exchange) appendKeyStatus(b []byte) []byte {
	if s := x.decision.KeyStatus; s != "" {
		return appendField(b, "Idempotency-Status: ", s)
	}
	return b
}

// appendRateLimit appends the fields of draft-ietf-httpapi-ratelimit-headers-11.
// They are written in this one place, since the draft still moves.
func (x *exchange) appendRateLimit(b []byte) []byte {
	l := &x.decision.Limit
	if l.Name == "" || !x.policy.RateLimit {
		return b
	}
	b = append(b, `RateLimit-Policy: "`...)
	b = append(b, l.Name...)
	b = append(b, `";q=`...)
	b = strconv.AppendInt(b, l.Quota, 10)
	b = append(b, ";w="...)
	b = strconv.AppendInt(b, max(1, int64(l.Window.Round(time.Second)/time.Second)), 10)
	b = append(b, "\r\nRateLimit: \""...)
	b = append(b, l.Name...)
	b = append(b, `";r=`...)
	b = strconv.AppendInt(b, max(0, l.Remaining), 10)
	b = append(b, ";t="...)
	b = strconv.AppendInt(b, int64((max(0, l.Reset)+time.Second-1)/time.Second), 10)
	return append(b, '\r', '\n')
}
