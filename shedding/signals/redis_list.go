package signals

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	// Sidekiq and asynq have none, and it is an error to give one.
	Prefix string
}

// RedisList reads a job framework's queue: the age of the oldest job that waits,
// and how many do. Jobs that are scheduled, delayed or being retried later do
// not wait yet and are not counted.
//
// Most frameworks keep no more than the ids of jobs in the queue itself. So a
// few dozen jobs are looked at, close together at both ends and ever further
// apart between them: that finds the oldest also where the next job is not the
// oldest, was put back without a time, or has lapsed and left only its id. Where
// no job that was looked at tells since when it waits, the age is left out.
//
// A queue that its framework has never heard of is an error until it has been
// seen once, and never an empty one.
type RedisList struct {
	client redis.UniversalClient
	read   func(context.Context) (shedding.Sample, error)
}

// NewRedisList returns a reader. It connects when it first reads.
func NewRedisList(o RedisListOptions) (*RedisList, error) {
	if o.Queue == "" {
		return nil, errors.New("signals: redis_list: Queue is not given")
	}
	if o.Prefix != "" && (o.Kind == "sidekiq" || o.Kind == "asynq") {
		return nil, fmt.Errorf("signals: redis_list: Prefix is %q, but keys of %s begin with none; leave it out", o.Prefix, o.Kind)
	}
	client, err := redisClient(o.URL)
	if err != nil {
		return nil, fmt.Errorf("signals: redis_list: %w", err)
	}
	r := &RedisList{client: client}
	switch o.Kind {
	case "sidekiq":
		r.read = (&sidekiqQueue{c: client, name: o.Queue}).read
	case "rq":
		r.read = rqQueue(client, cmp.Or(o.Prefix, "rq:"), o.Queue).read
	case "asynq":
		r.read = asynqQueue(client, o.Queue).read
	case "bullmq":
		r.read = (&bullmqQueue{c: client, prefix: cmp.Or(o.Prefix, "bull") + ":" + o.Queue + ":"}).read
	default:
		_ = client.Close()
		return nil, fmt.Errorf("signals: redis_list: Kind is %q, want sidekiq, bullmq, asynq or rq", o.Kind)
	}
	return r, nil
}

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

// sidekiqQueue has the jobs in the list itself; the oldest is on the right,
// also after a worker has put back what it could not finish.
type sidekiqQueue struct {
	c    redis.UniversalClient
	name string
	seen bool
}

func (q *sidekiqQueue) read(ctx context.Context) (shedding.Sample, error) {
	key := "queue:" + q.name
	pipe := q.c.TxPipeline()
	last, length, clock := pipe.LIndex(ctx, key, -1), pipe.LLen(ctx, key), pipe.Time(ctx)
	known := pipe.SIsMember(ctx, "queues", q.name)
	if err := run(ctx, pipe); err != nil {
		return shedding.Sample{}, fmt.Errorf("list %s: %w", key, err)
	}
	if err := seen(&q.seen, known.Val(), "queues", q.name); err != nil {
		return shedding.Sample{}, err
	}
	s := shedding.Sample{Age: shedding.Known(0), Depth: shedding.Known(float64(length.Val()))}
	if length.Val() == 0 {
		return s, nil
	}
	var facts struct {
		EnqueuedAt *float64 `json:"enqueued_at"`
	}
	if err := json.Unmarshal([]byte(last.Val()), &facts); err != nil || facts.EnqueuedAt == nil {
		return shedding.Sample{}, fmt.Errorf("list %s: a job without enqueued_at is none of Sidekiq's", key)
	}
	at := *facts.EnqueuedAt
	if at > 1e11 {
		at /= 1000 // whole milliseconds from Sidekiq 8 on, seconds with a fraction before
	}
	s.Age = since(clock.Val(), at)
	return s, nil
}

