package idempotency

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// joint is one call of a script for several commands, each about a record of its
// own: a call costs Redis about as much as what the script does for one record.
type joint struct {
	of   []*command
	call *redis.Cmd
}

// join returns one call for those of the commands that can go together; nil
// where there are not several.
func join(commands []*command) *joint {
	n := 0
	for _, c := range commands {
		if c.joins {
			n++
		}
	}
	if n < 2 {
		return nil
	}
	j := &joint{of: make([]*command, 0, n)}
	for _, c := range commands {
		if c.joins {
			j.of = append(j.of, c)
		}
	}
	// By itself a command is evalsha, hash, 1, name, and what belongs to the name.
	first := j.of[0].cmd.Args()
	args := make([]any, 0, 3+n*(len(first)-3))
	args = append(args, first[0], first[1], n)
	for _, c := range j.of {
		args = append(args, c.cmd.Args()[3])
	}
	for _, c := range j.of {
		args = append(args, c.cmd.Args()[4:]...)
	}
	j.call = redis.NewCmd(context.Background(), args...)
	return j
}

// share gives each command its part of the reply. An error about one record is
// in its place; that of the call is everybody's.
func (j *joint) share() {
	err := j.call.Err()
	list, _ := j.call.Val().([]any)
	if err == nil && len(list) != len(j.of) {
		err = fmt.Errorf("%d replies to a call for %d records", len(list), len(j.of))
	}
	for i, c := range j.of {
		if err != nil {
			c.cmd.SetErr(err)
		} else if failed, ok := list[i].(error); ok {
			c.cmd.SetErr(failed)
		} else {
			c.cmd.(*redis.Cmd).SetVal(list[i])
		}
	}
}

// arrange returns what is sent for commands: settles are joined where that is
// possible, and while nobody knows whether it is, it is asked.
func (b *batcher) arrange(commands []*command) (cmds []redis.Cmder, settles *joint, asked *redis.StringCmd) {
	cmds = make([]redis.Cmder, 0, len(commands)+1)
	mode := b.joining.Load()
	if mode != joinNo {
		settles = join(commands)
	}
	if settles != nil && mode == joinUnknown {
		settles, asked = nil, b.joining.ask()
		cmds = append(cmds, asked)
	}
	for _, c := range commands {
		switch {
		case settles == nil || !c.joins:
			cmds = append(cmds, c.cmd)
		case c == settles.of[0]:
			cmds = append(cmds, settles.call)
		}
	}
	return cmds, settles, asked
}

// joining is whether names of several records may stand in one call. That takes
// one server with all of them: of a cluster's node, or of what spreads names over
// several servers by itself, the call would reach records that are elsewhere.
// The zero value does not know yet.
type joining struct{ atomic.Int32 }

const (
	joinUnknown int32 = iota
	joinYes
	joinNo
)

// ask returns the question, for a pipeline that has several commands to join.
func (j *joining) ask() *redis.StringCmd {
	return redis.NewStringCmd(context.Background(), "info", "server")
}

// heard reads the answer. A server that does not answer it is none to rely on.
func (j *joining) heard(answer *redis.StringCmd) {
	text, err := answer.Result()
	switch {
	case err == nil && parseInfo(text)["redis_mode"] == "standalone":
		j.CompareAndSwap(joinUnknown, joinYes)
	case err == nil || redis.HasErrorPrefix(err, "ERR") || redis.HasErrorPrefix(err, "NOPERM"):
		j.CompareAndSwap(joinUnknown, joinNo)
	}
}

// refused notes what was said to a call: names in several slots say that this is
// a cluster's node now.
func (j *joining) refused(err error) {
	if redis.HasErrorPrefix(err, "CROSSSLOT") {
		j.Store(joinNo)
	}
}
