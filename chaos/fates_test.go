//go:build unix

package chaos

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// fate is what becomes of one request at the origin.
type fate struct {
	name   string
	weight int
	means  meaning
	status int
	retry  bool          // with Retry-After
	size   int           // of the answer's body, about; 0: none
	delay  time.Duration // at most, before anything else
	breaks string        // how it fails to answer; "" it answers
}

// meaning is what an answer says of the request's effect.
type meaning uint8

const (
	done     meaning = iota // an answer to keep
	notDone                 // certainly no effect: the key is free again
	failed                  // perhaps an effect: in doubt, with an answer to show
	silenced                // perhaps an effect, and no answer
)

var fates = []fate{
	{name: "created", weight: 40, means: done, status: 201, size: 200},
	{name: "created slowly", weight: 12, means: done, status: 201, size: 300, delay: 150 * time.Millisecond},
	{name: "created, sizeable", weight: 5, means: done, status: 200, size: 3000},
	{name: "created, too large to keep", weight: 3, means: done, status: 201, size: 3 * maxReplay},
	{name: "empty", weight: 3, means: done, status: 204},
	{name: "see other", weight: 2, means: done, status: 303, size: 20},
	{name: "accepted, with Retry-After", weight: 1, means: done, status: 202, size: 50, retry: true},
	{name: "conflict", weight: 2, means: done, status: 409, size: 60},
	{name: "unprocessable", weight: 2, means: done, status: 422, size: 60},
	{name: "gone", weight: 1, means: done, status: 410, size: 60},

	{name: "unavailable", weight: 3, means: notDone, status: 503, size: 60},
	{name: "unavailable slowly", weight: 2, means: notDone, status: 503, size: 60, retry: true, delay: 100 * time.Millisecond},
	{name: "too many", weight: 2, means: notDone, status: 429, size: 60, retry: true},
	{name: "too early", weight: 1, means: notDone, status: 425, size: 60},
	{name: "not authorized", weight: 1, means: notDone, status: 401, size: 60},
	{name: "conflict, for now", weight: 1, means: notDone, status: 409, size: 60, retry: true},

	{name: "internal error", weight: 3, means: failed, status: 500, size: 80},
	{name: "internal error, with Retry-After", weight: 1, means: failed, status: 500, size: 80, retry: true},
	{name: "bad gateway", weight: 1, means: failed, status: 502, size: 80, delay: 30 * time.Millisecond},

	{name: "closes", weight: 2, means: silenced, breaks: "close", delay: 30 * time.Millisecond},
	{name: "resets", weight: 2, means: silenced, breaks: "reset", delay: 30 * time.Millisecond},
	{name: "closes in the head", weight: 1, means: silenced, breaks: "head"},
	{name: "closes in the body", weight: 1, means: silenced, breaks: "body"},
	{name: "speaks nonsense", weight: 1, means: silenced, breaks: "nonsense"},
	// Unless the gateway was stopped meanwhile, and finds the answer when it looks.
	{name: "answers too late", weight: 1, means: done, status: 201, size: 100, breaks: "late"},
}

// calm is the fate of all requests once the world has healed.
var calm = &fates[0]

var fateWeights = func() (sum int) {
	for _, f := range fates {
		sum += f.weight
	}
	return sum
}()

func drawFate(r *rand.Rand) *fate {
	n := r.IntN(fateWeights)
	for i := range fates {
		if n -= fates[i].weight; n < 0 {
			return &fates[i]
		}
	}
	return calm
}

// entry is one line of the origin's ledger: a request that has arrived there.
// What it answers follows from the entry, so that nothing has to be kept to
// compare it with.
type entry struct {
	id, op    int
	record    record
	body      string
	requestID string
	attempt   int
	gateway   int
	fate      *fate
	arrived   int64 // in nanoseconds since the start of the history
	decided   int64 // when it began to answer, or not to; 0: not yet
}

func (e *entry) String() string {
	return fmt.Sprintf("%9.1f to %9.1fms entry %d, attempt %d, of op %d body %s to %v, by gateway %d: %s",
		float64(e.arrived)/1e6, float64(e.decided)/1e6, e.id, e.attempt, e.op, e.body, e.record, e.gateway, e.fate.name)
}

// executed reports whether e took effect, or may have.
func (e *entry) executed() bool { return e.fate.means != notDone }

// etag names e in its answer; it is replayed.
func (e *entry) etag() string { return `"entry-` + strconv.Itoa(e.id) + `"` }

func entryOf(etag string) int {
	text, _ := strings.CutPrefix(strings.Trim(etag, `"`), "entry-")
	id, _ := strconv.Atoi(text)
	return id
}

func (e *entry) location() string {
	return fmt.Sprintf("/%s/%s/%d", e.record.route, e.record.tenant, e.id)
}

// answer is the body of e's answer, where its fate is f.
func (e *entry) answer(f *fate) string {
	if f.size == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, `{"entry":%d,"tenant":%q,"key":%q,"body":%q,"pad":"`, e.id, e.record.tenant, e.record.key, e.body)
	r := rand.New(rand.NewPCG(uint64(e.id), 1))
	for b.Len() < f.size {
		fmt.Fprintf(&b, "%x ", r.Uint32())
	}
	return b.String() + `"}`
}
