package signals

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/shedding"
)

// bullmqQueue has a list of ids, oldest on the right unless jobs are taken last
// in, first out; another one while the queue is paused, up to version 5; and a
// sorted set for jobs with a priority.
//
// BullMQ notes when a job was added, and never when it began to wait. For a job
// that was delayed the delay it was added with is known. For one that was
// started before, and for the parent of others, nothing is: they count, but
// tell no age.
type bullmqQueue struct {
	c      redis.UniversalClient
	prefix string
	seen   bool
}

func (q *bullmqQueue) read(ctx context.Context) (shedding.Sample, error) {
	s, err := q.sample(ctx)
	if err != nil {
		return shedding.Sample{}, fmt.Errorf("queue %s: %w", strings.TrimSuffix(q.prefix, ":"), err)
	}
	return s, nil
}

func (q *bullmqQueue) sample(ctx context.Context) (s shedding.Sample, err error) {
	lists := []*bullmqList{{idList: idList{key: q.prefix + "wait", right: true}}, {idList: idList{key: q.prefix + "paused", right: true}}}
	pipe := q.c.TxPipeline()
	for _, l := range lists {
		l.ask(ctx, pipe)
	}
	prioritized := pipe.ZCard(ctx, q.prefix+"prioritized")
	completed, failed := pipe.HGet(ctx, q.prefix+"metrics:completed", "count"), pipe.HGet(ctx, q.prefix+"metrics:failed", "count")
	known, clock := pipe.Exists(ctx, q.prefix+"meta", q.prefix+"id"), pipe.Time(ctx)
	if err := run(ctx, pipe); err != nil {
		return s, err
	}
	if q.seen = q.seen || known.Val() > 0; !q.seen {
		return s, fmt.Errorf("there is no %smeta: was nothing put on the queue yet, or is this another database, prefix or name?", q.prefix)
	}
	depth := prioritized.Val()
	for _, l := range lists {
		depth += l.jobs()
	}
	s.Age, s.Depth = shedding.Known(0), shedding.Known(float64(depth))
	done, err1 := completed.Float64()
	lost, err2 := failed.Float64()
	if err1 == nil || err2 == nil {
		s.Done = shedding.Known(done + lost)
	}
	if depth == 0 {
		return s, nil
	}
	var oldest job
	look := func(ctx context.Context, ids []string) ([]job, error) { return q.look(ctx, ids, clock.Val()) }
	for _, l := range lists {
		j, err := l.oldest(ctx, q.c, l.length.Val(), look)
		if err != nil {
			return s, err
		}
		oldest = oldest.or(j)
	}
	j, err := q.oldestPrioritized(ctx, prioritized.Val(), look)
	if err != nil {
		return s, err
	}
	s.Age, err = oldest.or(j).age(clock.Val())
	return s, err
}

// bullmqList is a list of ids that may have a marker at one end, which wakes
// workers up and is no job, up to version 4.
type bullmqList struct {
	idList
	length      *redis.IntCmd
	left, right *redis.StringCmd
}

func (l *bullmqList) ask(ctx context.Context, pipe redis.Pipeliner) {
	l.length, l.left, l.right = pipe.LLen(ctx, l.key), pipe.LIndex(ctx, l.key, 0), pipe.LIndex(ctx, l.key, -1)
}

func (l *bullmqList) jobs() int64 {
	if isMarker(l.left.Val()) || isMarker(l.right.Val()) {
		return l.length.Val() - 1
	}
	return l.length.Val()
}

func isMarker(id string) bool { return strings.HasPrefix(id, "0:") }

// level is how far priorities are apart in the scores of the sorted set. Jobs
// of one priority are in order between them.
const level = 1 << 32

// oldestPrioritized finds the oldest of n jobs that have a priority. An
// important one may be young while others wait: so the first ones of each of
// the 16 most important priorities are looked at, and some of all.
func (q *bullmqQueue) oldestPrioritized(ctx context.Context, n int64, look func(context.Context, []string) ([]job, error)) (oldest job, err error) {
	if n == 0 {
		return job{}, nil
	}
	key := q.prefix + "prioritized"
	var ids []string
	pipe := q.c.Pipeline()
	var some []*redis.StringSliceCmd
	for _, p := range places(n) {
		some = append(some, pipe.ZRange(ctx, key, p, p))
	}
	if err := run(ctx, pipe); err != nil {
		return job{}, err
	}
	for _, cmd := range some {
		ids = append(ids, cmd.Val()...)
	}
	from := "-inf"
	for range 16 {
		// Those that were put back come first in a priority, and tell no time.
		first, err := q.c.ZRangeByScoreWithScores(ctx, key, &redis.ZRangeBy{Min: from, Max: "+inf", Count: 4}).Result()
		if err != nil {
			return job{}, err
		}
		if len(first) == 0 {
			break
		}
		for _, z := range first {
			id, _ := z.Member.(string)
			ids = append(ids, id)
		}
		from = strconv.FormatFloat((math.Floor(first[0].Score/level)+1)*level, 'f', 0, 64)
	}
	slices.Sort(ids)
	found, err := look(ctx, slices.Compact(ids))
	for _, j := range found {
		oldest = oldest.or(j)
	}
	return oldest, err
}

// look reads since when jobs wait.
func (q *bullmqQueue) look(ctx context.Context, ids []string, now time.Time) ([]job, error) {
	ids = slices.Clone(ids)
	pipe := q.c.Pipeline()
	parents := make([]*redis.IntCmd, len(ids))
	for i, id := range ids {
		if isMarker(id) {
			ids[i] = ""
		}
		key := q.prefix + id
		parents[i] = pipe.Exists(ctx, key+":dependencies", key+":processed", key+":failed", key+":unsuccessful")
	}
	if err := run(ctx, pipe); err != nil {
		return nil, err
	}
	found, err := jobs(ctx, q.c, q.prefix, ids, bullmqFields, func(id string, facts []any) (job, error) {
		return bullmqJob(id, facts, now)
	})
	if err != nil {
		return nil, err
	}
	for i, p := range parents {
		found[i].known = found[i].known && p.Val() == 0
	}
	return found, nil
}

// bullmqFields are those of a job that tell since when it waits; from the
// third on, any of them is there only if the job was started before.
var bullmqFields = []string{"timestamp", "opts", "processedOn", "ats", "atm", "attemptsMade", "stacktrace"}

func bullmqJob(id string, facts []any, now time.Time) (job, error) {
	text, ok := facts[0].(string)
	if !ok {
		return job{}, nil
	}
	ms, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return job{}, fmt.Errorf("job %s: timestamp is %q, no time", id, text)
	}
	for _, f := range facts[2:] {
		if f != nil {
			return job{there: true}, nil
		}
	}
	var opts struct {
		Delay float64 `json:"delay"`
	}
	if text, ok := facts[1].(string); ok {
		if err := json.Unmarshal([]byte(text), &opts); err != nil {
			return job{}, fmt.Errorf("job %s: opts are no JSON", id)
		}
	}
	j := waiting((ms + opts.Delay) / 1000)
	if age, _ := since(now, j.at).Get(); opts.Delay > 0 && age < -5 {
		return job{there: true}, nil // it was promoted before its time
	}
	return j, nil
}
