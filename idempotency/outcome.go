package idempotency

import "sluice/admission"

// Ending is what happens to a record because of what happened at the origin.
type Ending uint8

const (
	// Free the record: the request certainly had no effect, or the policy
	// leaves repetitions to the origin.
	Free Ending = iota
	// Keep the answer and give it to every repetition.
	Keep
	// Doubt: the request may have taken effect; never send it again.
	Doubt
)

var endingNames = [...]string{Free: "free", Keep: "keep", Doubt: "doubt"}

func (e Ending) String() string { return endingNames[e] }

// Judge is the table of outcomes: what happens to the record of a request
// whose outcome is o and, where the origin answered, whose answer has this
// status and does or does not carry Retry-After.
//
//	outcome                                       Hold    Release
//	not tried, not sent                           free    free
//	unknown                                       doubt   free
//	2xx, 3xx                                      keep    keep
//	401 403 407 408 421 423 425 429, and any
//	  other 4xx with Retry-After                  free    free
//	other 4xx                                     keep    keep
//	503                                           free    free    (doubt with DoubtUnavailable)
//	any other status                              doubt   free
//
// A Retry-After frees a 4xx only. On a 3xx it says when to follow, after an
// effect; on a 5xx other than 503 it is often set by something in between that
// cannot know whether there was one.
func Judge(o admission.Outcome, status int, retryAfter bool, p *Policy) Ending {
	doubt := Doubt
	if p.OnUnknown == Release {
		doubt = Free
	}
	switch o {
	case admission.NotTried, admission.NotSent:
		return Free
	case admission.Unknown:
		return doubt
	}
	switch {
	case status >= 200 && status < 400:
		return Keep
	case status >= 400 && status < 500:
		if retryAfter || passing(status) {
			return Free
		}
		return Keep
	case status == 503 && !p.DoubtUnavailable:
		return Free
	}
	return doubt
}

// passing reports whether a 4xx says something about this moment or this
// caller rather than about the request.
func passing(status int) bool {
	switch status {
	case 401, 403, 407, 408, 421, 423, 425, 429:
		return true
	}
	return false
}
