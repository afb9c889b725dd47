package idempotency

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"
)

// command is a command to Redis in memory that is used again and again. What its
// arguments are does not change; they point to the fields below, so that making
// another one of its kind ready allocates nothing.
type command struct {
	cmd  redis.Cmder // a *redis.RawCmd or a *redis.Cmd
	kind *commandKind

	name   string
	token  [16]byte
	owner  blob // token
	record blob
	keep   int64 // retention of record, in milliseconds
	which  int64

	joins bool // others of its kind may go with it in one call
	gone  bool // nobody waits for the reply any more
}

// commandKind makes commands of one kind.
type commandKind struct {
	op     string
	raw    bool          // the reply is read as it is: no error is made where there is nothing
	script *redis.Script // nil: none
	text   string        // of the script
	joins  bool          // the script takes many records, and replies with a list
	args   func(*command) []any
	pool   sync.Pool
}

var (
	claimKind        = &commandKind{op: "claim", raw: true, args: claimArgs}
	clusterClaimKind = &commandKind{op: "claim", args: claimArgs} // redirections are errors
	readKind         = &commandKind{op: "read", script: readScript, text: readSource, args: func(*command) []any { return nil }}
	lapseKind        = &commandKind{op: "lapse", script: lapseScript, text: lapseSource, args: func(c *command) []any {
		return []any{&c.owner, &c.record, &c.keep}
	}}
	settleKind = &commandKind{op: "settle", script: settleScript, text: settleSource, joins: true, args: func(c *command) []any {
		return []any{&c.owner, &c.record, &c.keep}
	}}
	releaseKind = &commandKind{op: "release", script: releaseScript, text: releaseSource, args: func(c *command) []any {
		return []any{&c.owner, &c.which}
	}}
)

func claimArgs(c *command) []any {
	return []any{"set", &c.name, &c.record, "nx", "get", "px", &c.keep}
}

// blob is a binary argument. A pointer to one is passed without being copied.
type blob []byte

// MarshalBinary implements [encoding.BinaryMarshaler].
func (b *blob) MarshalBinary() ([]byte, error) { return *b, nil }

// get returns a command about the record called name.
func (k *commandKind) get(name string) *command {
	c, ok := k.pool.Get().(*command)
	if !ok {
		c = &command{kind: k, joins: k.joins}
		c.owner = c.token[:]
		args := k.args(c)
		if k.script != nil {
			args = append([]any{"evalsha", k.script.Hash(), 1, &c.name}, args...)
		}
		if k.raw {
			c.cmd = redis.NewRawCmd(context.Background(), args...)
		} else {
			c.cmd = redis.NewCmd(context.Background(), args...)
		}
	}
	c.name = name
	return c
}

// errRaw: the reply is an error, which was not read as one. The client library
// has to see it, because some say that a connection is of no use any more.
var errRaw = errors.New("the server refused")

// reply returns what Redis said: nothing is [redis.Nil].
func (c *command) reply() (any, error) {
	if err := c.cmd.Err(); err != nil {
		return nil, err
	}
	raw, ok := c.cmd.(*redis.RawCmd)
	if !ok {
		val := c.cmd.(*redis.Cmd).Val()
		if list, ok := val.([]any); ok && c.kind.joins {
			if len(list) != 1 {
				return nil, fmt.Errorf("a list of %d replies where one belongs", len(list))
			}
			if err, ok := list[0].(error); ok {
				return nil, err
			}
			val = list[0]
		}
		return val, nil
	}
	text := raw.Val()
	switch {
	case bytes.HasPrefix(text, []byte("$-1")):
		return nil, redis.Nil
	case bytes.HasPrefix(text, []byte("$")):
		if _, bulk, ok := bytes.Cut(text, []byte("\r\n")); ok && len(bulk) >= 2 {
			return bulk[:len(bulk)-2], nil
		}
	case bytes.HasPrefix(text, []byte("-")):
		return nil, errRaw
	}
	return nil, fmt.Errorf("unexpected reply %.20q", text)
}

// write makes r the record that c writes.
func (c *command) write(codec *Codec, r *Record) {
	c.record = codec.append(c.record[:0], c.name, r)
	c.keep = r.Retention.Milliseconds()
}

// spelt returns c with its script's text in place of the hash.
func (c *command) spelt() *command {
	args := slices.Clone(c.cmd.Args())
	args[0], args[1] = "eval", c.kind.text
	return &command{cmd: redis.NewCmd(context.Background(), args...), kind: c.kind, record: c.record}
}

// cooked returns c with a reply that is read by the client library.
func (c *command) cooked() *command {
	return &command{cmd: redis.NewCmd(context.Background(), c.cmd.Args()...), kind: c.kind, record: c.record}
}

// put keeps c for another time.
func (c *command) put() {
	switch cmd := c.cmd.(type) {
	case *redis.RawCmd:
		cmd.SetVal(nil)
	case *redis.Cmd:
		cmd.SetVal(nil)
	}
	c.cmd.SetErr(nil)
	c.name = ""
	if c.record = c.record[:0]; cap(c.record) > keptBuffer {
		c.record = nil
	}
	c.kind.pool.Put(c)
}
