package origin

import (
	"math"
	"testing"
	"time"

	"sluice/bench/dist"
)

// clocked is a queue under a clock that only the test moves.
type clocked struct {
	*queue
	now  time.Time
	ends map[int64]time.Time
	next int64
}

func newClocked(workers int, work dist.Distribution) *clocked {
	c := &clocked{now: time.Unix(1000, 0), ends: map[int64]time.Time{}}
	c.queue = newQueue(workers, work, 1, c.now, func(id int64, end time.Time) { c.ends[id] = end })
	return c
}

func (c *clocked) add(n int) {
	for range n {
		c.push(c.now, c.next)
		c.next++
	}
}

func (c *clocked) wait(d time.Duration) Signal {
	c.now = c.now.Add(d)
	return c.state(c.now)
}

// However seldom the queue is looked at, work ends when a queue in the real
// world would have ended it.
func TestEndsAreExactHoweverSeldomAsked(t *testing.T) {
	for _, step := range []time.Duration{time.Millisecond, 333 * time.Millisecond, 10 * time.Second} {
		c := newClocked(2, dist.Const(100*time.Millisecond))
		c.add(7)
		for at := time.Duration(0); at < 10*time.Second; at += step {
			c.wait(step)
		}
		for id := range int64(7) {
			want := time.Unix(1000, 0).Add(time.Duration(id/2+1) * 100 * time.Millisecond)
			if !c.ends[id].Equal(want) {
				t.Errorf("looked at every %v, work %d ends at %v, wanted %v", step, id, c.ends[id], want)
			}
		}
	}
}

func TestAgeIsThatOfTheOldestUnstartedWork(t *testing.T) {
	c := newClocked(1, dist.Const(time.Second))
	if s := c.wait(0); s.OldestAge != 0 || s.Depth != 0 {
		t.Fatalf("an empty queue tells %+v", s)
	}
	c.add(3)
	s := c.wait(1500 * time.Millisecond) // the second has started, the third waits
	if s.OldestAge != 1500*time.Millisecond || s.Depth != 1 || s.InFlight != 1 || s.Completed != 1 {
		t.Fatalf("after 1.5 s: %+v", s)
	}
	s = c.wait(time.Second)
	if s.OldestAge != 0 || s.Depth != 0 || s.InFlight != 1 || s.Completed != 2 {
		t.Fatalf("after 2.5 s: %+v", s)
	}
}

// A pause lets running work end, starts none, and nothing is done in hindsight
// when it ends.
func TestPauseAndResume(t *testing.T) {
	c := newClocked(2, dist.Const(100*time.Millisecond))
	c.add(4)
	c.pause(c.now, true)
	if s := c.wait(10 * time.Second); s.Completed != 2 || s.Depth != 2 || s.OldestAge != 10*time.Second {
		t.Fatalf("paused: %+v", s)
	}
	c.pause(c.now, false)
	if s := c.wait(99 * time.Millisecond); s.Completed != 2 {
		t.Fatalf("work was done in hindsight: %+v", s)
	}
	if s := c.wait(time.Millisecond); s.Completed != 4 {
		t.Fatalf("resumed: %+v", s)
	}
}

func TestScalingChangesTheRate(t *testing.T) {
	c := newClocked(1, dist.Const(100*time.Millisecond))
	c.add(1000)
	for _, step := range []struct{ workers, want int }{{1, 10}, {4, 40}, {2, 20}, {0, 0}, {3, 30}} {
		c.scale(c.now, step.workers)
		c.wait(time.Second) // those who leave finish what they have
		before := c.wait(0).Completed
		if got := c.wait(time.Second).Completed - before; got != int64(step.want) {
			t.Errorf("%d workers did %d pieces of work in a second, wanted %d", step.workers, got, step.want)
		}
	}
}

func TestStuckWorkAgesWhileTheRestGetsDone(t *testing.T) {
	c := newClocked(1, dist.Const(10*time.Millisecond))
	c.poisonNext(1)
	c.add(5)
	s := c.wait(time.Minute)
	if s.Completed != 4 || s.OldestAge != time.Minute || s.Depth != 1 {
		t.Fatalf("with a stuck head: %+v", s)
	}
	c.cure(c.now)
	if s := c.wait(10 * time.Millisecond); s.Completed != 5 || s.OldestAge != 0 {
		t.Fatalf("cured: %+v", s)
	}
	if want := c.now; !c.ends[0].Equal(want) {
		t.Errorf("the cured work ended at %v, wanted %v", c.ends[0], want)
	}
}

// The mean wait of random arrivals at one worker of constant speed is that of
// the textbook (Pollaczek and Khinchine): ρ/(2(1−ρ)) service times.
func TestWaitsMatchTheory(t *testing.T) {
	const n, service, load = 200_000, 10 * time.Millisecond, 0.8
	c := newClocked(1, dist.Const(service))
	r := c.rand
	arrived := map[int64]time.Time{}
	for range n {
		c.now = c.now.Add(time.Duration(r.ExpFloat64() * float64(service) / load))
		arrived[c.next] = c.now
		c.add(1)
	}
	c.wait(time.Hour)
	var sum time.Duration
	for id, at := range arrived {
		sum += c.ends[id].Sub(at) - service
	}
	got, want := (sum / n).Seconds(), load/(2*(1-load))*service.Seconds()
	if math.Abs(got/want-1) > 0.05 {
		t.Errorf("seed 1: mean wait %.2f ms, theory says %.2f ms", got*1e3, want*1e3)
	}
}
