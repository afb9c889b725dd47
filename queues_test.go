package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const queueConfig = `
classes: [{name: critical}, {name: bulk}]
queues:
  work:
    max_useful_age: 100s
    signal: {every: 100ms, push: {header: Queue-Signal}}
    shed:
      bulk: {from: 20s, full: 40s, action: defer}
routes:
  - {id: order, match: {method: POST, path: /orders}, class: critical, queue: work}
  - {id: campaign, match: {method: POST, path: /campaigns}, class: bulk, queue: work}
`

func queueGateway(t *testing.T, origin, rest string) *process {
	p, _ := start(t, "version: 1\nlisten: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0, write: true}\norigin: {url: "+origin+"}\n"+
		"reload: {watch: 0s}\nshutdown: {drain: 0s}\n"+rest)
	return p
}

func post(t *testing.T, url, body string) (int, http.Header, string) {
	t.Helper()
	res, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, res.Header, string(text)
}

// Properties 3 and 6: with the queue old, the less important class is refused
// and told when to come back, the more important one flows, and nothing of what
// is refused reaches the origin. The queue's state comes with the origin's
// answers, and does not reach clients.
func TestQueueSheds(t *testing.T) {
	var age, recorded, bulk atomic.Int64
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := recorded.Add(1)
		if r.URL.Path == "/campaigns" {
			bulk.Add(1)
		}
		w.Header().Set("Queue-Signal", fmt.Sprintf("age=%d, depth=%d, done=%d", age.Load(), 10*age.Load(), n))
		w.WriteHeader(202)
	}))
	defer origin.Close()
	p := queueGateway(t, origin.URL, queueConfig)
	p.until("the queue is young and all is admitted", func() bool {
		order, header, _ := post(t, "http://"+p.client+"/orders", "{}")
		campaign, _, _ := post(t, "http://"+p.client+"/campaigns", "{}")
		if header.Get("Queue-Signal") != "" {
			t.Fatal("the signal reaches clients")
		}
		return order == 202 && campaign == 202
	})
	age.Store(60)
	var header http.Header
	var body string
	p.until("campaigns are deferred", func() bool {
		if order, _, _ := post(t, "http://"+p.client+"/orders", "{}"); order != 202 {
			t.Fatalf("an order got %d", order)
		}
		var status int
		status, header, body = post(t, "http://"+p.client+"/campaigns", "{}")
		return status == 503
	})
	after, err := strconv.Atoi(header.Get("Retry-After"))
	if err != nil || after < 1 || !strings.Contains(body, `"reason":"deferred"`) || !strings.Contains(body, `"expected_at":"`) ||
		header.Get("Sluice-Ticket") == "" || header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("refusal: %v\n%s", header, body)
	}
	said := regexp.MustCompile(`"(request_id|expected_at)":"[^"]*"`).ReplaceAllString(body, "")
	if strings.Contains(said, "bulk") || strings.Contains(said, "60") {
		t.Errorf("the refusal tells of classes or capacity: %s", body)
	}
	p.until("the log tells of it", func() bool { return strings.Contains(p.log.String(), "class=bulk") })
	before := bulk.Load()
	refused := 0
	for range 50 {
		if status, _, _ := post(t, "http://"+p.client+"/campaigns", "{}"); status == 503 {
			refused++
		}
	}
	if reached := bulk.Load() - before; reached != int64(50-refused) || refused < 40 {
		t.Errorf("of 50 campaigns %d were refused and %d reached the origin", refused, reached)
	}
	var status struct {
		Sections struct {
			Queues map[string]struct {
				Wait  float64            `json:"wait_seconds"`
				Share map[string]float64 `json:"share_admitted"`
			} `json:"queues"`
		} `json:"sections"`
	}
	getJSON(t, "http://"+p.admin+"/status", &status)
	if q := status.Sections.Queues["work"]; q.Wait < 30 || q.Share["critical"] != 1 || q.Share["bulk"] > 0.1 {
		t.Errorf("/status: %+v", q)
	}
}

// Readings can be posted to the admin listener, and bad ones are refused with
// what would be right. Property 9: a signal that was never heard is not zero.
func TestPostedSignal(t *testing.T) {
	origin, _ := countingOrigin(t)
	config := strings.Replace(queueConfig, "push: {header: Queue-Signal}", "on_loss: closed, push: {}", 1)
	p := queueGateway(t, origin.URL, config)
	p.until("the silent signal is lost, and refuses", func() bool {
		status, _, body := post(t, "http://"+p.client+"/campaigns", "{}")
		return status == 503 && strings.Contains(body, `"reason":"signal_lost"`)
	})
	for path, want := range map[string]struct {
		body   string
		status int
	}{
		"/signals/work":      {`{"age": "old"}`, 400},
		"/signals/work/push": {`{"age": 1, "depth": -`, 400},
		"/signals/fax":       {`{"age": 1}`, 404},
	} {
		if got, _, text := post(t, "http://"+p.admin+path, want.body); got != want.status {
			t.Errorf("%s %s: %d %s", path, want.body, got, text)
		}
	}
	done := 0
	p.until("posted readings open the queue", func() bool {
		done++
		if got, _, text := post(t, "http://"+p.admin+"/signals/work", fmt.Sprintf(`{"age": 0, "depth": 0, "done": %d, "at": %d}`, done, time.Now().Unix())); got != 204 {
			t.Fatalf("%d %s", got, text)
		}
		status, _, _ := post(t, "http://"+p.client+"/campaigns", "{}")
		return status == 202
	})
}

// Places at the origin: as many requests as allowed are there at once, the next
// ones wait as long as their class may, and then get an honest 503.
func TestPlacesAtTheOrigin(t *testing.T) {
	var inside, most atomic.Int64
	release := make(chan struct{})
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := inside.Add(1); n > most.Load() {
			most.Store(n)
		}
		<-release
		inside.Add(-1)
	}))
	defer origin.Close()
	p := queueGateway(t, origin.URL, `
classes: [{name: critical, share: 60%, max_wait: 10s}, {name: bulk, share: 40%}]
routes:
  - {id: order, match: {method: POST, path: /orders}, class: critical, max_in_flight: 2}
  - {id: campaign, match: {method: POST, path: /campaigns}, class: bulk, max_in_flight: 1}
`)
	answers := make(chan string, 10)
	send := func(path string) {
		res, err := http.Post("http://"+p.client+path, "application/json", strings.NewReader("{}"))
		if err != nil {
			answers <- err.Error()
			return
		}
		res.Body.Close()
		answers <- res.Status
	}
	for range 4 {
		go send("/orders")
	}
	go send("/campaigns")
	p.until("the origin is as full as it may be", func() bool { return inside.Load() == 3 })
	status, header, body := post(t, "http://"+p.client+"/campaigns", "{}")
	if status != 503 || header.Get("Retry-After") == "" || !strings.Contains(body, `"reason":"origin_full"`) {
		t.Errorf("no place and no patience: %d %s", status, body)
	}
	close(release)
	for range 5 {
		if got := <-answers; got != "200 OK" {
			t.Errorf("one that had a place, or waited for it, got %s", got)
		}
	}
	if most.Load() > 3 {
		t.Errorf("%d were at the origin at once, 3 may be", most.Load())
	}
}
