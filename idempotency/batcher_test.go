package idempotency

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// farRedis answers every command after a round trip, and has no load.
type farRedis struct {
	redis.Hook
	trip time.Duration

	mu            sync.Mutex
	batches, most int // sent; the most under way at a time
	running       int
}

func (f *farRedis) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		f.count(1)
		defer f.count(-1)
		time.Sleep(f.trip)
		for _, c := range cmds {
			c.(*redis.RawCmd).SetVal([]byte("$-1\r\n"))
		}
		return nil
	}
}

func (f *farRedis) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (f *farRedis) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (f *farRedis) count(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running += n
	f.most = max(f.most, f.running)
	f.batches += max(n, 0)
}

// However far Redis is, a command takes little more than one round trip, though
// few exchanges are under way at a time.
func TestACommandWaitsForNoOthersRoundTrip(t *testing.T) {
	for _, trip := range []time.Duration{200 * time.Microsecond, 5 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond} {
		for _, rate := range []int{100, 2000, 10_000} {
			t.Run(fmt.Sprintf("%v away, %d a second", trip, rate), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					const lanes = 20
					far := &farRedis{trip: trip}
					client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
					defer client.Close()
					client.AddHook(far)
					var b batcher
					b.init(client, 5*time.Second, lanes)
					var mu sync.Mutex
					var took []time.Duration
					one := func(i int) {
						begin := time.Now()
						c := claimKind.get(fmt.Sprint(i))
						if _, gone, err := b.process(context.Background(), c); gone || err != redis.Nil {
							t.Errorf("gone %v, %v", gone, err)
						}
						mu.Lock()
						defer mu.Unlock()
						took = append(took, time.Since(begin))
					}
					one(0) // and learns how far it is
					var wg sync.WaitGroup
					for i := range rate {
						wg.Go(func() { one(i) })
						time.Sleep(time.Second / time.Duration(rate))
					}
					wg.Wait()
					slices.Sort(took)
					p50, worst := took[len(took)/2], took[len(took)-1]
					t.Logf("p50 %v, worst %v, in %d batches, %d at a time", p50, worst, far.batches, far.most)
					if limit := trip + trip/5 + time.Millisecond; p50 > limit || worst > 2*limit {
						t.Errorf("p50 is %v and the worst %v, want at most %v and twice that", p50, worst, limit)
					}
					if far.most > lanes {
						t.Errorf("%d exchanges at a time, want at most %d", far.most, lanes)
					}
				})
			})
		}
	}
}
