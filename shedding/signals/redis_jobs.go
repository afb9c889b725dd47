package signals

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/shedding"
)

// errVanished is the error of jobs that were all gone between being found and
// being asked for their time.
var errVanished = errors.New("of the jobs that were looked at only the ids are left: they were taken meanwhile, again and again, or have lapsed or been deleted")

// job is what is known of one job, or of the oldest among several. The zero
// value is a job that is not there any more.
type job struct {
	at    float64 // since when it waits, in seconds of Unix time
	known bool    // at is
	there bool
}

// waiting is a job that has waited since at.
func waiting(at float64) job { return job{at: at, known: true, there: true} }

// or returns the older of two jobs, as far as is known.
func (j job) or(other job) job {
	if other.known && (!j.known || other.at < j.at) {
		other.there = true
		return other
	}
	j.there = j.there || other.there
	return j
}

// age is how long the job has waited; not known if the job does not tell.
func (j job) age(now time.Time) (shedding.Value, error) {
	if !j.there {
		return shedding.Value{}, errVanished
	}
	if !j.known {
		return shedding.Value{}, nil
	}
	return since(now, j.at), nil
}

// since is the time from at, in Unix time, until now.
func since(now time.Time, at float64) shedding.Value {
	return shedding.Known(float64(now.UnixMicro())/1e6 - at)
}

// run sends a pipeline. What is missing is no error.
func run(ctx context.Context, pipe redis.Pipeliner) error {
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	return nil
}

// jobs reads fields of the jobs' hashes, and makes jobs of them. An id of ""
// is a job that is not there.
func jobs(ctx context.Context, c redis.UniversalClient, prefix string, ids, fields []string, parse func(id string, facts []any) (job, error)) ([]job, error) {
	pipe := c.Pipeline()
	facts := make([]*redis.SliceCmd, len(ids))
	for i, id := range ids {
		if id != "" {
			facts[i] = pipe.HMGet(ctx, prefix+id, fields...)
		}
	}
	if err := run(ctx, pipe); err != nil {
		return nil, err
	}
	found := make([]job, len(ids))
	for i, f := range facts {
		if f == nil {
			continue
		}
		var err error
		if found[i], err = parse(ids[i], f.Val()); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// idList is a list of the ids of jobs.
type idList struct {
	key   string
	right bool // jobs are taken from the right end
}

// oldest finds the oldest of n jobs in a list that is roughly in order, by
// looking at some of them. Where the first ones tell no time it narrows down
// where those begin that do.
func (l idList) oldest(ctx context.Context, c redis.UniversalClient, n int64, look func(context.Context, []string) ([]job, error)) (job, error) {
	var oldest job
	low, high := int64(-1), n
	for at, pass := places(n), 0; len(at) > 0 && pass < 4; pass++ {
		ids, err := l.at(ctx, c, at)
		if err != nil {
			return job{}, err
		}
		found, err := look(ctx, ids)
		if err != nil {
			return job{}, err
		}
		for _, j := range found {
			oldest = oldest.or(j)
		}
		if !oldest.known {
			break
		}
		first := slices.IndexFunc(found, func(j job) bool { return j.known })
		if first < 0 {
			low = at[len(at)-1]
		} else {
			high = at[first]
			if first > 0 {
				low = at[first-1]
			}
		}
		at = between(low, high)
	}
	return oldest, nil
}

// at returns the ids at places, counted from the end that is taken from; ""
// where the list has become shorter.
func (l idList) at(ctx context.Context, c redis.UniversalClient, places []int64) ([]string, error) {
	pipe := c.Pipeline()
	cmds := make([]*redis.StringCmd, len(places))
	for i, p := range places {
		if l.right {
			p = -1 - p
		}
		cmds[i] = pipe.LIndex(ctx, l.key, p)
	}
	if err := run(ctx, pipe); err != nil {
		return nil, err
	}
	ids := make([]string, len(places))
	for i, cmd := range cmds {
		ids[i] = cmd.Val()
	}
	return ids, nil
}

// places returns where to look among n: at both ends, and from each at a
// distance that doubles, in order.
func places(n int64) []int64 {
	var at []int64
	for d := int64(1); d <= n; d *= 2 {
		at = append(at, d-1, n-d)
	}
	slices.Sort(at)
	return slices.Compact(at)
}

// between returns at most 16 places that lie evenly between two others.
func between(low, high int64) []int64 {
	step := max(1, (high-low)/17)
	var at []int64
	for p := low + step; p < high && len(at) < 16; p += step {
		at = append(at, p)
	}
	return at
}
