package main

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/testredis"
)

// secrets are texts that nobody may ever see again, by what they are.
type secrets map[string]string

func (s secrets) plant(what string) string {
	s[what] = "planted" + strings.ToLower(rand.Text())
	return s[what]
}

// sweep looks for every secret in a text, as it is and as it may be encoded.
func (s secrets) sweep(t *testing.T, where, text string) {
	t.Helper()
	for what, secret := range s {
		for how, form := range map[string]string{
			"": secret, " in base64": base64.StdEncoding.EncodeToString([]byte(secret))[:24],
			" in hex": hex.EncodeToString([]byte(secret)), " as a password": url.UserPassword("x", secret).String(),
		} {
			if at := strings.Index(text, form); at >= 0 {
				t.Errorf("%s shows %s%s:\n%.300s", where, what, how, text[max(0, at-100):])
			}
		}
	}
}

// No secret is shown on any page, in any metric, in the stream, in the log or in
// the decision log: of the configuration, of its broken successor, of requests.
func TestNothingShowsASecret(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", r.Header.Get("Cookie"))
		fmt.Fprint(w, "ok")
	}))
	defer origin.Close()
	s := secrets{}
	redis := testredis.Start(t)
	setPassword(t, redis.Addr, s.plant("the store's password"))
	wrong, key := s.plant("the signal's password"), s.plant("an API key")
	hash := sha256.Sum256([]byte(key))
	decisions := filepath.Join(t.TempDir(), "decisions.jsonl")
	t.Setenv("SLUICE_TEST_TOKEN", s.plant("the admin token"))
	text := fmt.Sprintf(`version: 1
listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0, token: "${env:SLUICE_TEST_TOKEN}", write: true, pprof: true}
origin: {url: %s}
store: {redis: {url: "redis://:%s@%s/0"}, secrets: [%q]}
tenants: {from: [{api_key: {}}], missing: reject, limit: {rate: 1/s, burst: 4}, api_keys: [{sha256: %x, tenant: acme}]}
queues: {work: {max_useful_age: 60s, signal: {every: 100ms, redis_stream: {url: "redis://:%s@%s/0", stream: work, group: g}}}}
routes:
  - {id: order, match: {method: POST, path: /orders}, class: standard, queue: work, idempotency: {key: required}}
log: {level: debug}
decision_log: {output: %s, admits_per_second: 100}
reload: {watch: 0s}
shutdown: {drain: 0s}
`, origin.URL, s["the store's password"], redis.Addr, s.plant("the store's secret"), hash, wrong, redis.Addr, decisions)
	p, file := start(t, text)

	ask := func(method, path, token string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+p.admin+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, fmt.Sprint(res.Header) + string(body)
	}
	token := s["the admin token"]

	// Requests of all kinds, each full of what is nobody's business.
	var ids []string
	idempotencyKey, body := s.plant("an idempotency key"), s.plant("a body")
	for n := range 8 {
		req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://"+p.client+"/orders?q="+s.plant("a query"), strings.NewReader(body))
		req.Header.Set("X-Api-Key", key)
		if n == 5 {
			req.Header.Set("X-Api-Key", s.plant("an API key that is wrong"))
		}
		req.Header.Set("Idempotency-Key", idempotencyKey)
		if n == 1 {
			req.Body = io.NopCloser(strings.NewReader(s.plant("another body"))) // key_reused
		} else if n > 1 {
			req.Header.Set("Idempotency-Key", fmt.Sprint(s.plant("an idempotency key more"), n))
		}
		req.Header.Set("Cookie", "session="+s.plant("a cookie"))
		req.Header.Set("Authorization", "Bearer "+s.plant("a bearer token"))
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode >= 300 {
			s.sweep(t, fmt.Sprintf("the refusal %d", res.StatusCode), string(answer))
		}
		ids = append(ids, res.Header.Get("X-Request-Id"))
	}
	p.until("the decisions are remembered", func() bool {
		_, state := ask("GET", "/api/v1/state", token)
		return strings.Contains(state, ids[len(ids)-1])
	})
	write(t, file, strings.Replace(text, "max_useful_age: 60s", "max_useful_age: soon", 1))

	paths := []string{"/", "/assets/app.js", "/livez", "/readyz", "/status", "/metrics", "/api/v1/state", "/drain", "/config", "/nothing",
		"/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=2", "/records?tenant=acme&route=order&key=k", "/explain?id=unknown"}
	for _, id := range ids {
		paths = append(paths, "/explain?id="+id)
	}
	for _, path := range paths {
		for _, with := range []string{token, "", "wrong"} {
			status, answer := ask("GET", path, with)
			if open := path == "/livez" || path == "/readyz"; with != token && !open && status != 401 {
				t.Errorf("GET %s with the token %q: %d, want 401", path, with, status)
			}
			s.sweep(t, "GET "+path, answer)
		}
	}
	status, answer := ask("POST", "/reload", token)
	if status != 422 {
		t.Errorf("reloading a wrong file: %d, want 422", status)
	}
	s.sweep(t, "POST /reload", answer)
	_, answer = ask("GET", "/records?tenant=acme&route=order&key="+idempotencyKey, token)
	s.sweep(t, "GET /records of a key", answer)

	s.sweep(t, "the stream", streamed(t, p.admin, token, 3))
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-p.done
	logged, err := os.ReadFile(decisions)
	if err != nil || len(logged) == 0 {
		t.Errorf("the decision log: %v, %d bytes", err, len(logged))
	}
	s.sweep(t, "the decision log", string(logged))
	s.sweep(t, "the log", p.log.String())
	if !strings.Contains(p.log.String(), "level=DEBUG") && !strings.Contains(p.log.String(), "level=WARN") && !strings.Contains(p.log.String(), "level=ERROR") {
		t.Error("the log says so little that this test proves little")
	}
	if len(s) < 12 {
		t.Errorf("only %d secrets were planted", len(s))
	}
}

// setPassword has a Redis server want a password from now on.
func setPassword(t *testing.T, addr, password string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "CONFIG SET requirepass %s\r\n", password)
	if answer, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.HasPrefix(answer, "+OK") {
		t.Fatalf("setting a password: %q, %v", answer, err)
	}
}

// streamed reads the live stream until it has told so many ticks.
func streamed(t *testing.T, admin, token string, ticks int) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+admin+"/api/v1/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var all strings.Builder
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 16<<20)
	for begun := time.Now(); ticks > 0 && lines.Scan(); {
		all.WriteString(lines.Text())
		if lines.Text() == "event: tick" {
			ticks--
		}
		if time.Since(begun) > 30*time.Second {
			t.Fatal("the stream does not tick")
		}
	}
	return all.String()
}
