package ratelimit

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"sluice/admission"
	"sluice/internal/hugepage"
)

// Made-up names neither grow the table nor lift anybody's limit: while there is
// no bucket to drop, they share one.
func TestFloodOfMadeUpTenants(t *testing.T) {
	o := policyOf(quota(0.01, 2)) // no bucket is full again soon
	o.Tenants.Overrides = map[string]Quota{"vip": quota(0.01, 5)}
	g := newGate(t, o)
	if !admits(g, epoch, "early", 2) {
		t.Fatal("refused")
	}
	in := 0
	const flood = 20 * MinTenants
	for i := range flood {
		if admits(g, epoch, fmt.Sprint("made-up-", i), 1) {
			in++
		}
	}
	if most := MinTenants - 1 + 2; in != most {
		t.Errorf("%d of the flood got in, want %d: one for each bucket and the overflow's burst", in, most)
	}
	s := g.Stats()
	if s.Buckets != MinTenants+1 || s.Dropped != 0 || s.Overflowed != flood-(MinTenants-1) {
		t.Errorf("stats are %+v", s)
	}
	if s := look(g, epoch, "another"); s.Source != Overflow || s.Tokens != 0 {
		t.Errorf("a further tenant finds %+v, want the empty overflow bucket", s)
	}
	if admits(g, epoch, "early", 1) {
		t.Error("the flood lifted a limit")
	}
	if n := drain(g, epoch, "vip"); n != 5 {
		t.Errorf("the override had %d of its 5 tokens", n)
	}
}

func TestFullBucketsMakeRoom(t *testing.T) {
	g := newGate(t, policyOf(quota(1, 2)))
	for i := range MinTenants {
		admits(g, epoch, fmt.Sprint("old-", i), 1)
	}
	admits(g, epoch, "turned-away", 1)
	if s := look(g, epoch, "turned-away"); s.Source != Overflow {
		t.Fatalf("found %+v, want the overflow bucket", s)
	}
	later := at(time.Second) // all are full again
	for i := range MinTenants / 10 {
		tenant := fmt.Sprint("new-", i)
		if n := drain(g, later, tenant); n != 2 {
			t.Fatalf("%s had %d tokens, want a bucket of its own", tenant, n)
		}
	}
	if s := g.Stats(); s.Buckets != MinTenants || s.Dropped != MinTenants/10 {
		t.Errorf("stats are %+v, want %d dropped", s, MinTenants/10)
	}
}

// A tenant that comes back keeps its bucket in a flood of names seen once, even
// where it is full at the moment.
func TestReturningTenantsOutliveNamesSeenOnce(t *testing.T) {
	g := newGate(t, policyOf(quota(1000, 2)))
	now := epoch
	for range 2 {
		for i := range 100 {
			admits(g, now, fmt.Sprint("regular-", i), 1)
		}
		now = now.Add(time.Second)
	}
	for i := range 10 * MinTenants {
		now = now.Add(time.Millisecond)
		admits(g, now, fmt.Sprint("once-", i), 1)
		if i%100 == 0 {
			for i := range 100 {
				admits(g, now, fmt.Sprint("regular-", i), 1)
			}
		}
	}
	kept := 0
	for i := range 100 {
		if look(g, now, fmt.Sprint("regular-", i)).Source == Own {
			kept++
		}
	}
	if kept < 99 {
		t.Errorf("%d of 100 returning tenants still have their bucket", kept)
	}
}

// What a dropped bucket's permit gives back goes nowhere, and harms nobody.
func TestGiveBackToADroppedBucket(t *testing.T) {
	g := newGate(t, policyOf(quota(1, 2)))
	p, _, _ := ask(g, epoch, "gone", 1)
	later := at(time.Minute)
	for i := 0; i < MinTenants || look(g, later, "gone").Source == Own; i++ {
		if i == 100*MinTenants {
			t.Fatal("the bucket is still there, so nothing is tested")
		}
		admits(g, later, fmt.Sprint("new-", i), 1)
		later = later.Add(10 * time.Second)
	}
	before := look(g, later, "new-0")
	g.GiveBack(later, p)
	if after := look(g, later, "new-0"); after != before {
		t.Errorf("a stranger's bucket went from %+v to %+v", before, after)
	}
}

