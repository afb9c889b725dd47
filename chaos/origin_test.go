//go:build unix

package chaos

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// record names what the gateways keep for one key.
type record struct{ route, tenant, key string }

func (r record) String() string { return r.route + "/" + r.tenant + "/" + r.key }

// origin is the API behind the gateways, with its ledger.
type origin struct {
	*httptest.Server
	w    *world
	calm atomic.Bool

	mu       sync.Mutex
	random   *rand.Rand
	entries  []*entry // by id, from 1
	byRecord map[record][]*entry
	byOp     map[int]*entry
	running  map[*entry]bool
}

func startOrigin(w *world) *origin {
	o := &origin{
		w: w, random: rand.New(rand.NewPCG(w.seed, 7)), entries: make([]*entry, 1),
		byRecord: map[record][]*entry{}, byOp: map[int]*entry{}, running: map[*entry]bool{},
	}
	o.Server = httptest.NewServer(o)
	w.t.Cleanup(o.Close)
	return o
}

// ServeHTTP enters a request into the ledger, and lets its fate take its course.
func (o *origin) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the gateway died while sending: not received, not executed
	}
	e := &entry{
		record: record{r.URL.Path[1:], r.Header.Get("X-Tenant-Id"), unquoted(r.Header.Get("Idempotency-Key"))},
		body:   string(body), requestID: r.Header.Get("X-Request-Id"),
	}
	e.op, _ = strconv.Atoi(r.Header.Get("Chaos-Op"))
	e.gateway, _ = strconv.Atoi(r.Header.Get("Chaos-Gateway"))
	e.attempt, _ = strconv.Atoi(r.Header.Get("Sluice-Attempt"))
	if given := r.Header.Get("Chaos-Key"); given != r.Header.Get("Idempotency-Key") {
		o.w.violate("the key arrived as %s, the client sent %s", r.Header.Get("Idempotency-Key"), given)
	}
	if e.record.tenant != r.Header.Get("Sluice-Tenant") || e.attempt < 1 || e.requestID == "" {
		o.w.violate("op %d arrived with the fields %v", e.op, r.Header)
	}
	delay, named := o.enter(e)
	time.Sleep(delay)
	if e.fate.breaks == "late" {
		time.Sleep(routeTimeout + 100*time.Millisecond)
	}
	o.decide(e)
	if b := e.fate.breaks; b != "" && b != "late" {
		o.breakOff(rw, e)
		return
	}
	o.answer(rw, e, named)
}

// enter writes e into the ledger and judges whether it may be there. named is
// the entry to answer with: e itself, or the first execution of its record where
// the origin deduplicates.
func (o *origin) enter(e *entry) (delay time.Duration, named *entry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	e.arrived = o.w.now()
	e.id = len(o.entries)
	e.fate = drawFate(o.random)
	if o.calm.Load() {
		e.fate = calm
	}
	if e.fate.delay > 0 {
		delay = time.Duration(o.random.Int64N(int64(e.fate.delay)))
	}
	if twin := o.byOp[e.op]; twin != nil {
		o.w.violate("op %d arrived twice, as entries %d and %d, %.1fms apart", e.op, twin.id, e.id, float64(e.arrived-twin.arrived)/1e6)
	}
	named = e
	for _, before := range o.byRecord[e.record] {
		if before.executed() || before.decided == 0 {
			o.w.twice(before, e)
		}
		if o.w.opts.release && named == e && before.executed() && e.fate.means == done {
			named = before
		}
	}
	if o.w.opts.release && e.fate.means == done {
		e.fate = calm
	}
	o.entries = append(o.entries, e)
	o.byRecord[e.record] = append(o.byRecord[e.record], e)
	o.byOp[e.op] = e
	o.running[e] = true
	return delay, named
}

func (o *origin) decide(e *entry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	e.decided = o.w.now()
	delete(o.running, e)
}

// under returns how many requests of a gateway are at the origin now.
func (o *origin) under(gateway int) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for e := range o.running {
		if e.gateway == gateway {
			n++
		}
	}
	return n
}

// entry returns the entry with that id, nil if there is none.
func (o *origin) entry(id int) *entry {
	o.mu.Lock()
	defer o.mu.Unlock()
	if id <= 0 || id >= len(o.entries) {
		return nil
	}
	return o.entries[id]
}

// answer answers for e as its fate wants, with the answer of the entry named.
func (o *origin) answer(rw http.ResponseWriter, e, named *entry) {
	f := e.fate
	h := rw.Header()
	h.Set("ETag", named.etag())
	h.Set("Location", named.location())
	h.Set("Content-Type", answerType)
	h.Set("Set-Cookie", "session=of-"+e.record.tenant)
	h.Set("Chaos-Entry", strconv.Itoa(e.id))
	if f.retry {
		h.Set("Retry-After", "1")
	}
	body := named.answer(f)
	if f.status != 204 {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	rw.WriteHeader(f.status)
	_, _ = io.WriteString(rw, body)
}

const answerType = "application/chaos+json"

// breakOff ends the connection without a whole answer.
func (o *origin) breakOff(rw http.ResponseWriter, e *entry) {
	c, _, err := rw.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	switch e.fate.breaks {
	case "reset":
		_ = c.(*net.TCPConn).SetLinger(0)
	case "head":
		_, _ = io.WriteString(c, "HTTP/1.1 201 Created\r\nContent-Ty")
	case "body":
		_, _ = fmt.Fprintf(c, "HTTP/1.1 201 Created\r\nETag: %s\r\nContent-Length: 100\r\n\r\nhalf a", e.etag())
	case "nonsense":
		_, _ = io.WriteString(c, "NONSENSE\r\n\r\n")
	}
}

func unquoted(key string) string {
	if n := len(key); n >= 2 && key[0] == '"' && key[n-1] == '"' {
		return key[1 : n-1]
	}
	return key
}
