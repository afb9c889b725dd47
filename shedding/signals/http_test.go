package signals

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sluice/shedding"
)

// jsonServer answers with what body holds at the time.
func jsonServer(t *testing.T, status *int, body *string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer x" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(*status)
		io.WriteString(w, *body)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestHTTP(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 250e6, time.UTC)
	for _, c := range []struct {
		body             string
		age, depth, done any // float64, nil: not known
		err              string
	}{
		{body: `{"q": {"age": 1500, "n": [7], "done": 99, "at": "2026-05-01T12:00:00.25Z"}}`, age: 1.5, depth: 7.0, done: 99.0},
		{body: `{"q": {"age": "1500", "at": 1777636800250}}`, age: 1.5},
		{body: `{"q": {"age": null, "n": [3], "at": 1777636800250}}`, depth: 3.0},
		{body: `{"q": {"age": "NaN", "at": 1777636800250}}`, age: math.NaN()},
		{body: `{"q": {"age": -8000, "at": 1777636800250}}`, age: -8.0},
		{body: `{"q": {"age": null, "n": [], "done": 5, "at": 1}}`, err: "neither age nor depth"},
		{body: `{}`, err: "neither age nor depth"},
		{body: `{"q": {"age": 1}}`, err: "no time of the sample"},
		{body: `{"q": {"age": 1, "at": null}}`, err: "no time of the sample"},
		{body: `{"q": {"age": 1, "at": "yesterday"}}`, err: "no number"},
		{body: `{"q": {"age": true, "at": 1}}`, err: "no number"},
		{body: `{"q": {"age": "old", "at": 1}}`, err: "no number"},
		{body: `oops`, err: "no JSON"},
		{body: ``, err: "no JSON"},
		{body: strings.Repeat(" ", maxBody+1), err: "larger"},
	} {
		status, body := 200, c.body
		server := jsonServer(t, &status, &body)
		r, err := NewHTTP(HTTPOptions{
			URL: server.URL, Header: map[string]string{"Authorization": "Bearer x"},
			Age: "/q/age", Depth: "/q/n/0", Done: "/q/done", SampledAt: "/q/at", Unit: "ms",
		})
		if err != nil {
			t.Fatal(err)
		}
		closing(t, r)
		if c.err != "" {
			if err := readError(t, r); !strings.Contains(err.Error(), c.err) {
				t.Errorf("%.60s: error %v, want one with %q", c.body, err, c.err)
			}
			continue
		}
		s := readOnce(t, r)
		for what, pair := range map[string][2]any{"age": {s.Age, c.age}, "depth": {s.Depth, c.depth}, "done": {s.Done, c.done}} {
			got := pair[0].(shedding.Value)
			if pair[1] == nil {
				unknown(t, what, got)
			} else if want := pair[1].(float64); math.IsNaN(want) {
				if f, known := got.Get(); !known || !math.IsNaN(f) {
					t.Errorf("%s is %v, want NaN to be told", what, got)
				}
			} else {
				near(t, what, got, want, 1e-9)
			}
		}
		if !s.At.Equal(at) {
			t.Errorf("%s: sampled at %v, want %v", c.body, s.At, at)
		}
		status = 500
		if err := readError(t, r); !strings.Contains(err.Error(), "500") {
			t.Errorf("status 500 gives error %v", err)
		}
	}
}

func TestHTTPServerThatHangs(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		<-release
	}))
	defer server.Close()
	defer close(release)
	r, err := NewHTTP(HTTPOptions{URL: server.URL, Age: "/a"})
	if err != nil {
		t.Fatal(err)
	}
	closing(t, r)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := r.Read(ctx); err == nil {
		t.Error("no error from a server that hangs")
	}
}

func TestHTTPErrorsHideThePassword(t *testing.T) {
	r, err := NewHTTP(HTTPOptions{URL: "http://u:hunter2@127.0.0.1:1/", Age: "/a"})
	if err != nil {
		t.Fatal(err)
	}
	closing(t, r)
	if err := readError(t, r); strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error tells the password: %v", err)
	}
	for name, o := range map[string]HTTPOptions{
		"scheme":  {URL: "ftp://u:hunter2@x", Age: "/a"},
		"unit":    {URL: "http://x", Age: "/a", Unit: "h"},
		"nothing": {URL: "http://x"},
		"pointer": {URL: "http://x", Age: "a"},
	} {
		if _, err := NewHTTP(o); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}

func TestJSONPointers(t *testing.T) {
	doc := map[string]any{"a/b": 1.0, "m~n": 2.0, "": 3.0, "l": []any{4.0, map[string]any{"x": 5.0}}}
	for pointer, want := range map[string]any{
		"/a~1b": 1.0, "/m~0n": 2.0, "/": 3.0, "/l/0": 4.0, "/l/1/x": 5.0,
		"/l/2": nil, "/l/-1": nil, "/l/x": nil, "/none": nil, "/a~1b/deeper": nil,
	} {
		if got := pointed(doc, pointer); got != want {
			t.Errorf("%s leads to %v, want %v", pointer, got, want)
		}
	}
}

func ExampleHTTP() {
	r, err := NewHTTP(HTTPOptions{URL: "http://127.0.0.1:3000/queue", Age: "/oldest_seconds", Depth: "/waiting"})
	fmt.Println(r != nil, err)
	// Output: true <nil>
}
