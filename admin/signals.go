package admin

import (
	"errors"
	"io"
	"net/http"
)

// Signals takes readings of queues that are posted.
type Signals interface {
	// Offer hands in a reading for a signal, named as queue or queue/signal. The
	// body is only valid during the call. The error says what is wrong with it;
	// ErrNoSignal that there is no such signal, or that it is read otherwise.
	Offer(name string, body []byte) error
}

// ErrNoSignal says that no signal of that name can be posted.
var ErrNoSignal = errors.New("no signal of that name takes posted readings; name a queue that has one with the reader push, as /signals/QUEUE or /signals/QUEUE/SIGNAL")

// offerSignal serves POST /signals/NAME.
func (s *Server) offerSignal(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
	if err == nil {
		err = s.o.Signals.Offer(r.PathValue("name"), body)
	}
	switch {
	case errors.Is(err, ErrNoSignal):
		writeProblem(w, http.StatusNotFound, err.Error())
	case err != nil:
		writeProblem(w, http.StatusBadRequest, `The reading is not what is wanted, such as {"age": 12.5, "depth": 300, "done": 12345, "at": "2026-01-31T12:00:00Z"} with the age in seconds: `+err.Error())
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}
