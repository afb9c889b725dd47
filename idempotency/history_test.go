package idempotency_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"sluice/admission"
	"sluice/idempotency"
	"sluice/internal/faultproxy"
	"sluice/internal/testredis"
)

var (
	historySeed  = flag.Uint64("history.seed", 0, "seed of the first history; 0: a new one")
	historyCount = flag.Int("history.count", 2, "histories to make, each with the next seed")
	historyFor   = flag.Duration("history.for", 3*time.Second, "how long to make each one")
)

// Several gateways on one Redis, with everything going wrong that can: replies
// lost, ways cut, silent and slow, Redis killed and restarted, gateways that
// die between sending and settling, or that settle after their lease. The
// origin's ledger then tells whether anything was executed twice, and porcupine
// whether what clients were told can be explained by one record each.
func TestHistoriesUnderFaults(t *testing.T) {
	seed := *historySeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	for i := range *historyCount {
		t.Run(fmt.Sprint("seed ", seed+uint64(i)), func(t *testing.T) {
			t.Logf("repeat with -history.seed=%d -history.count=1", seed+uint64(i))
			newWorld(t, seed+uint64(i)).run()
		})
	}
}

type world struct {
	t       *testing.T
	seed    uint64
	server  *testredis.Server
	proxies []*faultproxy.Proxy
	gates   []*idempotency.Gate
	policy  *idempotency.Policy
	start   time.Time
	stop    atomic.Bool

	mu         sync.Mutex
	ops        []porcupine.Operation
	executions map[string][]execution // the origin's ledger
	replays    map[string][]replayed
	told       map[string]int
	running    map[string][]*span
	next       int
}

type execution struct{ body, answer string }

type replayed struct{ body, answer string }

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, seed: seed, server: testredis.Start(t),
		policy: &idempotency.Policy{
			Lease: 400 * time.Millisecond, Retention: time.Hour, Wait: 50 * time.Millisecond, MaxReplay: 1 << 10,
		},
		executions: map[string][]execution{}, replays: map[string][]replayed{}, told: map[string]int{}, running: map[string][]*span{},
	}
	for i := range 3 {
		s, p := behindProxy(t, w.server, 150*time.Millisecond)
		o := idempotency.Options{}
		if i == 2 {
			o = uncached
		}
		w.proxies = append(w.proxies, p)
		w.gates = append(w.gates, newGate(t, s, o))
	}
	return w
}

func (w *world) run() {
	w.start = time.Now()
	var clients, faults sync.WaitGroup
	for i := range 12 {
		clients.Go(func() { w.client(rand.New(rand.NewPCG(w.seed, uint64(i)))) })
	}
	faults.Go(func() { w.faults(rand.New(rand.NewPCG(w.seed, 1000))) })
	faults.Wait()
	clients.Wait()
	w.judge()
}

// faults breaks one thing after the other, and mends it.
func (w *world) faults(r *rand.Rand) {
	end := w.start.Add(*historyFor)
	for time.Now().Before(end) {
		p := w.proxies[r.IntN(len(w.proxies))]
		pause := time.Duration(5+r.IntN(60)) * time.Millisecond
		switch r.IntN(12) {
		case 0, 1, 2, 3:
			p.DropReplies(1 + r.IntN(6))
		case 4, 5:
			p.Cut(true)
		case 6:
			p.BlackHole(true)
			pause *= 4
		case 7, 8:
			p.Latency(time.Duration(r.IntN(30)) * time.Millisecond)
		case 9:
			p.Reset()
		case 10:
			if r.IntN(3) == 0 {
				w.server.Kill()
				time.Sleep(pause)
				w.server.Restart()
			}
		}
		time.Sleep(pause)
		p.Heal()
	}
	w.stop.Store(true)
}

// client sends requests, now new ones and now repetitions.
func (w *world) client(r *rand.Rand) {
	for !w.stop.Load() {
		w.mu.Lock()
		if r.IntN(4) == 0 {
			w.next++
		}
		back := r.IntN(6)
		if r.IntN(3) == 0 { // old enough for its lease to be over
			back = r.IntN(100)
		}
		key := fmt.Sprintf("%d-%d", w.seed, max(0, w.next-back))
		w.mu.Unlock()
		body := "body"
		if r.IntN(20) == 0 {
			body = "another"
		}
		w.request(r, w.gates[r.IntN(len(w.gates))], key, body)
	}
}

