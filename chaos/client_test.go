//go:build unix

package chaos

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

// op is one request of a client and what came of it.
type op struct {
	id      int
	record  record
	body    string
	at      *gateway
	process *process
	plan    plan

	call, ret int64  // in nanoseconds since the start of the history
	fate      string // "answered", "hung up", "cut" (not sent in full) or "lost"

	// Of an answer:
	status             int
	keyStatus, reason  string
	replayed           bool
	retryAfter         string
	requestID          string
	entry              int // named in it; 0: the gateway's own
	location, typ      string
	cookie, chaosEntry string
	text               string
}

// plan is how patient a client is with one request.
type plan struct {
	patience time.Duration // until it hangs up
	cut      bool          // hang up in the middle of the request
	part     bool          // hang up in the middle of the answer
	arrived  bool          // hang up once the request is at the origin
}

// client sends one request after the other, each gateway being kept a connection
// to.
type client struct {
	w      *world
	random *rand.Rand
	links  map[*gateway]*link
}

type link struct {
	net.Conn
	in      *bufio.Reader
	process *process
}

func newClient(w *world, n int) *client {
	return &client{w: w, random: rand.New(rand.NewPCG(w.seed, uint64(n))), links: map[*gateway]*link{}}
}

// loads sends requests until there have been enough.
func (c *client) loads() {
	defer c.close()
	for c.w.goOn() {
		r, body := c.w.pick(c.random)
		for try := 0; ; try++ {
			o := c.send(r, body, c.w.anyGateway(c.random), c.plan())
			settled := o.fate == "answered" && (o.entry > 0 || o.reason == "key_reused" || o.reason == "key_in_doubt")
			if settled || try == 3 || c.random.IntN(3) == 0 || !c.w.goOn() {
				break
			}
			time.Sleep(time.Duration(5+c.random.IntN(80<<try)) * time.Millisecond)
		}
	}
}

func (c *client) plan() plan {
	p := plan{patience: 3 * time.Second}
	if c.w.opts.orderly {
		p.patience = limit
		p.arrived = c.random.IntN(20) == 0
		return p
	}
	switch n := c.random.IntN(100); {
	case n < 2:
		p.cut = true
	case n < 4:
		p.part = true
	case n < 14:
		p.patience = time.Duration(c.random.IntN(100)) * time.Millisecond
	}
	return p
}

// send sends one request and notes what comes of it. It is never sent again by
// itself.
func (c *client) send(r record, body string, at *gateway, p plan) *op {
	o := &op{id: c.w.nextOp(), record: r, body: body, at: at, process: at.now.Load(), plan: p, call: c.w.now()}
	o.fate = c.exchange(o)
	o.ret = c.w.now()
	c.w.note(o)
	return o
}

func (c *client) exchange(o *op) (fate string) {
	l := c.links[o.at]
	if l == nil || l.process != o.process {
		c.drop(o.at)
		conn, err := net.DialTimeout("tcp", o.process.client, o.plan.patience+50*time.Millisecond)
		if err != nil {
			return "cut"
		}
		l = &link{conn, bufio.NewReader(conn), o.process}
		c.links[o.at] = l
	}
	keep := false
	defer func() {
		if !keep {
			c.drop(o.at)
		}
	}()
	key := o.record.key
	if o.id%3 == 0 {
		key = `"` + key + `"`
	}
	text := fmt.Sprintf("POST /%s HTTP/1.1\r\nHost: chaos\r\nX-Tenant-Id: %s\r\nIdempotency-Key: %s\r\nChaos-Key: %s\r\nChaos-Op: %d\r\nChaos-Gateway: %d\r\n"+
		"Content-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", o.record.route, o.record.tenant, key, key, o.id, o.at.n, len(o.body), o.body)
	if o.plan.cut {
		_, _ = io.WriteString(l, text[:len(text)-1-c.random.IntN(len(text)/2)])
		return "cut"
	}
	_ = l.SetDeadline(time.Now().Add(o.plan.patience))
	if _, err := io.WriteString(l, text); err != nil {
		return "lost"
	}
	if o.plan.arrived {
		for end := time.Now().Add(100 * time.Millisecond); c.w.origin.entryFor(o.id) == nil; time.Sleep(time.Millisecond) {
			if time.Now().After(end) { // it is not going there: stay
				o.plan.arrived = false
				break
			}
		}
		if o.plan.arrived {
			return "hung up"
		}
	}
	if o.plan.part {
		_, err := io.ReadFull(l.in, make([]byte, 20))
		if err != nil {
			return lostTo(err)
		}
		return "hung up"
	}
	res, err := http.ReadResponse(l.in, &http.Request{Method: http.MethodPost})
	if err != nil {
		return lostTo(err)
	}
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return lostTo(err)
	}
	keep = !res.Close
	o.read(res, answer)
	return "answered"
}

// lostTo tells whether it was the client's own impatience that err comes from.
func lostTo(err error) string {
	if t, ok := err.(net.Error); ok && t.Timeout() {
		return "hung up"
	}
	return "lost"
}

func (o *op) read(res *http.Response, body []byte) {
	h := res.Header
	o.status, o.text = res.StatusCode, string(body)
	o.keyStatus, o.replayed = h.Get("Idempotency-Status"), h.Get("Idempotent-Replayed") == "true"
	o.retryAfter, o.requestID = h.Get("Retry-After"), h.Get("X-Request-Id")
	o.entry, o.location, o.typ = entryOf(h.Get("ETag")), h.Get("Location"), h.Get("Content-Type")
	o.cookie, o.chaosEntry = h.Get("Set-Cookie"), h.Get("Chaos-Entry")
}

func (c *client) drop(at *gateway) {
	if l := c.links[at]; l != nil {
		l.Close()
		delete(c.links, at)
	}
}

func (c *client) close() {
	for at := range c.links {
		c.drop(at)
	}
}

// String shows an operation as a failed judgement does.
func (o *op) String() string {
	gave := o.fate
	if o.fate == "answered" {
		gave = fmt.Sprintf("%d %s%s", o.status, o.keyStatus, o.reason)
		if o.entry > 0 {
			gave += fmt.Sprint(" of entry ", o.entry)
		}
	}
	return fmt.Sprintf("%9.1f to %9.1fms op %d body %s at gateway %d.%d: %s", float64(o.call)/1e6, float64(o.ret)/1e6, o.id, o.body, o.at.n, o.process.gen, gave)
}
