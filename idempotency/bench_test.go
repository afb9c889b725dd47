package idempotency_test

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/admission"
	"sluice/idempotency"
	"sluice/internal/testredis"
)

// header is a request's header for benchmarks.
type header struct{ lines [][]byte }

func (h *header) PeekAll(string) [][]byte { return h.lines }

func BenchmarkFingerprint(b *testing.B) {
	f, err := idempotency.NewFingerprinter(idempotency.FingerprintOptions{})
	if err != nil {
		b.Fatal(err)
	}
	h := &header{[][]byte{[]byte("application/json")}}
	for _, size := range []int{0, 1 << 10, 64 << 10} {
		b.Run(fmt.Sprint(size, "B"), func(b *testing.B) {
			body := make([]byte, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				f.Sum("POST", "/v1/orders", "", h, body)
			}
		})
	}
}

func BenchmarkReplayFromMemory(b *testing.B) {
	m := newMemory(b, idempotency.CodecOptions{}, idempotency.MemoryOptions{})
	g := newGate(b, m, idempotency.Options{})
	p := holdPolicy()
	ask := idempotency.Ask{Tenant: "tenant", Scope: "create-order", Key: []byte("8e03978e-40d5-43dd-bc93-6894a57f9324"), Policy: p}
	k := g.Prepare(&ask)
	g.Settle(mustWin(b, g, &k), admission.Answered, created("x"))
	b.ReportAllocs()
	for b.Loop() {
		k := g.Prepare(&ask)
		if _, ok := g.Cached(&k); !ok {
			b.Fatal("not in memory")
		}
	}
}

// claimAndSettle is what one new keyed request costs.
//
// spent is how much CPU the store has used elsewhere; nil: none.
func claimAndSettle(b *testing.B, s idempotency.Store, spent func() time.Duration) {
	g := newGate(b, s, idempotency.Options{})
	body := make([]byte, 1<<10)
	var n atomic.Int64
	one := func() {
		i := n.Add(1)
		k := g.Prepare(&idempotency.Ask{Tenant: "t", Scope: "r", Key: strconv.AppendInt(nil, i, 10), Fingerprint: sha256.Sum256(nil), Policy: holdPolicy()})
		if got := g.Settle(mustWin(b, g, &k), admission.Answered, idempotency.Response{Status: 201, Body: body}); got != idempotency.StatusFresh {
			b.Error(got)
		}
	}
	for _, callers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprint(callers, " callers"), func(b *testing.B) {
			b.ReportAllocs()
			here, there := ownCPU(b), time.Duration(0)
			if spent != nil {
				there = spent()
			}
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			var worst atomic.Int64
			for range callers {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						start := time.Now()
						one()
						if took := int64(time.Since(start)); took > worst.Load() {
							worst.Store(took)
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
			b.ReportMetric(float64(ownCPU(b)-here)/1e3/float64(b.N), "cpu-us/pair")
			if spent != nil {
				b.ReportMetric(float64(spent()-there)/1e3/float64(b.N), "store-cpu-us/pair")
			}
			b.ReportMetric(float64(worst.Load())/1e6, "worst-ms")
		})
	}
}

func BenchmarkClaimAndSettleInMemory(b *testing.B) {
	claimAndSettle(b, newMemory(b, idempotency.CodecOptions{}, idempotency.MemoryOptions{MaxBytes: 4 << 30}), nil)
}

func BenchmarkClaimAndSettleOnRedis(b *testing.B) {
	server := testredis.Start(b, "--appendonly", "no")
	claimAndSettle(b, newRedis(b, idempotency.CodecOptions{}, idempotency.RedisOptions{URL: "redis://" + server.Addr, Timeout: patient}), func() time.Duration {
		total := time.Duration(0)
		for line := range strings.Lines(server.Must("INFO", "cpu")) {
			if name, seconds, _ := strings.Cut(strings.TrimSpace(line), ":"); name == "used_cpu_sys" || name == "used_cpu_user" {
				n, err := strconv.ParseFloat(seconds, 64)
				if err != nil {
					b.Fatal(err)
				}
				total += time.Duration(n * float64(time.Second))
			}
		}
		return total
	})
}

// ownCPU is how much CPU this process has used.
func ownCPU(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
