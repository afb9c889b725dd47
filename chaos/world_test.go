//go:build unix

package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/config"
	"sluice/internal/faultproxy"
	"sluice/internal/testredis"
)

const (
	routeTimeout = time.Second
	maxReplay    = 4 << 10
	clients      = 24
)

// options say what a world is like. The zero value has three gateways on one
// Redis, which hold unknown outcomes.
type options struct {
	requests int           // of clients, before each record is asked for once more
	last     time.Duration // at least; requests are spread over it
	journal  bool          // one gateway, with a journal instead of Redis
	release  bool          // the origin deduplicates, and gateways release unknown outcomes
	orderly  bool          // no gateway ends; clients hang up only when their request has arrived
	held     bool          // judge as for hold, whatever the gateways do
}

// world is one history in the making.
type world struct {
	t       *testing.T
	seed    uint64
	opts    options
	begun   time.Time
	lease   time.Duration
	origin  *origin
	redis   *testredis.Server
	ways    []*faultproxy.Proxy // to Redis, by gateway
	all     []*gateway
	ops     atomic.Int64
	aborted atomic.Bool

	mu        sync.Mutex
	random    *rand.Rand
	keys      int
	byRecord  map[record][]*op
	operated  map[record]*resolution
	kills     []int64 // when
	findings  []string
	found     int // with those that are not kept
	sums      figures
	told      map[string]int
	mandatory atomic.Bool // faults that every history has are still to come
}

func newWorld(t *testing.T, seed uint64, o options) *world {
	w := &world{
		t: t, seed: seed, opts: o, begun: time.Now(), random: rand.New(rand.NewPCG(seed, 3)),
		byRecord: map[record][]*op{}, operated: map[record]*resolution{}, told: map[string]int{},
	}
	w.mandatory.Store(true)
	w.origin = startOrigin(w)
	n := 3
	if o.journal {
		n = 1
	} else {
		w.redis = testredis.Start(t)
	}
	for i := range n {
		g := &gateway{w: w, n: i, config: filepath.Join(t.TempDir(), "config.yaml")}
		store := fmt.Sprintf("memory: {journal: %s}", filepath.Join(t.TempDir(), "records.journal"))
		if w.redis != nil {
			p, err := faultproxy.New(w.redis.Addr)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { p.Close() })
			w.ways = append(w.ways, p)
			store = fmt.Sprintf("redis: {url: redis://%s/0, timeout: 200ms}", p.Addr())
		}
		if err := os.WriteFile(g.config, []byte(w.config(i, store)), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(g.config)
		if err != nil {
			t.Fatal(err)
		}
		w.lease = cfg.Lease(&cfg.Routes[0])
		w.all = append(w.all, g)
		g.start()
		if w.aborted.Load() {
			t.Fatal(strings.Join(w.findings, "\n"))
		}
	}
	return w
}

// config is the file of gateway i. By seed records are encrypted; of the
// gateways one has nothing in front of its store.
func (w *world) config(i int, store string) string {
	cache := "1MiB"
	if i == 2 {
		cache = "0B"
	}
	encrypt, unknown := "", "hold"
	if w.seed%2 == 1 {
		encrypt = ", encrypt: [{id: 1, key: " + strings.Repeat("0123456789abcdef", 4) + "}]"
	}
	if w.opts.release {
		unknown = "release"
	}
	key := fmt.Sprintf("key: required, on_unknown: %s, max_replay: %dB", unknown, maxReplay)
	return fmt.Sprintf(`version: 1
listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0, write: true}
origin: {url: %s, timeout: %s, connect_timeout: 500ms, max_connections: 2000}
store: {%s, cache: %s, secrets: [a secret for names of records]%s}
tenants: {from: [{header: X-Tenant-Id}]}
classes: [{name: standard}]
routes:
  - {id: orders, match: {method: POST, path: /orders}, class: standard, idempotency: {%s, wait: 150ms}}
  - {id: jobs, match: {method: POST, path: /jobs}, class: standard, idempotency: {%s, wait: 0s}}
shutdown: {drain: 50ms, timeout: 10s}
reload: {watch: 0s}
`, w.origin.URL, routeTimeout, store, cache, encrypt, key, key)
}

// now is the time since the start of the history, in nanoseconds.
func (w *world) now() int64 { return int64(time.Since(w.begun)) }

// goOn reports whether clients go on.
func (w *world) goOn() bool {
	return !w.aborted.Load() && (w.mandatory.Load() || w.ops.Load() < int64(w.opts.requests))
}

// nextOp numbers an operation, and holds the client up where it is ahead of the
// time over which the requests are to be spread.
func (w *world) nextOp() int {
	id := w.ops.Add(1)
	due := time.Duration(float64(w.opts.last) * float64(id) / float64(max(1, w.opts.requests)))
	if ahead := due - time.Since(w.begun); ahead > 0 && ahead < w.opts.last {
		time.Sleep(ahead)
	}
	return int(id)
}

