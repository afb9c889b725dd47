package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// The admin listener's stream, as far as top and tail read it.
type (
	// feedState is the whole state, with which a stream begins.
	feedState struct {
		Instance string                     `json:"instance"` // of the gateway; another after a restart
		Parts    map[string]json.RawMessage `json:"parts"`    // of the status
		History  struct {
			Times  []int64               `json:"times"`
			Series map[string][]*float64 `json:"series"`
		} `json:"history"`
		Tail []json.RawMessage `json:"tail"`
	}
	// feedTick is what changed in a second.
	feedTick struct {
		Point struct {
			T int64              `json:"t"`
			V map[string]float64 `json:"v"`
		} `json:"point"`
		Parts map[string]json.RawMessage `json:"parts"`
		Tail  []json.RawMessage          `json:"tail"`
	}
)

// feed is told what a stream says, one call at a time.
type feed struct {
	state func(*feedState)
	tick  func(*feedTick)
	lost  func(error) // the stream broke off, or could not be opened again
}

// A stream that says nothing for this long is lost: there is a tick a second.
const silence = 10 * time.Second

// How long a lost stream waits before it is opened again.
var retryAfter = time.Second

// follow reads the stream until ctx ends, opening it again whenever it breaks
// off. It gives up where it could not be opened the first time, or where the
// gateway refuses.
func (a *adminFlags) follow(ctx context.Context, f feed) error {
	for first := true; ; first = false {
		err := a.read(ctx, f)
		if ctx.Err() != nil {
			return nil
		}
		var refused Exit
		if first && !errors.Is(err, errBrokenOff) || errors.As(err, &refused) && refused.Code != ExitUnreachable {
			return err
		}
		f.lost(err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retryAfter):
		}
	}
}

var errBrokenOff = errors.New("the stream broke off")

// read opens the stream once and reads it to its end.
func (a *adminFlags) read(ctx context.Context, f feed) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	quiet := time.AfterFunc(silence, cancel)
	defer quiet.Stop()
	res, _, err := a.open(ctx, "GET", "/api/v1/stream")
	if err != nil {
		return err
	}
	defer res.Body.Close()
	event := ""
	for r := bufio.NewReaderSize(res.Body, 64<<10); ; {
		line, err := readLine(r)
		if err != nil {
			return fmt.Errorf("%w: %w", errBrokenOff, err)
		}
		quiet.Reset(silence)
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch string(name) {
		case "event":
			event = string(value)
		case "data":
			if err := f.tell(event, value); err != nil {
				return exit(ExitUnreachable, fmt.Errorf("what answers at %s is no gateway's admin listener: %w", a.address, err))
			}
		}
	}
}

// readLine reads a line of any length up to maxAnswer.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return bytes.TrimRight(line, "\r\n"), nil
		case !errors.Is(err, bufio.ErrBufferFull) || len(line) > maxAnswer:
			return nil, err
		}
	}
}

func (f *feed) tell(event string, data []byte) error {
	switch event {
	case "state":
		var s feedState
		if err := json.Unmarshal(data, &s); err != nil {
			return err
		}
		f.state(&s)
	case "tick":
		var t feedTick
		if err := json.Unmarshal(data, &t); err != nil {
			return err
		}
		f.tick(&t)
	}
	return nil
}

// printable makes a text that a client has chosen safe for a terminal.
func printable(s string) string {
	q := strconv.QuoteToGraphic(s)
	q = q[1 : len(q)-1]
	if len(q) == len(s) {
		return s
	}
	return q
}
