package signals

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/shedding"
)

// RedisListOptions describes a queue of a job framework that keeps it in Redis.
type RedisListOptions struct {
	URL   string // redis:// or rediss://
	Kind  string // sidekiq, bullmq, asynq or rq
	Queue string // as the framework calls it
	// Prefix of the framework's keys, where it was changed; "": its default.
	// Sidekiq and asynq have none.
	Prefix string
}

// RedisList reads a job framework's queue: the age of the job that is taken
// next, and how many wait. Jobs that are scheduled, delayed or being retried
// later do not wait yet and are not counted.
//
// The age of a BullMQ job is from when it was added plus its delay, since
// BullMQ notes nothing later; of asynq, and of BullMQ with metrics switched on,
// completions are read as well.
type RedisList struct {
	client redis.UniversalClient
	read   func(context.Context) (shedding.Sample, error)
}

// NewRedisList returns a reader. It connects when it first reads.
func NewRedisList(o RedisListOptions) (*RedisList, error) {
	if o.Queue == "" {
		return nil, errors.New("signals: redis_list: Queue is not given")
	}
	client, err := redisClient(o.URL)
	if err != nil {
		return nil, fmt.Errorf("signals: redis_list: %w", err)
	}
	r := &RedisList{client: client}
	prefix := func(usual string) string {
		if o.Prefix != "" {
			return o.Prefix
		}
		return usual
	}
	switch o.Kind {
	case "sidekiq":
		r.read = func(ctx context.Context) (shedding.Sample, error) { return sidekiq(ctx, client, "queue:"+o.Queue) }
	case "rq":
		r.read = func(ctx context.Context) (shedding.Sample, error) {
			return rq(ctx, client, prefix("rq:"), o.Queue)
		}
	case "asynq":
		r.read = func(ctx context.Context) (shedding.Sample, error) {
			return asynq(ctx, client, "asynq:{"+o.Queue+"}:")
		}
	case "bullmq":
		r.read = func(ctx context.Context) (shedding.Sample, error) {
			return bullmq(ctx, client, prefix("bull")+":"+o.Queue+":")
		}
	default:
		_ = client.Close()
		return nil, fmt.Errorf("signals: redis_list: Kind is %q, want sidekiq, bullmq, asynq or rq", o.Kind)
	}
	return r, nil
}

// errVanished is the error of a job that was taken between finding it and asking
// for its time.
var errVanished = errors.New("the oldest job was taken while it was being read, again and again")

// Read implements [Reader].
func (r *RedisList) Read(ctx context.Context) (s shedding.Sample, err error) {
	for range 5 {
		if s, err = r.read(ctx); !errors.Is(err, errVanished) {
			break
		}
	}
	return s, err
}

// Close implements [Reader].
func (r *RedisList) Close() error { return r.client.Close() }

// list looks at one end of a list and asks for its length and the time.
func list(ctx context.Context, c redis.UniversalClient, key string, end int64) (job string, length float64, now time.Time, err error) {
	pipe := c.TxPipeline()
	at, n, clock := pipe.LIndex(ctx, key, end), pipe.LLen(ctx, key), pipe.Time(ctx)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return "", 0, time.Time{}, fmt.Errorf("list %s: %w", key, err)
	}
	return at.Val(), float64(n.Val()), clock.Val(), nil
}

// field reads a field of a job's hash.
func field(ctx context.Context, c redis.UniversalClient, key, name string) (string, error) {
	text, err := c.HGet(ctx, key, name).Result()
	if errors.Is(err, redis.Nil) {
		return "", errVanished
	}
	return text, err
}

// sidekiq jobs are in the list itself; the oldest is last. Until version 7 the
// time is seconds with a fraction, from 8 on whole milliseconds.
func sidekiq(ctx context.Context, c redis.UniversalClient, key string) (shedding.Sample, error) {
	job, length, now, err := list(ctx, c, key, -1)
	if err != nil {
		return shedding.Sample{}, err
	}
	s := shedding.Sample{Age: shedding.Known(0), Depth: shedding.Known(length)}
	if job == "" {
		return s, nil
	}
	var facts struct {
		EnqueuedAt *float64 `json:"enqueued_at"`
	}
	if err := json.Unmarshal([]byte(job), &facts); err != nil || facts.EnqueuedAt == nil {
		return shedding.Sample{}, fmt.Errorf("list %s: a job without enqueued_at is none of Sidekiq's", key)
	}
	at := *facts.EnqueuedAt
	if at > 1e11 {
		at /= 1000
	}
	s.Age = since(now, at)
	return s, nil
}

