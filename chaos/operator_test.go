//go:build unix

package chaos

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

// resolution is what the operator made of a record in doubt.
type resolution struct {
	entry    int // completed with its answer; 0: absent
	from, to int64
}

// mostResolved bounds how many records an operator looks at in one history.
const mostResolved = 150

// operate lets an operator resolve records in doubt as the ledger says: executed
// and with what answer, or not. Afterwards they are asked for again.
func (w *world) operate() {
	r := rand.New(rand.NewPCG(w.seed, 5))
	var resolved []record
	for _, rec := range w.records() {
		if len(resolved) == mostResolved || w.aborted.Load() {
			break
		}
		w.mu.Lock()
		ops := w.byRecord[rec]
		last := ops[len(ops)-1]
		w.mu.Unlock()
		if last.reason != "key_in_doubt" {
			continue
		}
		executed := w.origin.executionOf(rec)
		if executed != nil && (executed.fate.status < 200 || executed.fate.means == silenced) {
			continue // no answer to give
		}
		if w.resolve(w.anyGateway(r), rec, executed) {
			resolved = append(resolved, rec)
		}
	}
	w.askAgain(resolved)
}

// executionOf returns the entry that executed rec, nil if none did.
func (o *origin) executionOf(rec record) *entry {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.byRecord[rec] {
		if e.executed() {
			return e
		}
	}
	return nil
}

// entryFor returns the entry of a client's request, nil if it has not arrived.
func (o *origin) entryFor(op int) *entry {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.byOp[op]
}

// resolved reports whether the operator gave rec its answer.
func (w *world) resolved(rec record) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.operated[rec] != nil
}

func (w *world) resolve(at *gateway, rec record, executed *entry) bool {
	ask := map[string]any{"tenant": rec.tenant, "route": rec.route, "key": rec.key, "resolve": "absent"}
	res := &resolution{from: w.now()}
	if executed != nil {
		res.entry = executed.id
		ask["resolve"] = "completed"
		body := executed.answer(executed.fate)
		if len(body) > maxReplay {
			body = ""
		}
		ask["answer"] = map[string]any{"status": executed.fate.status, "body": body, "header": map[string]string{
			"ETag": executed.etag(), "Location": executed.location(), "Content-Type": answerType,
		}}
	}
	w.mu.Lock()
	w.operated[rec] = res
	w.mu.Unlock()
	text, _ := json.Marshal(ask)
	status, said, again := 0, "", false
	for deadline := time.Now().Add(operatorPatience); ; again = true {
		var err error
		if status, said, err = post(at, text); err != nil {
			w.violate("%s: an operator cannot resolve it: %v", rec, err)
			return false
		}
		// A store that is slow to answer says nothing of whether it has done it.
		if status != http.StatusServiceUnavailable || time.Now().After(deadline) {
			break
		}
	}
	res.to = w.now()
	done := status == http.StatusOK
	if again { // an earlier try may have been carried out unheard
		done = done || executed != nil && status == http.StatusConflict || executed == nil && status == http.StatusNotFound
	}
	if !done {
		w.violate("%s: an operator cannot resolve it: %d: %s", rec, status, said)
		return false
	}
	w.count(func(f *figures) { f.resolved++ })
	return true
}

// operatorPatience is how long an operator asks a gateway whose store does not
// answer.
const operatorPatience = 15 * time.Second

func post(at *gateway, text []byte) (status int, said string, err error) {
	got, err := http.Post("http://"+at.now.Load().admin+"/records", "application/json", bytes.NewReader(text))
	if err != nil {
		return 0, "", err
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	return got.StatusCode, string(body), err
}
