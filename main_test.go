package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/internal/testbuffer"
)

// The tests here run the real program, built once, and talk to it over real
// sockets.
var program string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "sluice")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "sluice")
		build := exec.Command("go", "build", "-o", program, ".")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// process is a running sluice.
type process struct {
	t             *testing.T
	cmd           *exec.Cmd
	client, admin string // addresses
	log           *testbuffer.Buffer
	done          chan struct{} // closed once it has ended
	patience      time.Duration // of until; 0: 15 s
	err           error
}

var serving = regexp.MustCompile(`msg="sluice is serving".* listen=(\S+) admin=(\S+)`)

// start runs sluice with the given configuration, on free ports, and waits
// until it serves. flags are added to its command line.
func start(t *testing.T, config string, flags ...string) (*process, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	write(t, file, config)
	p := &process{t: t, cmd: exec.Command(program, append([]string{"run", "--config", file}, flags...)...), log: &testbuffer.Buffer{}, done: make(chan struct{})}
	p.cmd.Stderr = p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("log of sluice:\n%s", p.log)
		}
	})
	p.until("it serves", func() bool {
		m := serving.FindStringSubmatch(p.log.String())
		if m != nil {
			p.client, p.admin = m[1], m[2]
		}
		return m != nil
	})
	return p, file
}

// until waits for a condition, and fails the test if it does not come true.
func (p *process) until(what string, ok func() bool) {
	p.t.Helper()
	patience := p.patience
	if patience == 0 {
		patience = 15 * time.Second
	}
	deadline := time.Now().Add(patience)
	for !ok() {
		select {
		case <-p.done:
			p.t.Fatalf("sluice ended while waiting until %s: %v\n%s", what, p.err, p.log)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("waited too long until %s\n%s", what, p.log)
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func configFor(origin string, rest string) string {
	return "version: 1\nlisten: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\norigin: {url: " + origin + "}\n" +
		"reload: {watch: 20ms}\nshutdown: {drain: 100ms, timeout: 10s}\n" +
		"tenants: {from: [{header: X-Tenant-Id}], limit: {rate: 1/s, burst: 2}}\n" +
		"classes: [{name: critical}, {name: standard}]\n" +
		"routes: [{id: publish, match: {method: POST, path: /publish}, class: standard}]\n" + rest
}

// countingOrigin counts the publications that reach it.
func countingOrigin(t *testing.T) (*httptest.Server, *atomic.Int64) {
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_, _ = io.Copy(io.Discard, r.Body)
			n.Add(1)
			w.WriteHeader(http.StatusAccepted)
			return
		}
		fmt.Fprintf(w, "you asked for %s", r.URL)
	}))
	t.Cleanup(s.Close)
	return s, &n
}

func publish(t *testing.T, addr, tenant string) *http.Response {
	t.Helper()
	req, _ := http.NewRequest(http.MethodPost, "http://"+addr+"/publish", strings.NewReader("{}"))
	req.Header.Set("X-Tenant-Id", tenant)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// Property 5: a client that waits as long as Retry-After says gets in.
func TestRefusalAndTrueRetryAfter(t *testing.T) {
	origin, recorded := countingOrigin(t)
	p, _ := start(t, configFor(origin.URL, ""))
	for i := range 2 {
		if res := publish(t, p.client, "acme"); res.StatusCode != 202 {
			t.Fatalf("request %d: %s", i, res.Status)
		}
	}
	res := publish(t, p.client, "acme")
	if res.StatusCode != 429 || res.Header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("got %s, %s", res.Status, res.Header.Get("Content-Type"))
	}
	var problem struct {
		Type, Title, Detail, Reason string
		Status                      int
		RequestID                   string `json:"request_id"`
	}
	if err := json.NewDecoder(res.Body).Decode(&problem); err != nil {
		t.Fatal(err)
	}
	if problem.Reason != "tenant_limit" || problem.Status != 429 || problem.RequestID == "" || problem.RequestID != res.Header.Get("X-Request-Id") ||
		problem.Type != "https://iana.org/assignments/http-problem-types#quota-exceeded" {
		t.Errorf("problem: %+v", problem)
	}
	if got := res.Header.Get("RateLimit-Policy"); got != `"tenant";q=2;w=2` {
		t.Errorf("RateLimit-Policy: %s", got)
	}
	after, err := strconv.Atoi(res.Header.Get("Retry-After"))
	if err != nil || after < 1 || after > 5 {
		t.Fatalf("Retry-After: %q", res.Header.Get("Retry-After"))
	}
	if res := publish(t, p.client, "globex"); res.StatusCode != 202 {
		t.Errorf("another tenant: %s", res.Status)
	}
	<-time.After(time.Duration(after) * time.Second)
	if res := publish(t, p.client, "acme"); res.StatusCode != 202 {
		t.Errorf("after waiting %d s as told: %s", after, res.Status)
	}
	if got := recorded.Load(); got != 4 {
		t.Errorf("the origin recorded %d publications, want 4", got)
	}
}

