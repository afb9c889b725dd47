package signals

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/testredis"
)

// framework is what a framework wrote to Redis, without the jobs' payloads and
// stack traces.
type framework struct {
	Framework, State string
	Kind, Queue      string
	Oldest           float64 // since when the oldest job waits that tells so
	Depth            float64
	Done             *float64
	Keys             map[string]json.RawMessage
}

// restore writes the keys as the framework did.
func (f framework) restore(t *testing.T, server *testredis.Server) {
	t.Helper()
	for key, raw := range f.Keys {
		var text string
		var list []string
		var other struct {
			Set  []string
			Zset map[string]json.Number
			Hash map[string]string
		}
		switch {
		case json.Unmarshal(raw, &text) == nil:
			server.Must("SET", key, text)
		case json.Unmarshal(raw, &list) == nil:
			server.Must(append([]string{"RPUSH", key}, list...)...)
		case json.Unmarshal(raw, &other) == nil:
			for _, m := range other.Set {
				server.Must("SADD", key, m)
			}
			for m, score := range other.Zset {
				server.Must("ZADD", key, score.String(), m)
			}
			for field, v := range other.Hash {
				server.Must("HSET", key, field, v)
			}
		default:
			t.Fatalf("%s: cannot read %s", key, raw)
		}
	}
}

