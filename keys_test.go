package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/testredis"
)

// keyedOrigin executes publications, slowly if told so, and counts them by key.
type keyedOrigin struct {
	*httptest.Server
	mu       sync.Mutex
	executed map[string]int
	attempts []string
	stall    chan struct{} // requests to /publish/slow wait for it
	entered  chan struct{}
}

func startKeyedOrigin(t *testing.T) *keyedOrigin {
	o := &keyedOrigin{executed: map[string]int{}, stall: make(chan struct{}), entered: make(chan struct{}, 100)}
	var n atomic.Int64
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		o.mu.Lock()
		o.executed[r.Header.Get("Idempotency-Key")]++
		o.attempts = append(o.attempts, r.Header.Get("Sluice-Attempt"))
		o.mu.Unlock()
		o.entered <- struct{}{}
		if strings.HasSuffix(r.URL.Path, "/slow") {
			select {
			case <-o.stall:
			case <-r.Context().Done():
			}
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Location", fmt.Sprint("/orders/", n.Add(1)))
		w.Header().Set("Set-Cookie", "session=secret")
		w.WriteHeader(201)
		fmt.Fprintf(w, `{"order":%d,"body":%q}`, n.Load(), body)
	}))
	t.Cleanup(func() {
		close(o.stall)
		o.Close()
	})
	return o
}

func (o *keyedOrigin) times(key string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.executed[key]
}

func keyedConfig(origin, store string) string {
	return "version: 1\nlisten: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0, write: true}\norigin: {url: " + origin + "}\n" +
		"reload: {watch: 20ms}\nshutdown: {drain: 0s}\ntenants: {from: [{header: X-Tenant-Id}]}\nclasses: [{name: standard}]\n" + store +
		`routes:
  - {id: pay, match: {method: POST, path: /publish}, class: standard, idempotency: {key: required}}
  - {id: slow, match: {method: POST, path: /publish/slow}, class: standard, timeout: 3s, idempotency: {key: required, wait: 0s}}
  - {id: open, match: {method: POST, path: /open}, class: standard, idempotency: {key: required, on_store_down: open}}
`
}

type keyedAnswer struct {
	status                int
	keyStatus, replayed   string
	location, cookie      string
	body, reason, retryIn string
}

func send(t *testing.T, addr, path, tenant, key, body string) keyedAnswer {
	t.Helper()
	req, _ := http.NewRequest(http.MethodPost, "http://"+addr+path, strings.NewReader(body))
	req.Header.Set("X-Tenant-Id", tenant)
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return keyedAnswer{body: err.Error()}
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	a := keyedAnswer{
		status: res.StatusCode, keyStatus: res.Header.Get("Idempotency-Status"), replayed: res.Header.Get("Idempotent-Replayed"),
		location: res.Header.Get("Location"), cookie: res.Header.Get("Set-Cookie"), body: string(text), retryIn: res.Header.Get("Retry-After"),
	}
	var problem struct{ Reason string }
	_ = json.Unmarshal(text, &problem)
	a.reason = problem.Reason
	return a
}

// Properties 1 and 2: one execution, and the first answer again, for the same
// request only.
func TestKeys(t *testing.T) {
	for _, kind := range []string{"memory", "redis"} {
		t.Run(kind, func(t *testing.T) {
			o, store := startKeyedOrigin(t), ""
			if kind == "redis" {
				store = "store: {redis: {url: redis://" + testredis.Start(t).Addr + "/0}}\n"
			}
			p, _ := start(t, keyedConfig(o.URL, store))

			first := send(t, p.client, "/publish", "acme", "k-1", `{"a":1}`)
			if first.status != 201 || first.keyStatus != "fresh" || first.replayed != "" || first.cookie == "" {
				t.Fatalf("first: %+v", first)
			}
			again := send(t, p.client, "/publish", "acme", `"k-1"`, `{"a":1}`)
			if again.status != 201 || again.keyStatus != "replayed" || again.replayed != "true" || again.body != first.body ||
				again.location != first.location || again.cookie != "" {
				t.Errorf("again: %+v", again)
			}
			if other := send(t, p.client, "/publish", "acme", "k-1", `{"a":2}`); other.status != 422 || other.reason != "key_reused" || other.keyStatus != "reused" {
				t.Errorf("another body: %+v", other)
			}
			if other := send(t, p.client, "/publish", "globex", "k-1", `{"a":1}`); other.status != 201 || other.keyStatus != "fresh" || other.body == first.body {
				t.Errorf("another tenant: %+v", other)
			}
			if none := send(t, p.client, "/publish", "acme", "", `{}`); none.status != 400 || none.reason != "key_missing" {
				t.Errorf("no key: %+v", none)
			}
			if bad := send(t, p.client, "/publish", "acme", "a,b", `{}`); bad.status != 400 || bad.reason != "key_invalid" {
				t.Errorf("bad key: %+v", bad)
			}
			if n := o.times("k-1"); n != 2 { // acme's and globex's
				t.Errorf("executed %d times", n)
			}

			var all sync.WaitGroup
			var bodies sync.Map
			for range 12 {
				all.Go(func() {
					a := send(t, p.client, "/publish", "acme", "k-2", `{"at":"once"}`)
					if a.status != 201 {
						t.Errorf("at once: %+v", a)
					}
					bodies.Store(a.body, true)
				})
			}
			all.Wait()
			distinct := 0
			bodies.Range(func(any, any) bool { distinct++; return true })
			if n := o.times("k-2"); n != 1 || distinct != 1 {
				t.Errorf("12 at once: executed %d times, %d different answers", n, distinct)
			}
		})
	}
}

