package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
)

// Records lets an operator look at the record of an idempotency key, and say
// what came of a request whose outcome is unknown.
type Records interface {
	// Find returns what is known of a record, to be shown as JSON.
	Find(ctx context.Context, k RecordKey) (any, error)

	// Resolve makes a record in doubt completed or absent, and writes an audit
	// line. It returns what changed.
	Resolve(ctx context.Context, k RecordKey, to RecordResolution) (any, error)
}

// RecordKey names a record as people know it.
type RecordKey struct {
	Tenant string `json:"tenant"`
	Route  string `json:"route"` // id
	Key    string `json:"key"`   // as the client sent it, with or without quotes
}

// RecordResolution says what an operator has found out about a request.
type RecordResolution struct {
	// Resolve is "completed" where the request took effect, and "absent" where
	// it did not, which frees the key.
	Resolve string `json:"resolve"`
	// Answer is what repetitions get of a completed request.
	Answer *RecordAnswer `json:"answer"`
}

// RecordAnswer is an answer to be replayed.
type RecordAnswer struct {
	Status int               `json:"status"`
	Header map[string]string `json:"header"`
	Body   string            `json:"body"`
}

// RecordError is a failure to find or resolve a record, with the status that it
// is answered with.
type RecordError struct {
	Status int
	Text   string
}

func (e RecordError) Error() string { return e.Text }

// records serves GET /records?tenant=…&route=…&key=… and POST /records.
func (s *Server) records(w http.ResponseWriter, r *http.Request) {
	var found any
	var err error
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		q := r.URL.Query()
		k := RecordKey{Tenant: q.Get("tenant"), Route: q.Get("route"), Key: q.Get("key")}
		if err = k.check(); err == nil {
			found, err = s.o.Records.Find(r.Context(), k)
		}
	case http.MethodPost:
		s.changing(s.resolveRecord)(w, r)
		return
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		writeProblem(w, http.StatusMethodNotAllowed, "/records takes GET, HEAD and POST.")
		return
	}
	answerRecord(w, found, err)
}

// resolveRecord serves POST /records.
func (s *Server) resolveRecord(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		RecordKey
		RecordResolution
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
	d.DisallowUnknownFields()
	err := d.Decode(&ask)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("more than one JSON value")
		}
	}
	if err != nil {
		answerRecord(w, nil, RecordError{http.StatusBadRequest, `The body is not what is wanted: {"tenant": …, "route": …, "key": …, "resolve": "absent" or "completed", "answer": {"status": …, "header": {…}, "body": …}}: ` + err.Error()})
		return
	}
	var changed any
	if err = ask.check(); err == nil {
		changed, err = s.o.Records.Resolve(r.Context(), ask.RecordKey, ask.RecordResolution)
	}
	answerRecord(w, changed, err)
}

func answerRecord(w http.ResponseWriter, v any, err error) {
	if err == nil {
		writeJSON(w, http.StatusOK, v)
		return
	}
	status := http.StatusServiceUnavailable
	if known, ok := errors.AsType[RecordError](err); ok {
		status = known.Status
	}
	writeProblem(w, status, err.Error())
}

func (k RecordKey) check() error {
	if k.Tenant == "" || k.Route == "" || k.Key == "" {
		return RecordError{http.StatusBadRequest, "Name the record by tenant, route (its id) and key."}
	}
	return nil
}
