package signals

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/internal/testredis"
)

// The keys below are what Sidekiq 6.4 and 8, RQ 1.12, asynq 0.26 and BullMQ 6.7
// write.
func TestRedisList(t *testing.T) {
	server := testredis.Start(t)
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	seconds := func(d time.Duration) string { return fmt.Sprintf("%.6f", float64(ago(d).UnixMicro())/1e6) }
	millis := func(d time.Duration) string { return fmt.Sprint(ago(d).UnixMilli()) }

	for _, c := range []struct {
		kind       string
		write      func()
		depth, age float64
		done       float64 // -1: not told
		spoil      []string
	}{
		{kind: "sidekiq", depth: 2, age: 90, done: -1, write: func() {
			server.Must("LPUSH", "queue:work", `{"class":"W","jid":"a","args":[1],"created_at":`+seconds(time.Hour)+`,"enqueued_at":`+seconds(90*time.Second)+`}`)
			server.Must("LPUSH", "queue:work", `{"class":"W","jid":"b","args":[2],"enqueued_at":`+seconds(time.Second)+`}`)
		}, spoil: []string{"RPUSH", "queue:work", `{"class":"W"}`}},
		{kind: "sidekiq", depth: 1, age: 90, done: -1, write: func() {
			server.Must("LPUSH", "queue:work", `{"class":"W","jid":"a","enqueued_at":`+millis(90*time.Second)+`}`)
		}, spoil: []string{"RPUSH", "queue:work", "gibberish"}},
		{kind: "rq", depth: 2, age: 90, done: -1, write: func() {
			server.Must("RPUSH", "rq:queue:work", "j1", "j2")
			server.Must("HSET", "rq:job:j1", "status", "queued", "enqueued_at", ago(90*time.Second).UTC().Format("2006-01-02T15:04:05.000000Z"))
		}, spoil: []string{"HSET", "rq:job:j1", "enqueued_at", "soon"}},
		{kind: "asynq", depth: 2, age: 90, done: 7, write: func() {
			server.Must("LPUSH", "asynq:{work}:pending", "t1", "t2")
			server.Must("HSET", "asynq:{work}:t:t1", "state", "pending", "pending_since", fmt.Sprint(ago(90*time.Second).UnixNano()))
			server.Must("SET", "asynq:{work}:processed", "7")
		}, spoil: []string{"HSET", "asynq:{work}:t:t1", "pending_since", "soon"}},
		{kind: "bullmq", depth: 3, age: 90, done: 12, write: func() {
			server.Must("LPUSH", "bull:work:wait", "1", "2")
			server.Must("RPUSH", "bull:work:wait", "0:5")
			server.Must("HSET", "bull:work:1", "timestamp", millis(100*time.Second), "delay", "10000")
			server.Must("HSET", "bull:work:metrics:completed", "count", "12")
		}, spoil: []string{"HSET", "bull:work:1", "timestamp", "soon"}},
		{kind: "bullmq", depth: 2, age: 90, done: -1, write: func() {
			server.Must("LPUSH", "bull:work:paused", "1")
			server.Must("HSET", "bull:work:1", "timestamp", millis(5*time.Second), "delay", "0")
			server.Must("ZADD", "bull:work:prioritized", "21474836481", "3")
			server.Must("HSET", "bull:work:3", "timestamp", millis(90*time.Second), "priority", "5")
		}, spoil: []string{"DEL", "bull:work:3"}},
	} {
		server.Must("FLUSHALL")
		r, err := NewRedisList(RedisListOptions{URL: "redis://" + server.Addr, Kind: c.kind, Queue: "work"})
		if err != nil {
			t.Fatal(err)
		}
		closing(t, r)
		s := readOnce(t, r)
		near(t, c.kind+": age of an empty queue", s.Age, 0, 0)
		near(t, c.kind+": depth of an empty queue", s.Depth, 0, 0)
		c.write()
		s = readOnce(t, r)
		near(t, c.kind+": age", s.Age, c.age+10, 10.1)
		near(t, c.kind+": depth", s.Depth, c.depth, 0)
		if c.done < 0 {
			unknown(t, c.kind+": completions", s.Done)
		} else {
			near(t, c.kind+": completions", s.Done, c.done, 0)
		}
		// A job without a time, or a vanished one, is an error and no zero.
		server.Must(c.spoil...)
		readError(t, r)
	}
}

func TestRedisListOptions(t *testing.T) {
	for name, o := range map[string]RedisListOptions{
		"kind":  {URL: "redis://x", Queue: "q", Kind: "celery"},
		"queue": {URL: "redis://x", Kind: "rq"},
		"url":   {URL: "x:hunter2@", Kind: "rq", Queue: "q"},
	} {
		if _, err := NewRedisList(o); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}