// Property 1 across a crash: a request that was sent and whose gateway died is
// in doubt, is never sent again, and is resolved by an operator.
func TestKeyInDoubtAfterCrash(t *testing.T) {
	o := startKeyedOrigin(t)
	redis := testredis.Start(t)
	config := keyedConfig(o.URL, "store: {redis: {url: redis://"+redis.Addr+"/0}}\n")
	p, _ := start(t, config)
	go send(t, p.client, "/publish/slow", "acme", "k-crash", `{}`)
	<-o.entered
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.done

	q, _ := start(t, config)
	if a := send(t, q.client, "/publish/slow", "acme", "k-crash", `{}`); a.status != 409 || a.reason != "key_in_progress" || a.retryIn == "" {
		t.Errorf("before the lease is over: %+v", a)
	}
	var last keyedAnswer
	q.until("the lease is over", func() bool {
		last = send(t, q.client, "/publish/slow", "acme", "k-crash", `{}`)
		return last.reason != "key_in_progress"
	})
	if last.status != 409 || last.reason != "key_in_doubt" || last.keyStatus != "in_doubt" || last.retryIn != "" {
		t.Errorf("after the lease: %+v", last)
	}
	if n := o.times("k-crash"); n != 1 {
		t.Errorf("executed %d times", n)
	}
}

// Property 14: with Redis away each route does what its policy says, honestly
// marked, and recovers by itself.
func TestStoreAway(t *testing.T) {
	o := startKeyedOrigin(t)
	redis := testredis.Start(t)
	p, _ := start(t, keyedConfig(o.URL, "store: {redis: {url: redis://"+redis.Addr+"/0, timeout: 100ms}}\n"))
	if a := send(t, p.client, "/publish", "acme", "k-a", `{}`); a.status != 201 {
		t.Fatalf("with Redis: %+v", a)
	}
	redis.Kill()
	if a := send(t, p.client, "/publish", "acme", "k-b", `{}`); a.status != 503 || a.reason != "store_unavailable" || a.retryIn == "" {
		t.Errorf("closed: %+v", a)
	}
	if a := send(t, p.client, "/publish", "acme", "k-a", `{}`); a.status != 201 || a.keyStatus != "replayed" {
		t.Errorf("an answer at hand is replayed all the same: %+v", a)
	}
	if a := send(t, p.client, "/open", "acme", "k-c", `{}`); a.status != 201 || a.keyStatus != "bypassed" {
		t.Errorf("open: %+v", a)
	}
	if n := o.times("k-b"); n != 0 {
		t.Errorf("a refused request was executed %d times", n)
	}
	p.until("the log says that the store is away", func() bool {
		send(t, p.client, "/publish", "acme", "k-b", `{}`)
		return strings.Contains(p.log.String(), "records cannot be asked")
	})
	redis.Restart()
	deadline := time.Now().Add(10 * time.Second)
	for {
		a := send(t, p.client, "/publish", "acme", "k-b", `{}`)
		if a.status == 201 && a.keyStatus == "fresh" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after Redis is back: %+v", a)
		}
	}
	p.until("the log says that the store is back", func() bool {
		send(t, p.client, "/publish", "acme", "k-d", `{}`)
		return strings.Contains(p.log.String(), "records is back")
	})
}
