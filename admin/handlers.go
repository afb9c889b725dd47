package admin

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// routes lists what the listener serves.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	serve := func(method, path string, h http.HandlerFunc) {
		mux.HandleFunc(method+" "+path, h)
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			allow := method
			if method == http.MethodGet {
				allow = "GET, HEAD"
			}
			w.Header().Set("Allow", allow)
			writeProblem(w, http.StatusMethodNotAllowed, fmt.Sprintf("%s takes %s.", r.URL.Path, allow))
		})
	}
	serve("GET", "/livez", s.livez)
	serve("GET", "/readyz", s.readyz)
	serve("GET", "/status", s.status)
	serve("GET", "/metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{
		ErrorLog:      slog.NewLogLogger(s.o.Logger.Handler(), slog.LevelError),
		ErrorHandling: promhttp.ContinueOnError,
		Registry:      s.registry,
	}).ServeHTTP)
	serve("GET", "/explain", s.explain)
	if s.o.Config != nil {
		serve("GET", "/config", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/yaml")
			w.Write(s.o.Config())
		})
	}
	serve("POST", "/reload", s.changing(s.reload))
	mux.HandleFunc("/drain", s.drain)
	if s.o.Signals != nil {
		serve("POST", "/signals/{name...}", s.changing(s.offerSignal))
	}
	if s.o.Records != nil {
		mux.HandleFunc("/records", s.records)
	}
	serve("GET", "/api/v1/stream", s.stream)
	serve("GET", "/api/v1/state", s.state)
	serve("GET", "/{$}", s.dashboard)
	serve("GET", "/assets/{name...}", s.asset)
	if s.o.Pprof {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/profile", unhurried(pprof.Profile))
		mux.HandleFunc("/debug/pprof/trace", unhurried(pprof.Trace))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, http.StatusNotFound, "Nothing is served here. See / for what is.")
	})
	return mux
}

// livez never checks what the gateway depends on: a restart would not bring
// that back.
func (s *Server) livez(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"status": "alive"})
}

func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	if err := s.o.Gateway.Ready(); err != nil {
		w.Header().Set("Retry-After", "1")
		writeProblem(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ready"})
}

func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, http.StatusOK, s.Status())
}

// Status is the whole status as of now.
func (s *Server) Status() Status { return s.statusAt(s.o.Metrics.take(time.Now())) }

func (s *Server) statusAt(now *sampled) Status {
	st := Status{GatewayStatus: s.o.Gateway.Status(), Now: now.at.UTC()}
	if err := s.o.Gateway.Ready(); err != nil {
		st.Ready = err.Error()
	}
	s.o.Live.fill(&st, now)
	for _, section := range s.o.Sections {
		if v := section.Value(); v != nil {
			if st.Sections == nil {
				st.Sections = make(map[string]any)
			}
			st.Sections[section.Name] = v
		}
	}
	return st
}

func (s *Server) reload(w http.ResponseWriter, r *http.Request) {
	report, err := s.o.Gateway.Reload(r.Context(), TriggerAdmin)
	if err != nil {
		problems := []string{err.Error()}
		if list, ok := errors.AsType[interface {
			error
			Problems() []string
		}](err); ok {
			problems = list.Problems()
		}
		writeProblem(w, http.StatusUnprocessableEntity,
			"The configuration was not loaded. The one that was running still is.", problems...)
		return
	}
	writeJSON(w, http.StatusOK, report)
}

// unhurried lets a profile run for as long as its caller asked.
func unhurried(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).SetWriteDeadline(time.Time{})
		h(w, r)
	}
}
