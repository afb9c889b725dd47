package idempotency_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"sluice/admission"
	"sluice/idempotency"
	"sluice/internal/faultproxy"
	"sluice/internal/testredis"
)

// What nobody waits for any more is not sent: it would come as a surprise.
func TestCommandsOfCallersThatGaveUpAreNotSent(t *testing.T) {
	server := testredis.Start(t, "--appendfsync", "no")
	proxy, err := faultproxy.New(server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	s := newRedis(t, idempotency.CodecOptions{}, idempotency.RedisOptions{URL: "redis://" + proxy.Addr(), Timeout: patient, Connections: 1})
	t.Cleanup(func() { proxy.Close() })
	var wg sync.WaitGroup
	claim := func(ctx context.Context, name string) {
		wg.Go(func() {
			r := &idempotency.Record{State: idempotency.InFlight, Owner: idempotency.Owner{Token: [16]byte{1}, Attempt: 1}, Lease: time.Second, Retention: time.Minute}
			if _, err := s.Claim(ctx, name, r); err != nil && ctx.Err() == nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	claim(t.Context(), "sluice-test:connects")
	wg.Wait()
	proxy.Latency(time.Second)
	claim(t.Context(), "sluice-test:takes the only lane")
	eventually(t, "the second claim is made, and its reply under way", func() bool { return server.Must("DBSIZE") == "2" })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	for i := range 20 {
		claim(ctx, fmt.Sprint("sluice-test:gives up ", i))
	}
	<-ctx.Done()
	claim(t.Context(), "sluice-test:comes later")
	wg.Wait()
	if n := server.Must("DBSIZE"); n != "3" {
		t.Errorf("%s records were written, want the 3 of those who waited", n)
	}
}

// A reply that is an error is left to the client library, which gives up
// connections to a server that is a replica now.
func TestAClaimRefusedByRedisIsAnError(t *testing.T) {
	server := testredis.Start(t, "--appendfsync", "no")
	s, _ := behindProxy(t, server, 300*time.Millisecond)
	g := newGate(t, s, uncached)
	server.Must("REPLICAOF", "127.0.0.1", "1")
	k := prepare(g, "read only", "body", holdPolicy())
	expectRefusal(t, g.Claim(t.Context(), k), admission.StoreUnavailable)
	server.Must("REPLICAOF", "NO", "ONE")
	eventually(t, "the claim can be made once the server is no replica", func() bool {
		f := g.Claim(t.Context(), k)
		if f.Claim != nil {
			g.Release(f.Claim)
		}
		return f.Claim != nil
	})
}