func TestRedisListReadsWhatFrameworksWrite(t *testing.T) {
	server := testredis.Start(t)
	files, err := filepath.Glob("testdata/redis_list/*.json")
	if err != nil || len(files) < 7 {
		t.Fatalf("found only %q: %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var f framework
		if err := json.Unmarshal(text, &f); err != nil {
			t.Fatal(err)
		}
		server.Must("FLUSHALL")
		f.restore(t, server)
		r, err := NewRedisList(RedisListOptions{URL: "redis://" + server.Addr, Kind: f.Kind, Queue: f.Queue})
		if err != nil {
			t.Fatal(err)
		}
		closing(t, r)
		before := time.Now()
		s := readOnce(t, r)
		after := time.Now()
		at := func(now time.Time) float64 { return float64(now.UnixMicro())/1e6 - f.Oldest }
		if age, known := s.Age.Get(); !known || age < at(before)-.1 || age > at(after)+.1 {
			t.Errorf("%s, %s: age is %v (known: %v), want between %v and %v", f.Framework, f.State, age, known, at(before), at(after))
		}
		near(t, f.Framework+": depth", s.Depth, f.Depth, 0)
		if f.Done == nil {
			unknown(t, f.Framework+": completions", s.Done)
		} else {
			near(t, f.Framework+": completions", s.Done, *f.Done, 0)
		}
	}
}

func TestRedisList(t *testing.T) {
	server := testredis.Start(t)
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	seconds := func(d time.Duration) string { return fmt.Sprintf("%.6f", float64(ago(d).UnixMicro())/1e6) }
	millis := func(d time.Duration) string { return fmt.Sprint(ago(d).UnixMilli()) }

	for _, c := range []struct {
		kind       string
		write      func()
		depth, age float64 // age -1: not told
		done       float64 // -1: not told
		spoil      []string
	}{
		{kind: "sidekiq", depth: 2, age: 90, done: -1, write: func() {
			server.Must("SADD", "queues", "work")
			server.Must("LPUSH", "queue:work", `{"class":"W","jid":"a","args":[1],"created_at":`+seconds(time.Hour)+`,"enqueued_at":`+seconds(90*time.Second)+`}`)
			server.Must("LPUSH", "queue:work", `{"class":"W","jid":"b","args":[2],"enqueued_at":`+seconds(time.Second)+`}`)
		}, spoil: []string{"RPUSH", "queue:work", `{"class":"W"}`}},
		{kind: "sidekiq", depth: 1, age: 90, done: -1, write: func() {
			server.Must("SADD", "queues", "work")
			server.Must("LPUSH", "queue:work", `{"class":"W","jid":"a","enqueued_at":`+millis(90*time.Second)+`}`)
		}, spoil: []string{"RPUSH", "queue:work", "gibberish"}},
		{kind: "rq", depth: 2, age: 90, done: -1, write: func() {
			server.Must("SADD", "rq:queues", "rq:queue:work")
			server.Must("RPUSH", "rq:queue:work", "j1", "j2")
			server.Must("HSET", "rq:job:j1", "status", "queued", "enqueued_at", ago(90*time.Second).UTC().Format("2006-01-02T15:04:05.000000Z"))
		}, spoil: []string{"HSET", "rq:job:j1", "enqueued_at", "soon"}},
		{kind: "rq", depth: 2, age: 90, done: -1, write: func() { // the first has lapsed
			server.Must("SADD", "rq:queues", "rq:queue:work")
			server.Must("RPUSH", "rq:queue:work", "j1", "j2")
			server.Must("HSET", "rq:job:j2", "enqueued_at", ago(90*time.Second).UTC().Format("2006-01-02T15:04:05Z"))
		}, spoil: []string{"DEL", "rq:job:j2"}},
		{kind: "asynq", depth: 2, age: 90, done: 7, write: func() {
			server.Must("SADD", "asynq:queues", "work")
			server.Must("LPUSH", "asynq:{work}:pending", "t1", "t2")
			server.Must("HSET", "asynq:{work}:t:t1", "state", "pending", "pending_since", fmt.Sprint(ago(90*time.Second).UnixNano()))
			server.Must("SET", "asynq:{work}:processed", "7")
		}, spoil: []string{"HSET", "asynq:{work}:t:t1", "pending_since", "soon"}},
		{kind: "asynq", depth: 1, age: -1, done: -1, write: func() { // put back
			server.Must("SADD", "asynq:queues", "work")
			server.Must("LPUSH", "asynq:{work}:pending", "t1")
			server.Must("HSET", "asynq:{work}:t:t1", "state", "pending")
		}, spoil: []string{"DEL", "asynq:{work}:t:t1"}},
		{kind: "bullmq", depth: 2, age: 90, done: 15, write: func() {
			server.Must("HSET", "bull:work:meta", "opts.maxLenEvents", "10000")
			server.Must("LPUSH", "bull:work:wait", "1", "2")
			server.Must("RPUSH", "bull:work:wait", "0:5")
			server.Must("HSET", "bull:work:1", "timestamp", millis(100*time.Second), "delay", "0", "opts", `{"delay":10000}`)
			server.Must("HSET", "bull:work:metrics:completed", "count", "12")
			server.Must("HSET", "bull:work:metrics:failed", "count", "3")
		}, spoil: []string{"HSET", "bull:work:1", "timestamp", "soon"}},
		{kind: "bullmq", depth: 2, age: 90, done: -1, write: func() {
			server.Must("HSET", "bull:work:meta", "opts.maxLenEvents", "10000")
			server.Must("LPUSH", "bull:work:paused", "1")
			server.Must("HSET", "bull:work:1", "timestamp", millis(5*time.Second), "delay", "0")
			server.Must("ZADD", "bull:work:prioritized", "21474836481", "3")
			server.Must("HSET", "bull:work:3", "timestamp", millis(90*time.Second), "priority", "5")
		}, spoil: []string{"HSET", "bull:work:3", "opts", "gibberish"}},
		{kind: "bullmq", depth: 3, age: -1, done: -1, write: func() { // a parent, a retry, and one promoted by hand
			server.Must("HSET", "bull:work:meta", "opts.maxLenEvents", "10000")
			server.Must("LPUSH", "bull:work:wait", "1", "2", "3")
			server.Must("HSET", "bull:work:1", "timestamp", millis(time.Hour))
			server.Must("HSET", "bull:work:1:processed", "bull:kids:1", "null")
			server.Must("HSET", "bull:work:2", "timestamp", millis(time.Hour), "ats", "1")
			server.Must("HSET", "bull:work:3", "timestamp", millis(time.Hour), "opts", `{"delay":7200000}`)
		}, spoil: []string{"DEL", "bull:work:1", "bull:work:2", "bull:work:3"}},
		{kind: "bullmq", depth: 101, age: 90, done: -1, write: func() { // one of little importance starves
			server.Must("HSET", "bull:work:meta", "opts.maxLenEvents", "10000")
			for i := range 101 {
				id, age, priority := fmt.Sprint(i), time.Second, 1+i/50*8
				if i == 50 {
					age, priority = 90*time.Second, 5
				}
				server.Must("ZADD", "bull:work:prioritized", fmt.Sprint(priority<<32+i), id)
				server.Must("HSET", "bull:work:"+id, "timestamp", millis(age))
			}
		}, spoil: []string{"HSET", "bull:work:50", "timestamp", "soon"}},
	} {
		server.Must("FLUSHALL")
		r, err := NewRedisList(RedisListOptions{URL: "redis://" + server.Addr, Kind: c.kind, Queue: "work"})
		if err != nil {
			t.Fatal(err)
		}
		closing(t, r)
		// A queue that nobody knows is no empty one: it may be a wrong name.
		readError(t, r)
		c.write()
		s := readOnce(t, r)
		if c.age < 0 {
			unknown(t, c.kind+": age", s.Age)
		} else {
			near(t, c.kind+": age", s.Age, c.age+10, 10.1)
		}
		near(t, c.kind+": depth", s.Depth, c.depth, 0)
		if c.done < 0 {
			unknown(t, c.kind+": completions", s.Done)
		} else {
			near(t, c.kind+": completions", s.Done, c.done, 0)
		}
		// A job with a time that is none, or ids without jobs, are an error and
		// no zero.
		server.Must(c.spoil...)
		readError(t, r)
		server.Must("FLUSHALL")
		s = readOnce(t, r)
		near(t, c.kind+": age of an empty queue", s.Age, 0, 0)
		near(t, c.kind+": depth of an empty queue", s.Depth, 0, 0)
	}
}

// However many jobs have lapsed at the head of a queue, the age is that of the
// first one left.
func TestRedisListFindsTheOldestBehindLapsedJobs(t *testing.T) {
	server := testredis.Start(t)
	for _, lapsed := range []int{1, 2, 6, 100, 1500} {
		for _, left := range []int{1, 3, 40} {
			server.Must("FLUSHALL")
			server.Must("SADD", "rq:queues", "rq:queue:work")
			push := []string{"RPUSH", "rq:queue:work"}
			for i := range lapsed + left {
				push = append(push, fmt.Sprint(i))
				if i >= lapsed {
					age := time.Duration(lapsed+left-i) * time.Minute
					server.Must("HSET", fmt.Sprint("rq:job:", i), "enqueued_at", time.Now().Add(-age).UTC().Format("2006-01-02T15:04:05.000000Z"))
				}
			}
			server.Must(push...)
			r, err := NewRedisList(RedisListOptions{URL: "redis://" + server.Addr, Kind: "rq", Queue: "work"})
			if err != nil {
				t.Fatal(err)
			}
			closing(t, r)
			near(t, fmt.Sprintf("age of %d jobs behind %d lapsed ones", left, lapsed), readOnce(t, r).Age, float64(left)*60+10, 10.1)
		}
	}
}

func TestRedisListOptions(t *testing.T) {
	for name, o := range map[string]RedisListOptions{
		"kind":   {URL: "redis://x", Queue: "q", Kind: "celery"},
		"prefix": {URL: "redis://x", Queue: "q", Kind: "sidekiq", Prefix: "mine"},
		"queue":  {URL: "redis://x", Kind: "rq"},
		"url":    {URL: "x:hunter2@", Kind: "rq", Queue: "q"},
	} {
		if _, err := NewRedisList(o); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}