// A part of a table finds what was added and not removed, and nothing else,
// however its buckets crowd.
func TestPartIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p part
		want := make(map[uint64]int64)
		// Few hashes, most of which want the same few places.
		hash := rapid.Custom(func(t *rapid.T) uint64 {
			return rapid.Uint64Range(0, 3).Draw(t, "high")<<32 | rapid.Uint64Range(1, 40).Draw(t, "low")
		})
		for step := range rapid.IntRange(1, 200).Draw(t, "steps") {
			h := hash.Draw(t, "hash")
			b := p.find(h)
			if _, there := want[h]; there != (b != nil) {
				t.Fatalf("found %v of %#x, want %v", b, h, there)
			}
			if b == nil {
				p.add(bucket{tenant: h, latest: int64(step)})
				want[h] = int64(step)
			} else if rapid.Bool().Draw(t, "remove") {
				p.remove(slices.IndexFunc(p.places, func(b bucket) bool { return b.tenant == h }))
				delete(want, h)
			}
			if p.taken != len(want) || 4*p.taken > 3*len(p.places) {
				t.Fatalf("%d places of %d are taken, want %d", p.taken, len(p.places), len(want))
			}
			for h, latest := range want {
				if b := p.find(h); b == nil || b.latest != latest {
					t.Fatalf("found %v of %#x, want what was put there at %d", b, h, latest)
				}
			}
		}
	})
}

func TestConcurrentUse(t *testing.T) {
	o := policyOf(quota(100, 10))
	o.Tenants.Overrides = map[string]Quota{"t-1": quota(5, 5), "t-2": quota(50, 50)}
	g := newGate(t, o)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range 3000 {
				now := at(time.Duration(i) * time.Millisecond)
				tenant := fmt.Sprint("t-", (i*7+worker)%(2*MinTenants))
				g.Anticipate(&admission.Request{Tenant: tenant})
				p, f, _ := ask(g, now, tenant, 1)
				look(g, now, tenant)
				switch {
				case f.Is():
				case i%3 == 0:
					g.GiveBack(now, p)
				default:
					g.End(now, p, admission.Answered)
				}
			}
		})
	}
	wg.Go(func() {
		for i := range 200 {
			next := policyOf(quota(100, 10+i%3))
			next.Tenants.Overrides = map[string]Quota{fmt.Sprint("t-", i%5): quota(5, 5+i%2)}
			if _, err := g.Reconfigure(next, at(time.Duration(i)*10*time.Millisecond)); err != nil {
				t.Error(err)
			}
			g.Stats()
		}
	})
	wg.Wait()
	// At most one more than the bound for each override that was taken away.
	if s := g.Stats(); s.Buckets > MinTenants+10 {
		t.Errorf("%d buckets, want no more than %d", s.Buckets, MinTenants+10)
	}
}

// What is asked for early is where a bucket is looked for first.
func TestAnticipatedPlace(t *testing.T) {
	var p part
	if p.first(42) != 0 {
		t.Error("something is asked for where nothing is")
	}
	for n := uint64(1); n <= 1000; n++ {
		h := n * 0x9e3779b97f4a7c15
		p.add(newBucket(h, 0, quota(1, 1)))
		if got, want := p.first(h), &p.places[h%uint64(len(p.places))]; got != uintptr(unsafe.Pointer(want)) {
			t.Fatalf("with %d buckets: %#x is asked for, want %p", n, got, want)
		}
	}
}

// A part that outgrows the heap holds what was added, and gives its memory back as it
// grows on, and when nobody holds it any more.
func TestLargePart(t *testing.T) {
	allGivenBack(t)
	p := new(part)
	const buckets = 100_000
	for n := uint64(1); n <= buckets; n++ {
		p.add(newBucket(n*0x9e3779b97f4a7c15, int64(n), quota(1, 1)))
	}
	if got, want := hugepage.InUse(), int64(len(p.places)*cacheLine); got != want && runtime.GOOS == "linux" {
		t.Errorf("%d bytes are outside the heap, want %d: those of the places", got, want)
	}
	for n := uint64(1); n <= buckets; n++ {
		if b := p.find(n * 0x9e3779b97f4a7c15); b == nil || b.latest != int64(n) {
			t.Fatalf("found %v, want the bucket added at %d", b, n)
		}
	}
	runtime.KeepAlive(p)
	allGivenBack(t)
}

// allGivenBack waits until tables that nobody holds have given their memory back.
func allGivenBack(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(time.Minute); hugepage.InUse() != 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d bytes outside the heap are in use, and nobody holds them", hugepage.InUse())
		}
		runtime.GC()
	}
}

// What the table's layout rests on.
func TestSizes(t *testing.T) {
	if n := unsafe.Sizeof(bucket{}); n != cacheLine {
		t.Errorf("a bucket takes %d bytes, want %d, a cache line", n, cacheLine)
	}
	if n := unsafe.Sizeof(part{}); n != 2*cacheLine {
		t.Errorf("a part takes %d bytes, want 128, two cache lines", n)
	}
}

