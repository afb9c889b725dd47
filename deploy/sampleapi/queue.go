package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// queue is a Redis stream with a consumer group. It is safe for concurrent use.
type queue struct {
	addr, stream, group string

	mu   sync.Mutex
	conn net.Conn // nil: not connected
	in   *bufio.Reader
}

func (q *queue) publish(body []byte) error {
	_, err := q.do("XADD", q.stream, "*", "body", string(body))
	return err
}

// work does one order after each pause, for ever: takes it, and acknowledges
// it.
func (q *queue) work(pause time.Duration) {
	for range time.Tick(pause) {
		reply, err := q.do("XREADGROUP", "GROUP", q.group, "sampleapi", "COUNT", "1", "STREAMS", q.stream, ">")
		if err != nil && strings.HasPrefix(err.Error(), "NOGROUP") {
			_, err = q.do("XGROUP", "CREATE", q.stream, q.group, "0", "MKSTREAM")
		}
		// The reply is [[stream, [[id, fields]]]], or nil where there is nothing to do.
		if id, ok := at(at(at(at(reply, 0), 1), 0), 0).(string); ok {
			_, err = q.do("XACK", q.stream, q.group, id)
		}
		if err != nil {
			log.Print(err)
		}
	}
}

// at is list[i]; nil where v is no list or is too short.
func at(v any, i int) any {
	if list, ok := v.([]any); ok && i < len(list) {
		return list[i]
	}
	return nil
}

// refusal is an error that Redis answered with; the connection is still good.
type refusal string

func (r refusal) Error() string { return string(r) }

// do sends one command and returns its reply, connecting where that is needed.
func (q *queue) do(args ...string) (any, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.conn == nil {
		c, err := net.DialTimeout("tcp", q.addr, 2*time.Second)
		if err != nil {
			return nil, err
		}
		q.conn, q.in = c, bufio.NewReader(c)
	}
	_ = q.conn.SetDeadline(time.Now().Add(2 * time.Second))
	command := fmt.Sprintf("*%d\r\n", len(args))
	for _, a := range args {
		command += fmt.Sprintf("$%d\r\n%s\r\n", len(a), a)
	}
	_, err := io.WriteString(q.conn, command)
	var reply any
	if err == nil {
		reply, err = read(q.in)
	}
	if _, ok := errors.AsType[refusal](err); err != nil && !ok {
		q.conn.Close()
		q.conn = nil
	}
	return reply, err
}

// read reads one reply in Redis's protocol (RESP2).
func read(in *bufio.Reader) (any, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, errors.New("redis: an empty line instead of a reply")
	}
	kind, text := line[0], line[1:]
	switch kind {
	case '+':
		return text, nil
	case '-':
		return nil, refusal(text)
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("redis: a reply that makes no sense: %q", line)
	}
	switch {
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case kind == '$':
		b := make([]byte, n+2)
		_, err := io.ReadFull(in, b)
		return string(b[:n]), err
	case kind == '*':
		list := make([]any, n)
		for i := range list {
			if list[i], err = read(in); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return nil, fmt.Errorf("redis: a reply that makes no sense: %q", line)
}
