package signals

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"sluice/shedding"
)

// RedisStreamOptions describes a stream and the group that works on it.
type RedisStreamOptions struct {
	URL    string // redis:// or rediss://, see the documentation of go-redis
	Stream string
	Group  string
}

// RedisStream reads a Redis stream: the age of the first entry that the group
// has not been given yet, by its id and the server's clock; the group's lag as
// the depth; and the entries read and acknowledged as completions.
//
// Ids that producers make up are not times, and are refused as ages. Redis
// does not know the lag after entries were deleted, and says too much after a
// trim; then the depth is left out.
type RedisStream struct {
	client redis.UniversalClient
	opts   RedisStreamOptions
}

// NewRedisStream returns a reader. It connects when it first reads.
func NewRedisStream(o RedisStreamOptions) (*RedisStream, error) {
	if o.Stream == "" || o.Group == "" {
		return nil, fmt.Errorf("signals: redis_stream: Stream is %q and Group is %q, want both", o.Stream, o.Group)
	}
	client, err := redisClient(o.URL)
	if err != nil {
		return nil, fmt.Errorf("signals: redis_stream: %w", err)
	}
	return &RedisStream{client: client, opts: o}, nil
}

// redisClient returns a client for one reader: one connection, no retries of
// its own.
func redisClient(url string) (redis.UniversalClient, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		// The error of go-redis may quote the password in the URL.
		return nil, errors.New("URL cannot be read, want redis://[user:password@]host:port/db or rediss://")
	}
	o.PoolSize, o.MinIdleConns, o.MaxRetries, o.DialerRetries = 1, 0, -1, 1
	o.ContextTimeoutEnabled = true
	return redis.NewClient(o), nil
}

// Read implements [Reader].
func (r *RedisStream) Read(ctx context.Context) (shedding.Sample, error) {
	var s shedding.Sample
	groups, err := r.client.XInfoGroups(ctx, r.opts.Stream).Result()
	if err != nil {
		return s, fmt.Errorf("stream %s: %w", r.opts.Stream, err)
	}
	group, ok := find(groups, r.opts.Group)
	if !ok {
		return s, fmt.Errorf("stream %s has no group %s", r.opts.Stream, r.opts.Group)
	}
	pipe := r.client.TxPipeline()
	clock := pipe.Time(ctx)
	length := pipe.XLen(ctx, r.opts.Stream)
	next := pipe.XRangeN(ctx, r.opts.Stream, "("+group.LastDeliveredID, "+", 1)
	if _, err := pipe.Exec(ctx); err != nil {
		return s, fmt.Errorf("stream %s: %w", r.opts.Stream, err)
	}
	s.Age, s.Depth = shedding.Known(0), shedding.Known(0)
	if waiting := next.Val(); len(waiting) > 0 {
		ms, err := idTime(waiting[0].ID)
		if err != nil {
			return shedding.Sample{}, fmt.Errorf("stream %s: %w", r.opts.Stream, err)
		}
		s.Age = shedding.Known(float64(clock.Val().UnixMilli()-ms) / 1000)
		s.Depth = shedding.Value{}
		if group.Lag > 0 && group.Lag <= length.Val() {
			s.Depth = shedding.Known(float64(group.Lag))
		}
	}
	// go-redis gives 0 where Redis does not know.
	if group.EntriesRead > 0 && group.EntriesRead >= group.Pending {
		s.Done = shedding.Known(float64(group.EntriesRead - group.Pending))
	}
	return s, nil
}

// Close implements [Reader].
func (r *RedisStream) Close() error { return r.client.Close() }

func find(groups []redis.XInfoGroup, name string) (redis.XInfoGroup, bool) {
	for _, g := range groups {
		if g.Name == name {
			return g, true
		}
	}
	return redis.XInfoGroup{}, false
}

// idTime is the time in an entry's id, in milliseconds of Unix time.
func idTime(id string) (int64, error) {
	ms, _, ok := strings.Cut(id, "-")
	n, err := strconv.ParseInt(ms, 10, 64)
	if !ok || err != nil {
		return 0, fmt.Errorf("entry id %q holds no time", id)
	}
	return n, nil
}