// What is recorded: one input with the output it led to.
type (
	input struct {
		key, body string
		do        string // claim, keep, free or doubt
		answer    string // with keep
	}
	output struct {
		told   string // won, replay, reused, running, in doubt, unavailable; fresh, unsure
		answer string // with replay
	}
)

// record notes an operation; one that may still take effect later has no end.
func (w *world) record(in input, out output, from time.Time, open bool) {
	op := porcupine.Operation{Input: in, Output: out, Call: from.Sub(w.start).Nanoseconds(), Return: time.Since(w.start).Nanoseconds()}
	if open {
		op.Return = math.MaxInt64
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	op.ClientId = len(w.ops) // each is a client of its own, because open ones overlap what follows
	w.ops = append(w.ops, op)
	w.told[in.do+" "+out.told]++
}

func (w *world) request(r *rand.Rand, g *idempotency.Gate, key, body string) {
	k := prepare(g, key, body, w.policy)
	from := time.Now()
	f := g.Claim(context.Background(), k)
	in := input{key: key, body: body, do: "claim"}
	switch {
	case f.Claim != nil:
		w.record(in, output{told: "won"}, from, false)
		w.execute(r, g, f.Claim, key, body, w.runs(key, from))
	case f.Verdict == admission.Replay:
		answer := string(f.Answer.Body)
		w.mu.Lock()
		w.replays[key] = append(w.replays[key], replayed{body, answer})
		w.mu.Unlock()
		w.record(in, output{told: "replay", answer: answer}, from, false)
	default:
		if f.Reason == admission.StoreUnavailable { // and perhaps claimed, until it is withdrawn
			w.runs(key, from)
		}
		w.record(in, output{told: f.Reason.String()}, from, false)
	}
}

// execute is the origin, and what comes of it.
func (w *world) execute(r *rand.Rand, g *idempotency.Gate, c *idempotency.Claim, key, body string, over func()) {
	settle := func(do, answer string, o admission.Outcome, resp idempotency.Response) {
		from := time.Now()
		got := g.Settle(c, o, resp)
		if got != idempotency.StatusNotStored && do != "free" {
			over()
		}
		sure := got == idempotency.StatusFresh || got == idempotency.StatusInDoubt
		if do == "free" {
			sure = false // whether it had to be made up for later is not told
		}
		w.record(input{key: key, body: body, do: do, answer: answer}, output{told: map[bool]string{true: "fresh", false: "unsure"}[sure]}, from, !sure)
	}
	fate := r.IntN(20)
	if fate == 0 { // never sent
		settle("free", "", admission.NotSent, idempotency.Response{})
		return
	}
	if fate == 1 { // paused for too long before sending
		time.Sleep(w.policy.Lease + 50*time.Millisecond)
	}
	w.mu.Lock()
	answer := fmt.Sprintf("%s execution %d", key, len(w.executions[key])+1)
	w.executions[key] = append(w.executions[key], execution{body, answer})
	w.mu.Unlock()
	time.Sleep(time.Duration(r.IntN(10)) * time.Millisecond)
	switch fate {
	case 2, 3: // the gateway dies
		return
	case 4: // the connection to the origin does
		settle("doubt", "", admission.Unknown, idempotency.Response{})
		return
	case 5: // the answer comes after the lease
		time.Sleep(w.policy.Lease + 50*time.Millisecond)
	}
	settle("keep", answer, admission.Answered, idempotency.Response{Status: 201, Body: []byte(answer)})
}

// judge holds the history against the ledger and against the model.
func (w *world) judge() {
	w.t.Logf("%d operations on %d requests: %v", len(w.ops), len(w.executions), w.told)
	for key, es := range w.executions {
		if len(es) > 1 {
			w.t.Errorf("%s was executed %d times", key, len(es))
		}
		for _, r := range w.replays[key] {
			if r.answer != es[0].answer || r.body != es[0].body {
				w.t.Errorf("%s %q was answered with %q, its execution was %+v", key, r.body, r.answer, es[0])
			}
		}
	}
	for key := range w.replays {
		if len(w.executions[key]) == 0 {
			w.t.Errorf("%s was replayed and never executed", key)
		}
	}
	if w.told["claim replay"] == 0 || w.told["claim won"] == 0 || w.told["claim store_unavailable"] == 0 {
		w.t.Error("the history is too tame to prove anything")
	}
	for key, ops := range byKey(w.ops) {
		w.judgeProgress(key, ops)
		if got := porcupine.CheckOperationsTimeout(recordModel, ops, 30*time.Second); got != porcupine.Ok {
			w.t.Errorf("%v: no single record explains what clients were told about %s:", got, key)
			slices.SortFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
			for _, op := range ops {
				w.t.Errorf("  %8.1fms to %8.1fms %+v %+v", float64(op.Call)/1e6, float64(op.Return)/1e6, op.Input, op.Output)
			}
		}
	}
}

// span is a stretch of time, since the start of the history.
type span struct{ from, to time.Duration }

// runs notes that a request may run from then on, and returns how to end it.
func (w *world) runs(key string, from time.Time) (end func()) {
	s := &span{from.Sub(w.start), math.MaxInt64}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running[key] = append(w.running[key], s)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		s.to = time.Since(w.start)
	}
}

