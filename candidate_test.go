package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// toldOfCandidate is what /status says of a candidate.
type toldOfCandidate struct {
	Candidate *struct {
		Path, Hash  string
		LoadError   string `json:"load_error"`
		Off         bool
		Asked, Same uint64
		Different   uint64
		Changes     []struct {
			Route, Class, Live, Candidate, Reason string
			Count                                 uint64
		}
	}
	Totals struct{ Received uint64 }
}

// exchangeRaw sends requests one after the other on one connection and returns
// the answers as they came, without what is drawn anew for each request.
func exchangeRaw(t *testing.T, addr string, requests []string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	var seen bytes.Buffer
	in := bufio.NewReader(io.TeeReader(conn, &seen))
	for _, r := range requests {
		if _, err := io.WriteString(conn, r); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("%v after %q", err, seen.String())
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatal(err)
		}
	}
	return drawn.ReplaceAllString(seen.String(), "$1=…")
}

var drawn = regexp.MustCompile(`(X-Request-Id|Retry-After|Date|request_id"|;t)[:=] ?"?[^\r\n",}]*"?`)

// A candidate is asked about every request and changes no answer: clients see the
// same bytes with and without it. Metrics, status and decision log tell what would
// change. A wrong file leaves the one before.
func TestCandidateBesideThePolicyInForce(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Queue", "age=3, depth=10")
		w.Header()["Date"] = nil
		fmt.Fprintf(w, "%s for %q", r.URL, r.Header.Get("Sluice-Class"))
	}))
	t.Cleanup(origin.Close)
	dir := t.TempDir()
	logFile := filepath.Join(dir, "decisions.ndjson")
	live := configFor(origin.URL, "decision_log: {output: "+logFile+"}\n")
	candidate := strings.NewReplacer("burst: 2", "burst: 1", "class: standard}]", "class: critical, queue: orders}]").Replace(configFor(origin.URL,
		"queues: {orders: {max_useful_age: 60s, signal: {push: {header: X-Queue}}}}\nunmatched: refuse\n"))
	file := filepath.Join(dir, "next.yaml")
	write(t, file, candidate)

	var requests []string
	const tenants = 5
	for i := range tenants {
		for range 3 { // in force: two in, one refused; the candidate lets one in
			requests = append(requests, fmt.Sprintf("POST /publish HTTP/1.1\r\nHost: api\r\nX-Tenant-Id: t%d\r\nContent-Length: 2\r\n\r\n{}", i))
		}
	}
	requests = append(requests, "GET /elsewhere HTTP/1.1\r\nHost: api\r\n\r\n", "GET /publish%2F..%2Fx HTTP/1.1\r\nHost: api\r\n\r\n")

	alone, _ := start(t, strings.Replace(live, logFile, filepath.Join(dir, "alone.ndjson"), 1))
	p, liveFile := start(t, live, "--candidate", file)
	if want, got := exchangeRaw(t, alone.client, requests), exchangeRaw(t, p.client, requests); got != want {
		t.Errorf("with a candidate, clients see\n%s\nand without\n%s", got, want)
	} else if !strings.Contains(got, "X-Queue: age=3, depth=10") {
		t.Errorf("a field that only the candidate listens to does not get through:\n%s", got)
	}

	var status toldOfCandidate
	count := func(live, candidate, reason string) (n uint64) {
		for _, c := range status.Candidate.Changes {
			if c.Live == live && c.Candidate == candidate && c.Reason == reason {
				n += c.Count
			}
		}
		return n
	}
	getJSON(t, "http://"+p.admin+"/status", &status)
	c := status.Candidate
	if c == nil {
		t.Fatal("/status tells of no candidate")
	}
	if c.Asked != uint64(len(requests)) || c.Asked != status.Totals.Received || c.Same+c.Different != c.Asked {
		t.Errorf("asked %d times of %d, %d the same, %d different", c.Asked, len(requests), c.Same, c.Different)
	}
	if n := count("admit", "refuse", "tenant_limit"); n != tenants {
		t.Errorf("%d would be refused for tenant_limit, want %d: %+v", n, tenants, c.Changes)
	}
	if n := count("admit", "refuse", "no_route"); n == 0 {
		t.Errorf("none would be refused for no_route: %+v", c.Changes)
	}
	if metrics := get(t, "http://"+p.admin+"/metrics"); !strings.Contains(metrics,
		`sluice_candidate_decisions_total{candidate="refuse",class="standard",differs="yes",live="admit",reason="tenant_limit",route="publish"} `+fmt.Sprint(tenants)) {
		t.Errorf("the metrics do not tell of the difference:\n%s", regexp.MustCompile(`(?m)^sluice_candidate.*$`).FindAllString(metrics, -1))
	}
	p.until("an example is logged", func() bool {
		data, _ := os.ReadFile(logFile)
		return bytes.Contains(data, []byte(`"candidate":{"verdict":"refuse","reason":"tenant_limit","class":"critical","route":"publish"}`))
	})

	reloads := func() int { return strings.Count(p.log.String(), "msg=reloaded") }
	before, hash := reloads(), c.Hash
	write(t, file, candidate+"nonsense: true\n")
	p.until("the wrong candidate is reported", func() bool {
		return strings.Contains(p.log.String(), "the new candidate is wrong") && reloads() > before
	})
	status = toldOfCandidate{}
	getJSON(t, "http://"+p.admin+"/status", &status)
	if c = status.Candidate; c.Hash != hash || !strings.Contains(c.LoadError, "nonsense") || !strings.Contains(c.LoadError, "next.yaml:") || c.Asked != uint64(len(requests)) {
		t.Errorf("after a wrong file: %+v, want the one before, %s", c, hash)
	}

	// Mended, and the same as the policy in force: it begins to be counted anew, and
	// there is no difference.
	before = reloads()
	write(t, file, live)
	p.until("the candidate is reloaded", func() bool { return reloads() > before })
	exchangeRaw(t, p.client, requests)
	status = toldOfCandidate{}
	getJSON(t, "http://"+p.admin+"/status", &status)
	if c = status.Candidate; c.Hash == hash || c.LoadError != "" || c.Asked != uint64(len(requests)) || c.Different > uint64(tenants) {
		t.Errorf("after it was mended: %+v", c)
	}

	// A wrong file of the policy in force changes nothing of either.
	write(t, liveFile, "nonsense: true\n")
	p.until("the wrong file is reported", func() bool { return strings.Contains(p.log.String(), "the new configuration is not in force") })
	hash = c.Hash
	getJSON(t, "http://"+p.admin+"/status", &status)
	if status.Candidate.Hash != hash {
		t.Errorf("the candidate is %s, was %s", status.Candidate.Hash, hash)
	}
}

// A candidate that is wrong is an error at the start, with the same words as of a
// configuration.
func TestWrongCandidateRefusesStart(t *testing.T) {
	origin, _ := countingOrigin(t)
	dir := t.TempDir()
	file, candidate := filepath.Join(dir, "live.yaml"), filepath.Join(dir, "next.yaml")
	write(t, file, configFor(origin.URL, ""))
	write(t, candidate, "version: 1\norigin: {url: http://127.0.0.1:1}\nrouts: []\n")
	out, err := exec.Command(program, "run", "--config", file, "--candidate", candidate).CombinedOutput()
	if code := exitCode(err); code != exitFindings || !strings.Contains(string(out), "next.yaml:3:1: routs") || !strings.Contains(string(out), "routes") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func exitCode(err error) int {
	if exit, ok := err.(*exec.ExitError); ok {
		return exit.ExitCode()
	}
	return 0
}
