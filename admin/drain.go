package admin

import "net/http"

// DrainReport says how far a drain has come.
type DrainReport struct {
	Draining bool   `json:"draining"`
	Refusing bool   `json:"refusing"`  // what comes
	InFlight uint64 `json:"in_flight"` // requests that still run
}

// drain serves POST /drain, which begins a drain, DELETE /drain, which ends it,
// and GET /drain.
func (s *Server) drain(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		s.drained(w, r)
	case http.MethodPost, http.MethodDelete:
		s.changing(func(w http.ResponseWriter, r *http.Request) {
			if err := s.o.Gateway.Drain(r.Method == http.MethodPost); err != nil {
				writeProblem(w, http.StatusConflict, err.Error())
				return
			}
			s.drained(w, r)
		})(w, r)
	default:
		w.Header().Set("Allow", "GET, HEAD, POST, DELETE")
		writeProblem(w, http.StatusMethodNotAllowed, "/drain takes GET, HEAD, POST to begin and DELETE to end a drain.")
	}
}

func (s *Server) drained(w http.ResponseWriter, _ *http.Request) {
	st := s.Status()
	writeJSON(w, http.StatusOK, DrainReport{st.Draining, st.Refusing, st.Totals.InFlight})
}