// idQueue is a queue that is a list of ids, with the jobs in hashes.
type idQueue struct {
	c           redis.UniversalClient
	ids         idList
	set, member string    // where the framework lists its queues, and as what this one
	hash        string    // what the names of the jobs' hashes begin with
	fields      [2]string // since when a job waits, and one that every job has
	at          func(id, since string) (float64, error)
	completions string // counts them; "": nothing does
	seen        bool
}

// rqQueue has the oldest on the left unless it was put in front.
func rqQueue(c redis.UniversalClient, prefix, name string) *idQueue {
	key := prefix + "queue:" + name
	return &idQueue{
		c: c, ids: idList{key: key}, set: prefix + "queues", member: key,
		hash: prefix + "job:", fields: [2]string{"enqueued_at", "created_at"},
		at: func(id, text string) (float64, error) {
			if !strings.HasSuffix(text, "Z") {
				text += "Z" // RQ's times are in UTC, whether they say so or not
			}
			at, err := time.Parse(time.RFC3339Nano, text)
			if err != nil {
				return 0, fmt.Errorf("job %s: enqueued_at is %q, no time", id, text)
			}
			return float64(at.UnixMicro()) / 1e6, nil
		},
	}
}

// asynqQueue has the oldest on the right. What a worker that stops puts back
// there, and what is run by hand, has no time.
func asynqQueue(c redis.UniversalClient, name string) *idQueue {
	prefix := "asynq:{" + name + "}:"
	return &idQueue{
		c: c, ids: idList{key: prefix + "pending", right: true}, set: "asynq:queues", member: name,
		hash: prefix + "t:", fields: [2]string{"pending_since", "state"},
		at: func(id, text string) (float64, error) {
			ns, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("task %s: pending_since is %q, no time", id, text)
			}
			return float64(ns) / 1e9, nil
		},
		completions: prefix + "processed",
	}
}

func (q *idQueue) read(ctx context.Context) (shedding.Sample, error) {
	pipe := q.c.TxPipeline()
	length, clock := pipe.LLen(ctx, q.ids.key), pipe.Time(ctx)
	known := pipe.SIsMember(ctx, q.set, q.member)
	var done *redis.StringCmd
	if q.completions != "" {
		done = pipe.Get(ctx, q.completions)
	}
	if err := run(ctx, pipe); err != nil {
		return shedding.Sample{}, fmt.Errorf("list %s: %w", q.ids.key, err)
	}
	if err := seen(&q.seen, known.Val(), q.set, q.member); err != nil {
		return shedding.Sample{}, err
	}
	s := shedding.Sample{Age: shedding.Known(0), Depth: shedding.Known(float64(length.Val()))}
	if done != nil {
		if n, err := done.Float64(); err == nil {
			s.Done = shedding.Known(n)
		}
	}
	if length.Val() == 0 {
		return s, nil
	}
	oldest, err := q.ids.oldest(ctx, q.c, length.Val(), q.look)
	if err != nil {
		return shedding.Sample{}, fmt.Errorf("list %s: %w", q.ids.key, err)
	}
	s.Age, err = oldest.age(clock.Val())
	return s, err
}

// look reads since when jobs wait.
func (q *idQueue) look(ctx context.Context, ids []string) ([]job, error) {
	return jobs(ctx, q.c, q.hash, ids, q.fields[:], func(id string, facts []any) (job, error) {
		text, ok := facts[0].(string)
		if !ok {
			return job{there: facts[1] != nil}, nil
		}
		at, err := q.at(id, text)
		if err != nil {
			return job{}, err
		}
		return waiting(at), nil
	})
}

// seen remembers that a queue was known to its framework once: a queue that
// was cleared may be forgotten, and is then empty.
func seen(once *bool, known bool, set, name string) error {
	if *once = *once || known; !*once {
		return fmt.Errorf("%s is not in the set %s: was nothing put on the queue yet, or is this another database or name?", name, set)
	}
	return nil
}
