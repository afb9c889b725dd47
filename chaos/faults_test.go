//go:build unix

package chaos

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"sluice/internal/faultproxy"
)

// befall lets one fault after the other befall the world until stop is closed:
// first one of each kind, then by chance. It returns once all is well again.
func (w *world) befall(r *rand.Rand, stop <-chan struct{}) {
	var stopped sync.WaitGroup
	defer stopped.Wait()
	all := w.faults(&stopped)
	time.Sleep(200 * time.Millisecond)
	for i := range all {
		all[i].befalls(r)
		time.Sleep(ms(r, 20, 150))
	}
	w.mandatory.Store(false)
	for {
		select {
		case <-stop:
			return
		case <-time.After(ms(r, 20, 200)):
		}
		if w.aborted.Load() {
			return
		}
		all[r.IntN(len(all))].befalls(r)
	}
}

func ms(r *rand.Rand, from, to int) time.Duration {
	return time.Duration(from+r.IntN(to-from)) * time.Millisecond
}

type fault struct {
	name    string
	befalls func(r *rand.Rand)
}

// faults are those that this world may have.
func (w *world) faults(stopped *sync.WaitGroup) []fault {
	gateways := []fault{
		{"stopped past its lease", func(r *rand.Rand) { w.stopLong(r, stopped) }},
		{"stopped for a moment", func(r *rand.Rand) { w.on(r, func(g *gateway) { g.pause(ms(r, 30, 300)) }) }},
	}
	ends := []fault{
		{"killed", w.kill},
		{"killed again", w.kill},
		{"replaced", func(r *rand.Rand) {
			w.on(r, func(g *gateway) {
				w.count(func(f *figures) { f.replaced++ })
				g.replace()
			})
		}},
	}
	store := []fault{
		{"replies lost", func(r *rand.Rand) {
			w.store(r, ms(r, 30, 120), func(p *faultproxy.Proxy) { p.DropReplies(1 + r.IntN(8)) })
		}},
		{"replies lost by all", func(r *rand.Rand) {
			for range w.ways {
				w.store(r, ms(r, 10, 60), func(p *faultproxy.Proxy) { p.DropReplies(1 + r.IntN(3)) })
			}
		}},
		{"cut off", func(r *rand.Rand) { w.partition(r, ms(r, 50, 500), func(p *faultproxy.Proxy) { p.Cut(true) }) }},
		{"black hole", func(r *rand.Rand) { w.partition(r, ms(r, 100, 900), func(p *faultproxy.Proxy) { p.BlackHole(true) }) }},
		{"reset", func(r *rand.Rand) { w.store(r, ms(r, 5, 30), func(p *faultproxy.Proxy) { p.Reset() }) }},
		{"slow", func(r *rand.Rand) {
			d := ms(r, 5, 120)
			w.store(r, ms(r, 50, 400), func(p *faultproxy.Proxy) { p.Latency(d) })
		}},
		{"stalled", func(r *rand.Rand) {
			d := ms(r, 50, 600)
			_, _ = w.redis.Do("CLIENT", "PAUSE", strconv.Itoa(int(d.Milliseconds())), "ALL")
			time.Sleep(d)
		}},
		{"Redis killed", func(r *rand.Rand) {
			w.count(func(f *figures) { f.storeKills++ })
			w.redis.Kill()
			time.Sleep(ms(r, 10, 300))
			w.redis.Restart()
		}},
	}
	switch {
	case w.opts.orderly:
		return append(gateways, store...)
	case w.opts.journal:
		return append(gateways, ends...)
	}
	return append(append(gateways, ends...), store...)
}

// on does something to a gateway that nothing else is done to, as soon as there
// is one.
func (w *world) on(r *rand.Rand, do func(*gateway)) {
	for ; ; time.Sleep(10 * time.Millisecond) {
		for _, i := range r.Perm(len(w.all)) {
			if g := w.all[i]; g.busy.TryLock() {
				defer g.busy.Unlock()
				do(g)
				return
			}
		}
	}
}

// stopLong stops a gateway for longer than its claims last, while other faults
// go on. What it had claimed is then in doubt, and it does not know.
func (w *world) stopLong(r *rand.Rand, stopped *sync.WaitGroup) {
	d := w.lease + ms(r, 100, longestStop)
	for _, i := range r.Perm(len(w.all)) {
		g := w.all[i]
		if !g.busy.TryLock() {
			continue
		}
		w.awaitUnderWay(g)
		w.count(func(f *figures) { f.stops++ })
		stopped.Go(func() {
			defer g.busy.Unlock()
			g.pause(d)
		})
		return
	}
}

const longestStop = 700 // ms after the lease

// kill kills a gateway between sending and settling, and starts another.
func (w *world) kill(r *rand.Rand) {
	w.on(r, func(g *gateway) {
		w.awaitUnderWay(g)
		at, n := w.now(), w.origin.under(g.n)
		g.kill()
		w.count(func(f *figures) {
			f.kills++
			f.orphaned += n
			w.kills = append(w.kills, at)
		})
		time.Sleep(ms(r, 10, 300))
		g.start()
	})
}

// awaitUnderWay waits a little for a request of g to be at the origin.
func (w *world) awaitUnderWay(g *gateway) {
	for end := time.Now().Add(2 * time.Second); w.origin.under(g.n) == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// store breaks the way of one gateway to Redis for a while, or at times all.
func (w *world) store(r *rand.Rand, d time.Duration, breaks func(*faultproxy.Proxy)) {
	ways := w.ways
	if i := r.IntN(len(ways) + 1); i < len(ways) {
		ways = ways[i : i+1]
	}
	for _, p := range ways {
		breaks(p)
	}
	time.Sleep(d)
	for _, p := range ways {
		p.Heal()
	}
}

func (w *world) partition(r *rand.Rand, d time.Duration, breaks func(*faultproxy.Proxy)) {
	w.count(func(f *figures) { f.partitions++ })
	w.store(r, d, breaks)
}

func (w *world) count(change func(*figures)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.sums)
}