func TestUnmatchedRequestsPass(t *testing.T) {
	origin, _ := countingOrigin(t)
	p, _ := start(t, configFor(origin.URL, ""))
	res, err := http.Get("http://" + p.client + "/any/thing?x=1")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	if string(body) != "you asked for /any/thing?x=1" {
		t.Errorf("%s: %s", res.Status, body)
	}
}

// A file that changes while a start still waits for its first readings is
// noticed all the same.
func TestChangeWhileStarting(t *testing.T) {
	origin, _ := countingOrigin(t)
	release := make(chan struct{})
	signal := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(signal.Close)
	t.Cleanup(func() { close(release) })
	queue := "queues: {jobs: {max_useful_age: 1m, signal: {every: 1s, http: {url: " + signal.URL + ", age: /age}}, shed: {standard: {from: 30s, full: 40s}}}}\n"
	p, file := start(t, configFor(origin.URL, queue))
	write(t, file, configFor(origin.URL, strings.Replace(queue, "1m", "2m", 1)))
	p.until("the change is in force", func() bool { return strings.Contains(p.log.String(), "msg=reloaded") })
}

// Property 10: a reload loses no request and no bucket level, and a bad file
// changes nothing.
func TestReloadUnderLoad(t *testing.T) {
	origin, recorded := countingOrigin(t)
	p, file := start(t, configFor(origin.URL, ""))
	page := openDashboard(t, p)
	for range 2 {
		publish(t, p.client, "spent")
	}

	var sent, admitted, refused, other atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	var load sync.WaitGroup
	for worker := range 4 {
		load.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				req, _ := http.NewRequest(http.MethodPost, "http://"+p.client+"/publish", strings.NewReader("{}"))
				req.Header.Set("X-Tenant-Id", fmt.Sprintf("t-%d-%d", worker, n%500))
				sent.Add(1)
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					other.Add(1)
					t.Errorf("a request was lost: %v", err)
					continue
				}
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
				switch res.StatusCode {
				case 202:
					admitted.Add(1)
				case 429:
					refused.Add(1)
				default:
					other.Add(1)
					t.Errorf("status %d", res.StatusCode)
				}
			}
		})
	}
	reloads := func() int { return strings.Count(p.log.String(), "msg=reloaded") }
	for i := range 6 {
		before := reloads()
		text := strings.Replace(configFor(origin.URL, ""), "burst: 2", "burst: "+strconv.Itoa(3+i), 1)
		write(t, file, text)
		p.until("the file is reloaded", func() bool { return reloads() > before })
	}
	before := reloads()
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.until("SIGHUP reloads", func() bool { return reloads() > before })

	write(t, file, configFor(origin.URL, "nonsense: true\n"))
	p.until("the bad file is reported", func() bool { return strings.Contains(p.log.String(), "nonsense") })
	var status struct {
		Config struct {
			ReloadError string `json:"reload_error"`
		} `json:"config"`
	}
	getJSON(t, "http://"+p.admin+"/status", &status)
	if !strings.Contains(status.Config.ReloadError, `nonsense`) {
		t.Errorf("/status says of the bad file: %q", status.Config.ReloadError)
	}
	cancel()
	load.Wait()

	// A level survives, rescaled: what was empty is not full again.
	if res := publish(t, p.client, "spent"); res.Header.Get("RateLimit-Policy") != `"tenant";q=8;w=8` {
		t.Errorf("limit in force: %s", res.Header.Get("RateLimit-Policy"))
	}
	// Property 15: what clients saw, what the gateway counted and what the
	// origin recorded agree.
	var totals struct {
		Totals struct {
			Received, InFlight uint64
			Verdicts, Refused  map[string]int64
		} `json:"totals"`
	}
	getJSON(t, "http://"+p.admin+"/status", &totals)
	clients := sent.Load() + 3
	got := totals.Totals.Verdicts
	if got["admit"]+got["refuse"] != clients || got["admit"] != recorded.Load() || admitted.Load()+refused.Load()+other.Load() != sent.Load() {
		t.Errorf("clients sent %d, the gateway counted %v, the origin recorded %d", clients, got, recorded.Load())
	}
	page.agrees(p, clients, recorded.Load())
	t.Logf("%d requests over 7 reloads and a bad file: %d admitted, %d refused", sent.Load(), admitted.Load(), refused.Load())
}

