package idempotency_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/admission"
	"sluice/idempotency"
	"sluice/internal/faultproxy"
	"sluice/internal/testredis"
)

// behindProxy returns a store whose way to server can be broken.
func behindProxy(t *testing.T, server *testredis.Server, timeout time.Duration) (*idempotency.Redis, *faultproxy.Proxy) {
	t.Helper()
	p, err := faultproxy.New(server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	s := newRedis(t, idempotency.CodecOptions{}, idempotency.RedisOptions{URL: "redis://" + p.Addr(), Timeout: timeout})
	t.Cleanup(func() { p.Close() })
	return s, p
}

// eventually asks until check is content, for at most limit.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	const limit = 20 * time.Second
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if check() {
			return
		}
	}
	t.Fatalf("not within %v: %s", limit, what)
}

func TestRedisLosesReplies(t *testing.T) {
	server := testredis.Start(t)
	s, proxy := behindProxy(t, server, patient)
	g := newGate(t, s, uncached)
	g.Release(mustWin(t, g, prepare(g, "connects", "body", holdPolicy())))
	for i := range 20 {
		k := prepare(g, fmt.Sprint("lost ", i), "body", holdPolicy())
		proxy.DropReplies(1)
		c := mustWin(t, g, k) // not told by itself that another has it
		if i%2 == 0 {
			proxy.DropReplies(1)
			mustSettle(t, g, c, admission.Answered, created("x"), idempotency.StatusFresh)
			expectReplay(t, g.Claim(t.Context(), k), 201, "x")
		} else {
			proxy.DropReplies(1)
			g.Release(c)
			g.Release(mustWin(t, g, k))
		}
	}
	if st := g.Stats(); st.Recovered != 20 || proxy.Dropped() != 40 {
		t.Errorf("%d claims recovered after %d lost replies, want 20 after 40", st.Recovered, proxy.Dropped())
	}
}

func TestRedisFallsSilent(t *testing.T) {
	server := testredis.Start(t)
	s, proxy := behindProxy(t, server, 300*time.Millisecond)
	g := newGate(t, s, uncached)
	running := prepare(g, "running", "body", holdPolicy())
	c := mustWin(t, g, running)
	proxy.BlackHole(true)
	start := time.Now()
	k := prepare(g, "silent", "body", holdPolicy())
	expectRefusal(t, g.Claim(t.Context(), k), admission.StoreUnavailable)
	mustSettle(t, g, c, admission.Answered, created("x"), idempotency.StatusNotStored)
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("two operations with a limit of 300ms took %v", took)
	}
	proxy.Heal()
	eventually(t, "the answer is stored once Redis is back", func() bool {
		f, ok := g.Lookup(t.Context(), running)
		return ok && f.Verdict == admission.Replay
	})
	eventually(t, "the refused request can be sent", func() bool {
		f := g.Claim(t.Context(), k)
		if f.Claim != nil {
			g.Release(f.Claim)
		}
		return f.Claim != nil
	})
}

func TestCallersThatGiveUpHoldUpNobody(t *testing.T) {
	server := testredis.Start(t)
	s, proxy := behindProxy(t, server, 2*time.Second)
	g := newGate(t, s, uncached)
	for round := range 5 {
		proxy.BlackHole(true)
		var wg sync.WaitGroup
		for i := range 50 { // many more than there are lanes
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+i%20)*time.Millisecond)
				defer cancel()
				start := time.Now()
				g.Claim(ctx, prepare(g, fmt.Sprint("gives up ", round, " ", i), "body", holdPolicy()))
				if took := time.Since(start); took > 10*time.Second {
					t.Errorf("a caller with a deadline of milliseconds took %v", took)
				}
			})
		}
		wg.Wait()
		proxy.Heal()
		for i := range 20 {
			wg.Go(func() {
				eventually(t, "a later caller is served", func() bool {
					f := g.Claim(context.Background(), prepare(g, fmt.Sprint("later ", round, " ", i), "body", holdPolicy()))
					if f.Claim != nil {
						g.Release(f.Claim)
					}
					return f.Claim != nil
				})
			})
		}
		wg.Wait()
	}
}

func TestRedisIsCutOffAndComesBack(t *testing.T) {
	server := testredis.Start(t)
	s, proxy := behindProxy(t, server, patient)
	g := newGate(t, s, uncached)
	proxy.Cut(true)
	expectRefusal(t, g.Claim(t.Context(), prepare(g, "closed", "body", holdPolicy())), admission.StoreUnavailable)
	k := prepare(g, "open", "body", openPolicy())
	f := g.Claim(t.Context(), k)
	if f.Status != idempotency.StatusBypassed {
		t.Fatalf("open: %v, want bypassed", f.Status)
	}
	mustSettle(t, g, f.Claim, admission.Answered, created("x"), idempotency.StatusBypassed)
	proxy.Heal()
	eventually(t, "the answer given without protection is stored", func() bool {
		f, ok := g.Lookup(t.Context(), k)
		return ok && f.Verdict == admission.Replay
	})
}