// judgeProgress checks that nobody was told of a running request while none ran:
// one runs from its claim until its gateway has settled it, or for good if that
// dies first or cannot tell whether it has claimed.
func (w *world) judgeProgress(key string, ops []porcupine.Operation) {
	for _, op := range ops {
		if op.Output.(output).told == "key_in_progress" && !slices.ContainsFunc(w.running[key], func(s *span) bool {
			return int64(s.from) <= op.Return && op.Call <= int64(s.to)
		}) {
			w.t.Errorf("%s: told at %.1fms that a request is running; none was", key, float64(op.Return)/1e6)
		}
	}
}

// recordState is what one record can be, to those who ask.
type recordState struct {
	is     string // "", running, doubt or answered
	body   string
	answer string
}

// recordModel says which answers one record explains. What a claim that was
// refused for want of the store may leave behind for a while (a claim that is
// withdrawn later) makes others see a running request or a doubt; it executes
// nothing, and so those answers are free as long as nothing is answered.
var recordModel = (&porcupine.NondeterministicModel{
	Init:  func() []any { return []any{recordState{}} },
	Equal: func(a, b any) bool { return a == b },
	Step: func(state, in, out any) []any {
		return step(state.(recordState), in.(input), out.(output))
	},
}).ToModel()

// byKey divides a history by record.
func byKey(history []porcupine.Operation) map[string][]porcupine.Operation {
	by := map[string][]porcupine.Operation{}
	for _, op := range history {
		key := op.Input.(input).key
		by[key] = append(by[key], op)
	}
	return by
}

func step(s recordState, in input, out output) []any {
	same := []any{s}
	switch in.do + " " + out.told {
	case "claim won":
		if s.is == "" {
			return []any{recordState{is: "running", body: in.body}}
		}
	case "claim replay":
		if s.is == "answered" && s.answer == out.answer && s.body == in.body {
			return same
		}
	case "claim key_reused":
		if s.is != "answered" || s.body != in.body {
			return same
		}
	case "claim key_in_doubt":
		if s.is != "answered" {
			return same
		}
	case "claim key_in_progress", "claim store_unavailable":
		return same // see judgeProgress
	case "keep fresh":
		if s.is == "running" && s.body == in.body {
			return []any{recordState{"answered", s.body, in.answer}}
		}
	case "keep unsure":
		if s.is == "running" && s.body == in.body {
			return []any{s, recordState{"answered", s.body, in.answer}}
		}
	case "free unsure":
		if s.is == "running" {
			return []any{s, recordState{}}
		}
	case "doubt fresh", "doubt unsure":
		if s.is == "running" {
			return []any{recordState{is: "doubt", body: s.body}}
		}
	}
	return nil
}
