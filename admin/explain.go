package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// Explain tells of a decision, named by the request's id, what each part of the
// policy said: what it returns is shown as JSON. Its error is [ErrForgotten]
// where nothing is known of the request.
type Explain func(ctx context.Context, id string) (any, error)

// ErrForgotten says that a decision is not among those remembered.
var ErrForgotten = errors.New("this gateway does not remember that request: it keeps the last decisions, at most 20 a second of each reason; older ones are in its decision log, if it writes one")

// Explained is what GET /explain answers.
type Explained struct {
	// Decision is the decision as the tail shows it; nil where it is there no more.
	Decision *Line `json:"decision"`
	// Explanation is what was found out by deciding again; nil where that
	// could not be done, for the reason Without.
	Explanation any    `json:"explanation"`
	Without     string `json:"without,omitempty"`
}

// explain serves GET /explain?id=ID.
func (s *Server) explain(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("id")
	if id == "" {
		writeProblem(w, http.StatusBadRequest, "Name the request, as /explain?id=ID. The id is in X-Request-Id of every answer, and in request_id of a refusal.")
		return
	}
	var told Explained
	if rec, ok := s.o.Live.find(id); ok {
		l := rec.line()
		told.Decision = &l
	}
	err := error(nil)
	if s.o.Explain != nil {
		told.Explanation, err = s.o.Explain(r.Context(), id)
	}
	switch {
	case told.Decision == nil && told.Explanation == nil && (err == nil || errors.Is(err, ErrForgotten)):
		writeProblem(w, http.StatusNotFound, fmt.Sprintf("%s: %v", id, ErrForgotten))
		return
	case err != nil:
		told.Without = err.Error()
	}
	writeJSON(w, http.StatusOK, told)
}
