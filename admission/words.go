package admission

// Verdict is what was decided for a request.
type Verdict uint8

const (
	// Refuse is the zero value: a request that nothing decided is not let in.
	Refuse Verdict = iota
	Admit          // forward it to the origin
	Replay         // answer it from the record of its first execution
)

var verdictNames = [...]string{Refuse: "refuse", Admit: "admit", Replay: "replay"}

func (v Verdict) String() string { return verdictNames[v] }

// Outcome is what happened at the origin. It is what an idempotency record and
// a retry depend on, so it says what was proved, not what went wrong.
type Outcome uint8

const (
	// NotTried is the zero value: the request never got as far as the origin.
	NotTried Outcome = iota
	// NotSent: not one byte was written to the origin, so nothing can have
	// happened there. Safe to retry; an idempotency key may be freed.
	NotSent
	// Unknown: at least one byte was written and no complete answer came back.
	// The origin may have acted. Never retried.
	Unknown
	// Answered: a complete answer was read, whatever its status.
	Answered
)

var outcomeNames = [...]string{NotTried: "not_tried", NotSent: "not_sent", Unknown: "unknown", Answered: "answered"}

func (o Outcome) String() string { return outcomeNames[o] }

// Mode says whether a policy's refusal is enforced.
type Mode uint8

const (
	// Enforce is the zero value.
	Enforce Mode = iota
	// Shadow decides and counts, and lets the request pass.
	Shadow
)

func (m Mode) String() string {
	if m == Shadow {
		return "shadow"
	}
	return "enforce"
}

// Class says how much a request matters: an index into the policy's list of
// classes, 0 being the most important. NoClass marks a request that met no
// route and so has none.
type Class int8

// NoClass is the class of requests that no route matched.
const NoClass Class = -1
