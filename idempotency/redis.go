package idempotency

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/redis/go-redis/v9"
)

// Redis keeps records in Redis, one key each, so that several gateways share
// them and a cluster spreads them.
//
// Claiming is SET NX GET PX: if its reply is lost, a second try gets its own
// record back and so knows that it has won. Everything else is a script that
// compares the owner, and that can be run again likewise.
//
// Records are as safe as Redis keeps its writes: see Check.
type Redis struct {
	client  redis.UniversalClient
	codec   *Codec
	timeout time.Duration
	batches batcher
}

// Scripts; each documents its arguments and their units.
var (
	//go:embed scripts/read.lua
	readSource string
	//go:embed scripts/lapse.lua
	lapseSource string
	//go:embed scripts/settle.lua
	settleSource string
	//go:embed scripts/release.lua
	releaseSource string

	readScript    = redis.NewScript(readSource)
	lapseScript   = redis.NewScript(lapseSource)
	settleScript  = redis.NewScript(settleSource)
	releaseScript = redis.NewScript(releaseSource)
)

// NewRedis returns a store on the Redis of o. It does not connect: a Redis
// that is down comes back without a restart. Call Check at start-up.
func NewRedis(codec *Codec, o RedisOptions) (*Redis, error) {
	client, err := o.client()
	if err != nil {
		return nil, err
	}
	s := &Redis{client: client, codec: codec, timeout: o.Timeout}
	s.batches.init(client, o.Timeout, o.Connections)
	return s, nil
}

// Close closes the connections.
func (s *Redis) Close() error { return s.client.Close() }

// Claim implements [Store].
func (s *Redis) Claim(ctx context.Context, name string, r *Record) (*Reading, error) {
	kind := claimKind
	if s.batches.cluster {
		kind = clusterClaimKind
	}
	c := kind.get(name)
	c.write(s.codec, r)
	reply, err := s.do(ctx, c)
	if err == redis.Nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found, err := s.record(name, reply)
	if err != nil {
		return nil, err
	}
	return &Reading{Record: found}, nil
}

// Read implements [Store].
func (s *Redis) Read(ctx context.Context, name string) (Reading, error) {
	reply, err := s.do(ctx, readKind.get(name))
	if err != nil {
		return Reading{}, err
	}
	return s.reading(name, reply)
}

// Lapse implements [Store].
func (s *Redis) Lapse(ctx context.Context, name string, of Owner, next *Record) (Reading, error) {
	c := lapseKind.get(name)
	c.token = of.Token
	c.write(s.codec, next)
	reply, err := s.do(ctx, c)
	if err != nil {
		return Reading{}, err
	}
	return s.reading(name, reply)
}

// Settle implements [Store].
func (s *Redis) Settle(ctx context.Context, name string, of Owner, next *Record) error {
	c := settleKind.get(name)
	c.token = of.Token
	c.write(s.codec, next)
	return s.done(s.do(ctx, c))
}

// Release implements [Store].
func (s *Redis) Release(ctx context.Context, name string, of Owner, answered bool) error {
	c := releaseKind.get(name)
	c.token = of.Token
	c.which = 0
	if answered {
		c.which = 1
	}
	return s.done(s.do(ctx, c))
}

// done reads the reply of a script that says whether it did what it was asked.
func (s *Redis) done(reply any, err error) error {
	switch {
	case err != nil:
		return err
	case reply == int64(1):
		return nil
	case reply == int64(0):
		return ErrLost
	}
	return fmt.Errorf("redis: unexpected reply %T", reply)
}

// reading reads a reply {record, milliseconds left}.
func (s *Redis) reading(name string, reply any) (Reading, error) {
	pair, ok := reply.([]any)
	if !ok || len(pair) != 2 {
		return Reading{}, fmt.Errorf("redis: unexpected reply %T", reply)
	}
	if pair[0] == nil {
		return Reading{}, nil
	}
	r, err := s.record(name, pair[0])
	if err != nil {
		return Reading{}, err
	}
	ms, _ := pair[1].(int64)
	if ms < 0 { // someone took the time limit away: as if just written
		return Reading{r, r.Retention}, nil
	}
	return Reading{r, time.Duration(ms) * time.Millisecond}, nil
}

func (s *Redis) record(name string, reply any) (*Record, error) {
	switch value := reply.(type) {
	case []byte:
		return s.codec.decode(name, value)
	case string: // decoding does not write to its bytes
		return s.codec.decode(name, unsafe.Slice(unsafe.StringData(value), len(value)))
	}
	return nil, fmt.Errorf("redis: unexpected reply %T", reply)
}

// do sends c and returns its reply; c is used up by it.
//
// What failed on the way is sent once more: its reply may have been lost, and
// every command recognises what an earlier try of it did. A script that Redis
// does not know by its hash is sent by its text.
func (s *Redis) do(ctx context.Context, c *command) (reply any, err error) {
	op, start := c.kind.op, time.Now()
	gone := false
	if err = ctx.Err(); err == nil {
		if reply, gone, err = s.batches.process(ctx, c); err == nil || err == redis.Nil {
			c.put()
			return reply, err
		}
	}
	ctx, cancel := context.WithDeadline(ctx, start.Add(s.timeout))
	defer cancel()
	for repeated := false; !gone && ctx.Err() == nil; {
		switch {
		case err == errRaw:
			c = c.cooked()
		case redis.HasErrorPrefix(err, "NOSCRIPT"):
			c = c.spelt()
		case !repeated && worthRepeating(err):
			repeated = true
		default:
			return reply, explained(op, err)
		}
		reply, gone, err = s.batches.process(ctx, c)
	}
	return nil, fmt.Errorf("redis: %s: %w", op, err)
}

// explained returns err, which Redis gave as its reply to op, as a store says it.
func explained(op string, err error) error {
	switch {
	case err == nil, err == redis.Nil:
		return err
	case redis.HasErrorPrefix(err, "WRONGTYPE"), redis.HasErrorPrefix(err, "FOREIGN"):
		return fmt.Errorf("redis: %s: %w: %s", op, ErrCorrupt, err.Error())
	}
	return fmt.Errorf("redis: %s: %w", op, err)
}

// worthRepeating reports whether err is about the way to Redis, or about a
// server that has just ceased to be the right one.
func worthRepeating(err error) bool {
	if err == nil {
		return false
	}
	var reply redis.Error
	if !errors.As(err, &reply) {
		return true
	}
	// CROSSSLOT was said to several commands in one call; they go alone from then on.
	return redis.HasErrorPrefix(err, "CROSSSLOT") || redis.HasErrorPrefix(err, "READONLY") || redis.HasErrorPrefix(err, "LOADING") ||
		redis.HasErrorPrefix(err, "CLUSTERDOWN") || redis.HasErrorPrefix(err, "TRYAGAIN") || redis.HasErrorPrefix(err, "MASTERDOWN")
}