func TestRedisRestarts(t *testing.T) {
	server := testredis.Start(t)
	s := newRedis(t, idempotency.CodecOptions{}, idempotency.RedisOptions{URL: "redis://" + server.Addr, Timeout: patient})
	g := newGate(t, s, uncached)
	answered, running := prepare(g, "answered", "body", holdPolicy()), prepare(g, "running", "body", holdPolicy())
	mustSettle(t, g, mustWin(t, g, answered), admission.Answered, created("x"), idempotency.StatusFresh)
	c := mustWin(t, g, running)
	server.Kill()
	expectRefusal(t, g.Claim(t.Context(), prepare(g, "meanwhile", "body", holdPolicy())), admission.StoreUnavailable)
	server.Restart() // and has forgotten the scripts
	expectReplay(t, g.Claim(t.Context(), answered), 201, "x")
	mustSettle(t, g, c, admission.Answered, created("y"), idempotency.StatusFresh)
	expectReplay(t, g.Claim(t.Context(), running), 201, "y")
}

func TestRedisFailsOver(t *testing.T) {
	w := testredis.StartWatched(t)
	s := newRedis(t, idempotency.CodecOptions{}, idempotency.RedisOptions{Sentinels: w.Sentinels, Master: w.Name, Timeout: 2 * time.Second})
	g := newGate(t, s, uncached)
	k := prepare(g, "before", "body", holdPolicy())
	mustSettle(t, g, mustWin(t, g, k), admission.Answered, created("x"), idempotency.StatusFresh)
	eventually(t, "the replica has the record", func() bool {
		n, err := w.Replica.Do("EXISTS", g.RecordName(k))
		return err == nil && n == "1"
	})
	w.FailOver()
	eventually(t, "the new master answers", func() bool { return g.Claim(t.Context(), k).Verdict == admission.Replay })
	g.Release(mustWin(t, g, prepare(g, "after", "body", holdPolicy())))
}

func TestOneOfManyExecutesOnRedis(t *testing.T) {
	t.Run("one server", func(t *testing.T) {
		server := testredis.Start(t, "--appendfsync", "no")
		testOneOfManyExecutes(t, newRedis(t, idempotency.CodecOptions{}, idempotency.RedisOptions{URL: "redis://" + server.Addr, Timeout: patient}))
	})
	t.Run("cluster", func(t *testing.T) {
		nodes := testredis.StartCluster(t)
		testOneOfManyExecutes(t, newRedis(t, sealed(), idempotency.RedisOptions{Nodes: []string{nodes[0].Addr}, Timeout: patient}))
	})
}

func TestANewKeyCostsTwoCommands(t *testing.T) {
	server := testredis.Start(t, "--appendfsync", "no")
	s := newRedis(t, idempotency.CodecOptions{}, idempotency.RedisOptions{URL: "redis://" + server.Addr, Timeout: patient})
	g := newGate(t, s, idempotency.Options{})
	run := func(key string) {
		mustSettle(t, g, mustWin(t, g, prepare(g, key, "body", holdPolicy())), admission.Answered, created("x"), idempotency.StatusFresh)
	}
	run("loads the script, once")
	server.Must("CONFIG", "RESETSTAT")
	for i := range 10 {
		run(fmt.Sprint(i))
	}
	stats := server.Must("INFO", "commandstats")
	for command, want := range map[string]string{"set": "20", "evalsha": "10"} { // the script's own SET is counted too
		if !strings.Contains(stats, "cmdstat_"+command+":calls="+want+",") {
			t.Errorf("want %s calls of %s in:\n%s", want, command, stats)
		}
	}
}

func TestRedisIsChecked(t *testing.T) {
	server := testredis.Start(t)
	s := newRedis(t, idempotency.CodecOptions{}, idempotency.RedisOptions{URL: "redis://" + server.Addr, Timeout: patient})
	if risks, err := s.Check(t.Context()); err != nil || len(risks) != 0 {
		t.Errorf("a fit server: %v, %v", risks, err)
	}
	server.Must("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	server.Must("CONFIG", "SET", "appendonly", "no")
	if risks, err := s.Check(t.Context()); err != nil || len(risks) != 2 {
		t.Errorf("an unfit server: %v, %v; want two risks", risks, err)
	}
	server.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := s.Check(ctx); err == nil {
		t.Error("a server that is down passes")
	}
	nodes := testredis.StartCluster(t)
	nodes[1].Must("CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
	cluster := newRedis(t, idempotency.CodecOptions{}, idempotency.RedisOptions{Nodes: []string{nodes[0].Addr}, Timeout: patient})
	risks, err := cluster.Check(t.Context())
	if err != nil || len(risks) != 1 || risks[0].Node != nodes[1].Addr {
		t.Errorf("a cluster with one unfit node: %v, %v", risks, err)
	}
}
