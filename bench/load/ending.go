package load

import (
	"bytes"
	"errors"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"sluice/bench/wire"
)

// Ending is how a request ended for its client.
type Ending uint8

const (
	// Admitted requests got a good answer for the first time.
	Admitted Ending = iota
	// Replayed requests got the recorded answer of an earlier one.
	Replayed
	// Refused requests were told that they are not let in.
	Refused
	// Conflicted requests were told that their key stands in the way.
	Conflicted
	// Failed requests got an error that is no refusal, from the origin or about
	// it.
	Failed
	// TimedOut requests got no answer in time. They count as at least as long as
	// the timeout.
	TimedOut
	// Broken requests lost their connection, or never got one.
	Broken
	// Unsent requests were due while as many as allowed were under way.
	Unsent

	Endings = iota // how many there are
)

var endings = [Endings]string{"admitted", "replayed", "refused", "conflicted", "failed", "timed_out", "broken", "unsent"}

func (e Ending) String() string { return endings[e] }

// answer is what the client learned from one response.
type answer struct {
	ending Ending
	reason string
	after  time.Duration // Retry-After; 0 where there was none
	ticket string
}

// conflicts are the reasons that concern the key and not capacity.
var conflicts = map[string]bool{"key_reused": true, "key_in_progress": true, "key_in_doubt": true}

// failures are the reasons by which a gateway tells that it did let the request
// in, and that the origin then failed.
var failures = map[string]bool{"origin_unreachable": true, "origin_failed": true, "origin_timeout": true, "internal": true}

// read sorts a response. Refusals are known by their reason, and where the
// target gives none by a 429 or 503 that did not come from the origin.
func read(resp *fasthttp.Response) answer {
	h := &resp.Header
	status := resp.StatusCode()
	if status < 400 {
		if string(h.Peek("Idempotent-Replayed")) == "true" {
			return answer{ending: Replayed}
		}
		return answer{ending: Admitted}
	}
	a := answer{ticket: string(h.Peek("Sluice-Ticket"))}
	if s, err := strconv.Atoi(string(h.Peek("Retry-After"))); err == nil && s > 0 {
		a.after = time.Duration(s) * time.Second
	}
	if len(h.Peek(wire.Origin)) > 0 {
		a.ending, a.reason = Failed, "origin_"+strconv.Itoa(status)
		return a
	}
	a.reason = reasonOf(resp.Body())
	switch {
	case conflicts[a.reason]:
		a.ending = Conflicted
	case failures[a.reason]:
		a.ending = Failed
	case a.reason != "":
		a.ending = Refused
	case status == 429 || status == 503:
		a.ending, a.reason = Refused, "http_"+strconv.Itoa(status)
	default:
		a.ending, a.reason = Failed, "http_"+strconv.Itoa(status)
	}
	return a
}

// reasonOf finds the member "reason" of a problem body without parsing the rest
// of it; "" where there is none.
func reasonOf(body []byte) string {
	_, rest, ok := bytes.Cut(body, []byte(`"reason"`))
	if !ok {
		return ""
	}
	rest = bytes.TrimLeft(rest, " \t\r\n:")
	if len(rest) == 0 || rest[0] != '"' {
		return ""
	}
	word, _, ok := bytes.Cut(rest[1:], []byte(`"`))
	if !ok || len(word) > 64 {
		return ""
	}
	return string(word)
}

// failed sorts a request that got no response.
func failed(err error) answer {
	var timeout interface{ Timeout() bool }
	if errors.Is(err, fasthttp.ErrTimeout) || errors.As(err, &timeout) && timeout.Timeout() {
		return answer{ending: TimedOut, reason: "timeout"}
	}
	if errors.Is(err, fasthttp.ErrConnectionClosed) {
		return answer{ending: Broken, reason: "closed"}
	}
	return answer{ending: Broken, reason: "connection"}
}
