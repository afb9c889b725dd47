package signals

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/testservice"
)

func TestPrometheus(t *testing.T) {
	var page atomic.Value
	page.Store("queue_age_seconds{queue=\"orders\"} 12.5\nqueue_depth{queue=\"orders\",shard=\"a\"} 3\nqueue_depth{queue=\"orders\",shard=\"b\"} 4\nqueue_done_total 99\n")
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		text := page.Load().(string)
		if text == "" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		io.WriteString(w, text)
	}))
	defer target.Close()
	server := testservice.StartPrometheus(t, strings.TrimPrefix(target.URL, "http://"))

	r, err := NewPrometheus(PrometheusOptions{URL: server.URL, Age: `queue_age_seconds{queue="orders"}`, Depth: `sum(queue_depth)`, Done: `queue_done_total`})
	if err != nil {
		t.Fatal(err)
	}
	closing(t, r)
	s := readAgain(t, r) // once it has been scraped
	near(t, "age", s.Age, 12.5, 0)
	near(t, "depth", s.Depth, 7, 0)
	near(t, "done", s.Done, 99, 0)
	if d := time.Since(s.At); d < 0 || d > time.Minute {
		t.Errorf("sampled %v ago", d)
	}

	for query, want := range map[string]string{
		`no_such_metric`:      "0 series",
		`queue_depth`:         "2 series",
		`queue_age_seconds[]`: "status 400",
	} {
		bad, err := NewPrometheus(PrometheusOptions{URL: server.URL, Age: query, Timestamp: "time()"})
		if err != nil {
			t.Fatal(err)
		}
		if err := readError(t, bad); !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", query, err, want)
		}
		bad.Close()
	}

	// NaN is told, not hidden.
	page.Store("queue_age_seconds{queue=\"orders\"} NaN\nqueue_depth 1\nqueue_done_total 99\n")
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if v, _ := readAgain(t, r).Age.Get(); math.IsNaN(v) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the NaN was never told")
		}
	}

	// A target that is gone: the series ends, and so does the sample.
	page.Store("")
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if _, err := r.Read(t.Context()); err != nil && strings.Contains(err.Error(), "0 series") {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a dead target still gives samples")
		}
	}
	server.Kill()
	readError(t, r)
}

func TestPrometheusMustNotCallComputedFiguresFresh(t *testing.T) {
	for query, ok := range map[string]bool{
		`up`: true, ` a:b_c{x="y", z=~".+"} `: true, `max(up)`: false, `up or vector(0)`: false, `up + 1`: false, `avg_over_time(up[5m])`: false, `up[5m]`: false,
	} {
		_, err := NewPrometheus(PrometheusOptions{URL: "http://x", Depth: query})
		if (err == nil) != ok {
			t.Errorf("%s: error %v", query, err)
		}
		if _, err := NewPrometheus(PrometheusOptions{URL: "http://x", Depth: query, Timestamp: "min(timestamp(up))"}); err != nil {
			t.Errorf("%s with Timestamp: %v", query, err)
		}
	}
	if _, err := NewPrometheus(PrometheusOptions{URL: "http://x"}); err == nil {
		t.Error("no error without a query")
	}
	if _, err := NewPrometheus(PrometheusOptions{URL: "x", Age: "up"}); err == nil {
		t.Error("no error without a URL")
	}
}

func ExamplePrometheus() {
	_, err := NewPrometheus(PrometheusOptions{URL: "http://127.0.0.1:9090", Age: "max(queue_age_seconds)", Timestamp: "min(timestamp(queue_age_seconds))"})
	fmt.Println(err)
	// Output: <nil>
}