func getJSON(t *testing.T, url string, into any) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
}

// Property 11: SIGTERM loses no accepted request.
func TestTermination(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/publish" {
			close(entered)
			<-release
		}
		fmt.Fprint(w, "done")
	}))
	defer origin.Close()
	p, _ := start(t, configFor(origin.URL, ""))

	idle, err := net.Dial("tcp", p.client)
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	reader := bufio.NewReader(idle)
	exchange := func() *http.Response {
		fmt.Fprintf(idle, "GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
		res, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadAll(res.Body)
		return res
	}
	if res := exchange(); res.Close {
		t.Error("the connection is closed before the drain")
	}

	answers := make(chan string, 1)
	go func() {
		res := publish(t, p.client, "acme")
		body, _ := io.ReadAll(res.Body)
		answers <- res.Status + " " + string(body)
	}()
	<-entered
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.until("readiness fails", func() bool {
		res, err := http.Get("http://" + p.admin + "/readyz")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == 503
	})
	if res := exchange(); !res.Close || res.StatusCode != 200 {
		t.Errorf("during the drain: %s, Connection: close %v", res.Status, res.Close)
	}
	p.until("the listener is closed", func() bool {
		c, err := net.Dial("tcp", p.client)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	close(release)
	if got := <-answers; got != "200 OK done" {
		t.Errorf("the running request got %q", got)
	}
	<-p.done
	if p.err != nil {
		t.Errorf("exit: %v", p.err)
	}
}

func runProgram(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errOut.String()
}

func TestCommands(t *testing.T) {
	dir := t.TempDir()
	good, wrong := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "wrong.yaml")
	write(t, good, configFor("http://127.0.0.1:1", ""))
	write(t, wrong, strings.Replace(configFor("http://127.0.0.1:1", "unmached: forward\n"), "burst: 2", "burst: 0", 1))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	busy := filepath.Join(dir, "busy.yaml")
	write(t, busy, strings.Replace(configFor("http://127.0.0.1:1", ""), "127.0.0.1:0", taken.Addr().String(), 1))

	for _, c := range []struct {
		args []string
		code int
		want string // in what is printed
	}{
		{[]string{"validate", good}, 0, "good.yaml: fine"},
		{[]string{"validate", "config.yaml"}, 0, "config.yaml: fine"},
		{[]string{"validate", wrong}, 1, "wrong.yaml:10:1: unmached: "},
		{[]string{"validate", wrong}, 1, `did you mean unmatched?`},
		{[]string{"validate", good, wrong}, 1, "burst"},
		{[]string{"validate", filepath.Join(dir, "absent.yaml")}, 1, "no such file"},
		{[]string{"validate"}, 2, "name at least one file"},
		{[]string{"run", "--config", wrong}, 1, "unmached"},
		{[]string{"run", "--config", busy}, 1, "cannot listen on " + taken.Addr().String()},
		{[]string{"run", "--confg", wrong}, 2, "did you mean --config?"},
		{[]string{"run", "--origin", "127.0.0.1"}, 2, "--origin"},
		{[]string{"rum"}, 2, "run"},
		{[]string{"version"}, 0, "sluice "},
		{[]string{"healthcheck", "--admin", taken.Addr().String()[:len("127.0.0.1:")] + "1"}, 1, "no gateway answers"},
		{[]string{"completion", "bash"}, 0, "complete"},
		{[]string{"--help"}, 0, "sluice demo"},
	} {
		code, out, errOut := runProgram(t, c.args...)
		if code != c.code || !strings.Contains(out+errOut, c.want) {
			t.Errorf("sluice %s: exit %d, want %d and %q in:\n%s%s", strings.Join(c.args, " "), code, c.code, c.want, out, errOut)
		}
	}
}

// The demo's totals add up: offered = admitted + refused, and admitted is what
// the origin recorded.
func TestDemo(t *testing.T) {
	code, out, errOut := runProgram(t, "demo", "--for", "11s")
	m := regexp.MustCompile(`offered (\d+) = admitted (\d+) \+ refused (\d+).*\nadmitted (\d+), the origin recorded (\d+)`).FindStringSubmatch(out)
	if code != 0 || m == nil {
		t.Fatalf("exit %d\n%s%s", code, out, errOut)
	}
	n := make([]int, len(m))
	for i := range m {
		n[i], _ = strconv.Atoi(m[i])
	}
	if n[1] != n[2]+n[3] || n[4] != n[5] || n[2] != n[4] || n[2] == 0 || n[3] == 0 {
		t.Errorf("totals: %v\n%s", m[1:], out)
	}
}

func TestHealthcheckAndMetrics(t *testing.T) {
	origin, _ := countingOrigin(t)
	p, _ := start(t, configFor(origin.URL, ""))
	if code, out, errOut := runProgram(t, "healthcheck", "--admin", p.admin); code != 0 {
		t.Errorf("healthcheck: %d %s%s", code, out, errOut)
	}
	for range 3 {
		publish(t, p.client, "acme")
	}
	res, err := http.Get("http://" + p.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	for _, want := range []string{
		`sluice_requests_received_total 3`,
		`reason="tenant_limit"`,
		`sluice_config_last_reload_successful 1`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}

// An origin that is down, slow, closing early or answering garbage costs its
// requests and nothing else.
func TestOriginTrouble(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	answers := map[string]string{"/closing": "", "/garbage": "SSH-2.0-x\r\n", "/half": "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhal"}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				req, err := http.ReadRequest(bufio.NewReader(c))
				if err != nil {
					return
				}
				if req.URL.Path == "/slow" {
					_, _ = io.Copy(io.Discard, c)
					return
				}
				_, _ = io.WriteString(c, answers[req.URL.Path])
			}()
		}
	}()
	rest := "routes:\n"
	for _, name := range []string{"closing", "garbage", "half", "slow"} {
		rest += "  - {id: " + name + ", match: {path: /" + name + "}, class: standard, timeout: 300ms}\n"
	}
	config := regexp.MustCompile(`(routes|tenants): .*\n`).ReplaceAllString(configFor("http://"+ln.Addr().String(), ""), "") + rest
	p, _ := start(t, config)
	for path, want := range map[string]struct {
		status int
		reason string
	}{
		"/closing": {502, "origin_failed"},
		"/garbage": {502, "origin_failed"},
		"/half":    {502, "origin_failed"},
		"/slow":    {504, "origin_timeout"},
	} {
		res, err := http.Get("http://" + p.client + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != want.status || !strings.Contains(string(body), `"reason":"`+want.reason+`"`) || res.Header.Get("Retry-After") != "" {
			t.Errorf("%s: %s %s", path, res.Status, body)
		}
	}
	ln.Close()
	res, err := http.Get("http://" + p.client + "/closing")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	if res.StatusCode != 502 || !strings.Contains(string(body), "origin_unreachable") || res.Header.Get("Retry-After") == "" {
		t.Errorf("origin down: %s %s", res.Status, body)
	}
}
