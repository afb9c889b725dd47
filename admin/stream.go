package admin

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	maxReaders    = 32              // streams open at once
	readerBacklog = 8               // ticks that a reader may be behind
	writeWithin   = 5 * time.Second // time a reader has to take a tick
)

// A hub keeps the readers of the live stream up to date. A reader first gets
// the whole state, then once a second what has changed, which is worked out and
// written as JSON once for all of them. Without readers nothing is done.
//
// A reader that does not keep up is dropped. It comes back by itself and gets
// the whole state again, so nothing has to be kept for it.
type hub struct {
	instance string // tells this run of the gateway from the one before

	mu      sync.Mutex
	readers map[chan []byte]struct{}
	parts   map[string]json.RawMessage // of the status, as the readers know it
	seen    uint64                     // decisions of the tail that the readers know
}

func newHub() *hub {
	return &hub{instance: rand.Text(), readers: make(map[chan []byte]struct{})}
}

// tailLine is a decision with its place in the tail's order.
type tailLine struct {
	N uint64 `json:"n"`
	Line
}

// state is the whole state.
type state struct {
	Instance string                     `json:"instance"`
	Parts    map[string]json.RawMessage `json:"parts"`
	History  History                    `json:"history"`
	Tail     []tailLine                 `json:"tail"` // oldest first
}

// tick is what changed in a second.
type tick struct {
	Point *Point                     `json:"point"`
	Parts map[string]json.RawMessage `json:"parts"` // those that changed
	Tail  []tailLine                 `json:"tail"`
}

// partsOf splits a status into its fields.
func partsOf(st Status) (map[string]json.RawMessage, error) {
	whole, err := json.Marshal(st)
	if err != nil {
		return nil, err
	}
	parts := make(map[string]json.RawMessage)
	if err := json.Unmarshal(whole, &parts); err != nil {
		return nil, err
	}
	delete(parts, "now") // the points carry the time
	return parts, nil
}

// stateLocked is the state that the readers are at, brought up to date if
// there are none.
func (s *Server) stateLocked() ([]byte, error) {
	h := s.hub
	if len(h.readers) == 0 {
		parts, err := partsOf(s.Status())
		if err != nil {
			return nil, err
		}
		h.parts = parts
	}
	lines, kept := s.o.Live.since(0)
	if len(h.readers) == 0 {
		h.seen = kept
	}
	return json.Marshal(state{h.instance, h.parts, s.o.Live.History(), numbered(lines, kept)})
}

func numbered(lines []Line, kept uint64) []tailLine {
	out := make([]tailLine, len(lines))
	for i, l := range lines {
		out[i] = tailLine{kept - uint64(len(lines)) + uint64(i) + 1, l}
	}
	return out
}

// tick tells the readers what happened in the second that p describes. A field
// that is gone is told as null.
func (s *Server) tick(p *Point) {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.readers) == 0 {
		return
	}
	parts, err := partsOf(s.statusAt(s.o.Live.latest()))
	if err != nil {
		s.o.Logger.Error("the live stream skips a second: the status is not valid JSON", "error", err)
		return
	}
	t := tick{Point: p, Parts: make(map[string]json.RawMessage)}
	for name, part := range parts {
		if !bytes.Equal(part, h.parts[name]) {
			t.Parts[name] = part
		}
	}
	for name := range h.parts {
		if parts[name] == nil {
			t.Parts[name] = json.RawMessage("null")
		}
	}
	h.parts = parts
	lines, kept := s.o.Live.since(h.seen)
	t.Tail = numbered(lines, kept)
	h.seen = kept
	message, err := json.Marshal(t)
	if err != nil {
		s.o.Logger.Error("the live stream skips a second", "error", err)
		return
	}
	for reader := range h.readers {
		select {
		case reader <- message:
		default:
			delete(h.readers, reader)
			close(reader)
		}
	}
}

// join adds a reader and returns the state it starts from; ok is false where
// there are too many.
func (s *Server) join() (first []byte, reader chan []byte, ok bool, err error) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if len(s.hub.readers) >= maxReaders {
		return nil, nil, false, nil
	}
	if first, err = s.stateLocked(); err != nil {
		return nil, nil, false, err
	}
	reader = make(chan []byte, readerBacklog)
	s.hub.readers[reader] = struct{}{}
	return first, reader, true, nil
}

func (s *Server) leave(reader chan []byte) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	delete(s.hub.readers, reader)
}

// stream serves server-sent events: one "state", then a "tick" a second.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	first, reader, ok, err := s.join()
	switch {
	case err != nil:
		writeProblem(w, http.StatusInternalServerError, err.Error())
		return
	case !ok:
		w.Header().Set("Retry-After", "5")
		writeProblem(w, http.StatusServiceUnavailable, fmt.Sprintf("%d readers are connected, which is the most there may be. Poll /api/v1/state instead.", maxReaders))
		return
	}
	defer s.leave(reader)
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	send := func(event string, data []byte) error {
		control.SetWriteDeadline(time.Now().Add(writeWithin))
		if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, data); err != nil {
			return err
		}
		return control.Flush()
	}
	fmt.Fprint(w, "retry: 2000\n")
	if send("state", first) != nil {
		return
	}
	for {
		select {
		case message, ok := <-reader:
			if !ok || send("tick", message) != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

// state serves what the stream begins with, for readers that poll.
func (s *Server) state(w http.ResponseWriter, r *http.Request) {
	s.hub.mu.Lock()
	body, err := s.stateLocked()
	s.hub.mu.Unlock()
	if err != nil {
		writeProblem(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(body)
}
