package admin

import (
	"encoding/json"
	"net/http"
)

// problem is an error answer in the form of RFC 9457.
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Problems []string `json:"problems,omitempty"`
}

func writeProblem(w http.ResponseWriter, status int, detail string, problems ...string) {
	w.Header().Set("Content-Type", "application/problem+json")
	writeJSONBody(w, status, problem{"about:blank", http.StatusText(status), status, detail, problems})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	writeJSONBody(w, status, v)
}

func writeJSONBody(w http.ResponseWriter, status int, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		// Only what a section returned can fail to marshal.
		status = http.StatusInternalServerError
		body, _ = json.Marshal(problem{"about:blank", http.StatusText(status), status, err.Error(), nil})
		w.Header().Set("Content-Type", "application/problem+json")
	}
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
}