// rq has a list of ids, oldest first.
func rq(ctx context.Context, c redis.UniversalClient, prefix, queue string) (shedding.Sample, error) {
	id, length, now, err := list(ctx, c, prefix+"queue:"+queue, 0)
	if err != nil {
		return shedding.Sample{}, err
	}
	s := shedding.Sample{Age: shedding.Known(0), Depth: shedding.Known(length)}
	if id == "" {
		return s, nil
	}
	text, err := field(ctx, c, prefix+"job:"+id, "enqueued_at")
	if err != nil {
		return shedding.Sample{}, err
	}
	if !strings.HasSuffix(text, "Z") {
		text += "Z" // RQ's times are in UTC, whether they say so or not
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return shedding.Sample{}, fmt.Errorf("job %s: enqueued_at is %q, no time", id, text)
	}
	s.Age = shedding.Known(now.Sub(at).Seconds())
	return s, nil
}

// asynq has a list of ids, oldest last.
func asynq(ctx context.Context, c redis.UniversalClient, prefix string) (shedding.Sample, error) {
	id, length, now, err := list(ctx, c, prefix+"pending", -1)
	if err != nil {
		return shedding.Sample{}, err
	}
	s := shedding.Sample{Age: shedding.Known(0), Depth: shedding.Known(length)}
	if done, err := c.Get(ctx, prefix+"processed").Float64(); err == nil {
		s.Done = shedding.Known(done)
	} else if !errors.Is(err, redis.Nil) {
		return shedding.Sample{}, err
	}
	if id == "" {
		return s, nil
	}
	text, err := field(ctx, c, prefix+"t:"+id, "pending_since")
	if err != nil {
		return shedding.Sample{}, err
	}
	ns, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return shedding.Sample{}, fmt.Errorf("task %s: pending_since is %q, no time", id, text)
	}
	s.Age = shedding.Known(now.Sub(time.Unix(0, ns)).Seconds())
	return s, nil
}

// bullmq has a list of ids, oldest last; another one, in older versions, while
// the queue is paused; and a sorted set for jobs with a priority.
func bullmq(ctx context.Context, c redis.UniversalClient, prefix string) (shedding.Sample, error) {
	pipe := c.TxPipeline()
	wait, paused := pipe.LRange(ctx, prefix+"wait", -2, -1), pipe.LRange(ctx, prefix+"paused", -2, -1)
	first := pipe.ZRange(ctx, prefix+"prioritized", 0, 0)
	n1, n2, n3 := pipe.LLen(ctx, prefix+"wait"), pipe.LLen(ctx, prefix+"paused"), pipe.ZCard(ctx, prefix+"prioritized")
	completed := pipe.HGet(ctx, prefix+"metrics:completed", "count")
	clock := pipe.Time(ctx)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return shedding.Sample{}, fmt.Errorf("queue %s: %w", prefix, err)
	}
	s := shedding.Sample{Age: shedding.Known(0), Depth: shedding.Known(float64(n1.Val() + n2.Val() + n3.Val()))}
	if done, err := completed.Float64(); err == nil {
		s.Done = shedding.Known(done)
	}
	oldest := 0.0
	for _, ids := range [][]string{wait.Val(), paused.Val(), first.Val()} {
		slices.Reverse(ids)
		for _, id := range ids {
			if strings.HasPrefix(id, "0:") {
				continue // a marker that wakes workers up, no job
			}
			age, err := bullmqAge(ctx, c, prefix+id, clock.Val())
			if err != nil {
				return shedding.Sample{}, err
			}
			oldest = max(oldest, age)
			break
		}
	}
	s.Age = shedding.Known(oldest)
	return s, nil
}

func bullmqAge(ctx context.Context, c redis.UniversalClient, key string, now time.Time) (float64, error) {
	facts, err := c.HMGet(ctx, key, "timestamp", "delay").Result()
	if err != nil {
		return 0, err
	}
	text, ok := facts[0].(string)
	if !ok {
		return 0, errVanished
	}
	added, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("job %s: timestamp is %q, no time", key, text)
	}
	if text, ok := facts[1].(string); ok {
		if delay, err := strconv.ParseFloat(text, 64); err == nil {
			added += delay
		}
	}
	age, _ := since(now, added/1000).Get()
	return age, nil
}

// since is the time from at, in Unix time, until now.
func since(now time.Time, at float64) shedding.Value {
	return shedding.Known(float64(now.UnixMicro())/1e6 - at)
}
