package idempotency

import (
	"sync"
	"time"
)

// flights knows the requests that this gateway is asking the store about or
// executing. One request per record leads and talks to the store; repetitions
// follow it, and cost the store nothing.
type flights struct {
	shards [flightShards]flightShard
}

const flightShards = 64

type flightShard struct {
	mu sync.Mutex
	by map[id]*flight
}

// flight is one leading request. It first asks the store; if it wins the
// record it then executes, until it ends.
type flight struct {
	id id

	mu        sync.Mutex
	stage     stage
	following int
	// Made for the first who follows: most requests are not repeated.
	asked chan struct{} // closed when what the store said is known
	ended chan struct{} // closed when the leader's request is over, if it won

	// Set before asked is closed.
	won   *Claim
	found place // what stands in the way, if not won
	err   error // of the store, if it could not be asked

	// Set before ended is closed.
	result *Record // how the record was settled; nil if it was freed or is not known to be stored
}

// stage is how far a flight has come.
type stage uint8

const (
	asking stage = iota
	executing
	over
)

func newFlights() *flights {
	fs := &flights{}
	for i := range fs.shards {
		fs.shards[i].by = map[id]*flight{}
	}
	return fs
}

func (fs *flights) shard(i id) *flightShard { return &fs.shards[i[1]%flightShards] }

// join returns the flight for i and whether the caller leads it. A leader that
// has outlived its lease is not followed any more: the store decides.
func (fs *flights) join(i id, now time.Time) (f *flight, leads bool) {
	s := fs.shard(i)
	s.mu.Lock()
	defer s.mu.Unlock()
	if f = s.by[i]; f != nil && !f.outlived(now) {
		return f, false
	}
	f = &flight{id: i}
	s.by[i] = f
	return f, true
}

func (f *flight) outlived(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stage != asking && f.won != nil && now.After(f.won.until)
}

// reach tells those who follow how far f has come.
func (f *flight) reach(s stage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asked != nil && f.stage == asking {
		close(f.asked)
	}
	if f.ended != nil && s == over {
		close(f.ended)
	}
	f.stage = s
}

// landed forgets f, so that the next request for its record leads.
func (fs *flights) landed(f *flight) {
	s := fs.shard(f.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by[f.id] == f {
		delete(s.by, f.id)
	}
}

// finishAsking tells followers that the leader did not win.
func (fs *flights) finishAsking(f *flight, found place, err error) {
	f.found, f.err = found, err
	fs.landed(f)
	f.reach(over)
}

// executes tells followers that the leader won.
func (f *flight) executes(c *Claim) {
	f.won = c
	f.reach(executing)
}

// end tells followers what came of the leader's request.
func (fs *flights) end(f *flight, result *Record) {
	f.result = result
	fs.landed(f)
	f.reach(over)
}

// follow counts a follower in, unless there are limit already.
func (f *flight) follow(limit int) (asked, ended <-chan struct{}, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.following >= limit {
		return nil, nil, false
	}
	f.following++
	if f.asked == nil {
		f.asked, f.ended = make(chan struct{}), make(chan struct{})
		if f.stage != asking {
			close(f.asked)
		}
		if f.stage == over {
			close(f.ended)
		}
	}
	return f.asked, f.ended, true
}

func (f *flight) unfollow() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.following--
}

// running is how many records this gateway is asking about or executing.
func (fs *flights) running() int {
	n := 0
	for i := range fs.shards {
		s := &fs.shards[i]
		s.mu.Lock()
		n += len(s.by)
		s.mu.Unlock()
	}
	return n
}