func million(t testing.TB) (*Gate, []string) {
	tenants := 1_000_000
	if raceDetector {
		tenants /= 10 // it makes no difference to what is shown, but to the time
	}
	names := make([]string, tenants)
	for i := range names {
		names[i] = fmt.Sprintf("tenant-%07d", i)
	}
	o := policyOf(quota(100, 200))
	o.MaxTenants = tenants
	g := newGate(t, o)
	return g, names
}

// A million tenants cost at most 250 bytes each, and deciding for one of them
// allocates nothing.
func TestMillionTenants(t *testing.T) {
	allGivenBack(t)
	g, names := million(t)
	memory := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc) + hugepage.InUse()
	}
	var d admission.Decision
	r := admission.Request{Route: &admission.Route{ID: "orders", Cost: 2, CostBy: "X-Cost", CostCap: 10}, Header: fields{{"X-Cost", "3"}}}
	before := memory()
	for _, name := range names {
		r.Tenant = name
		if p, _ := g.Reserve(epoch, &r, &d); p.Amount != 3 {
			t.Fatalf("%d tokens taken of %s, want 3", p.Amount, name)
		}
	}
	grown := memory() - before
	if s := g.Stats(); s.Buckets != len(names) || s.Overflowed != 0 {
		t.Fatalf("stats are %+v, want a bucket for everybody", s)
	}
	each := float64(grown) / float64(len(names))
	t.Logf("%.1f bytes a tenant", each)
	if each > 250 {
		t.Errorf("%.1f bytes a tenant, want at most 250", each)
	}

	now, i := epoch, 0
	if n := testing.AllocsPerRun(5000, func() {
		i = (i + 7919) % len(names)
		now = now.Add(time.Millisecond)
		r.Tenant = names[i]
		p, _ := g.Reserve(now, &r, &d)
		if i%2 == 0 {
			g.GiveBack(now, p)
		} else {
			g.End(now, p, admission.Answered)
		}
	}); n != 0 {
		t.Errorf("%v allocations a request, want none", n)
	}
	drain(g, now, names[0])
	r.Tenant = names[0]
	if n := testing.AllocsPerRun(1000, func() {
		if _, f := g.Reserve(now, &r, &d); !f.Is() {
			t.Fatal("admitted on an empty bucket")
		}
	}); n != 0 {
		t.Errorf("%v allocations a refusal, want none", n)
	}
	runtime.KeepAlive(g)
}

func BenchmarkReserve(b *testing.B) {
	g, names := million(b)
	route := &admission.Route{Cost: 1}
	r := admission.Request{Route: route}
	var d admission.Decision
	for _, name := range names {
		r.Tenant = name
		g.Reserve(epoch, &r, &d)
	}
	// The clock runs as if each tenant asked now and then. Names are written
	// into one buffer, as a transport would: what they cost to fetch is not
	// the gate's.
	run := func(b *testing.B, next func(i int) int, back bool) {
		b.ReportAllocs()
		now, name := epoch, []byte(names[0])
		for i := range b.N {
			now = now.Add(10 * time.Microsecond)
			r.Reset()
			r.Tenant, r.Route = rename(name, next(i)), route
			p, _ := g.Reserve(now, &r, &d)
			if back {
				g.GiveBack(now, p)
			} else {
				g.End(now, p, admission.Answered)
			}
		}
	}
	random := func(i int) int { return i * 7919 % len(names) }
	busy := func(i int) int { return i * 7919 % 1000 }
	b.Run("of a million, at random", func(b *testing.B) { run(b, random, false) })
	b.Run("of a million, a thousand busy", func(b *testing.B) { run(b, busy, false) })
	b.Run("and give back", func(b *testing.B) { run(b, busy, true) })
	b.Run("made-up names", func(b *testing.B) {
		run(b, func(i int) int { return len(names) + i%len(names) }, false)
	})
	b.Run("on all cores", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			r, d, now, name := admission.Request{}, admission.Decision{}, epoch, []byte(names[0])
			for i := 0; pb.Next(); i++ {
				now = now.Add(10 * time.Microsecond)
				r.Reset()
				r.Tenant, r.Route = rename(name, busy(i)), route
				g.Reserve(now, &r, &d)
			}
		})
	})
}

// rename writes number i over the digits at the end of a name.
func rename(name []byte, i int) string {
	for at := len(name) - 1; name[at] >= '0' && name[at] <= '9'; at-- {
		name[at] = byte('0' + i%10)
		i /= 10
	}
	return view(name)
}