const (
	bodyOne   = `{"amount":1}`
	bodyOther = `{"amount":2}`
)

// pick chooses a record, now a new one, now one in the midst of it, now one
// whose leases are long over.
func (w *world) pick(r *rand.Rand) (record, string) {
	w.mu.Lock()
	if r.IntN(4) == 0 || w.keys == 0 {
		w.keys++
	}
	n := max(1, w.keys-r.IntN(5))
	if r.IntN(3) == 0 {
		n = 1 + r.IntN(w.keys)
	}
	w.mu.Unlock()
	rec := record{[]string{"orders", "jobs"}[n%2], "acme", fmt.Sprintf("key-%d", n)}
	if k := r.IntN(25); k < 3 {
		rec.tenant = []string{"globex", "initech", "umbrella"}[k]
	}
	body := bodyOne
	if r.IntN(20) == 0 {
		body = bodyOther
	}
	return rec, body
}

// anyGateway chooses a gateway; one that is stopped seldom, so that not all
// clients are stuck there.
func (w *world) anyGateway(r *rand.Rand) *gateway {
	for range 20 {
		g := w.all[r.IntN(len(w.all))]
		if !g.now.Load().killed.Load() && (!g.stopped.Load() || r.IntN(20) == 0) {
			return g
		}
		if len(w.all) == 1 {
			time.Sleep(5 * time.Millisecond)
		}
	}
	return w.all[r.IntN(len(w.all))]
}

// note keeps an operation for the judgement, and makes the judgement that can
// be made at once.
func (w *world) note(o *op) {
	if o.fate == "answered" {
		w.checkAnswer(o)
		o.text = ""
	}
	outcome := o.fate
	switch {
	case o.reason != "":
		outcome = o.reason
	case o.fate == "answered":
		outcome = o.keyStatus
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told[outcome]++
	w.byRecord[o.record] = append(w.byRecord[o.record], o)
}

// violate notes that a property does not hold.
func (w *world) violate(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.found++; len(w.findings) < 12 {
		w.findings = append(w.findings, fmt.Sprintf("at %.1fms: %s", float64(w.now())/1e6, text))
	}
}

// fatal ends the history: it cannot be made.
func (w *world) fatal(format string, args ...any) {
	w.violate(format, args...)
	w.aborted.Store(true)
}

// twice notes that e arrived although before forbids that under hold.
func (w *world) twice(before, e *entry) {
	if w.opts.release && !w.opts.held {
		return
	}
	w.violate("%s: executed twice: entry %d (%s, op %d, gateway %d, at %.1fms), and entry %d (op %d, gateway %d)",
		e.record, before.id, before.fate.name, before.op, before.gateway, float64(before.arrived)/1e6, e.id, e.op, e.gateway)
}

// run makes the history and judges it.
func (w *world) run() figures {
	var load, faults sync.WaitGroup
	stop := make(chan struct{})
	faults.Go(func() { w.befall(rand.New(rand.NewPCG(w.seed, 2)), stop) })
	for i := range clients {
		load.Go(func() { newClient(w, 100+i).loads() })
	}
	load.Wait()
	close(stop)
	faults.Wait()

	if !w.aborted.Load() {
		w.origin.calm.Store(true)
		time.Sleep(w.lease + 500*time.Millisecond) // whoever has claimed anything is over it now
		w.askAgain(w.records())
		if !w.opts.release {
			w.operate()
		}
	}
	if w.opts.orderly && !w.aborted.Load() {
		w.compareCounts()
	}
	for _, g := range w.all {
		g.end(g.now.Load())
	}
	w.origin.Close()
	w.judge()
	return w.figures()
}

func (w *world) records() (all []record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for r := range w.byRecord {
		all = append(all, r)
	}
	return all
}

// askAgain asks once for each record, in a world that has healed: every one has
// to give a final answer now.
func (w *world) askAgain(records []record) {
	next := make(chan record)
	var askers sync.WaitGroup
	for i := range clients {
		askers.Go(func() {
			c := newClient(w, 1000+i)
			defer c.close()
			for r := range next {
				c.asksAgain(r)
			}
		})
	}
	for _, r := range records {
		next <- r
	}
	close(next)
	askers.Wait()
}

func (c *client) asksAgain(r record) {
	body := bodyOne
	for end := time.Now().Add(limit); ; {
		o := c.send(r, body, c.w.anyGateway(c.random), plan{patience: limit})
		switch {
		case o.entry > 0, o.reason == "key_in_doubt":
			return
		case o.reason == "key_reused" && body == bodyOne:
			body = bodyOther
			continue
		}
		if time.Now().After(end) {
			c.w.violate("%s: the world has healed, and still: %v", r, o)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}
