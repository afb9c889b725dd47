package admin

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"sluice/admission"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gate is a gateway for tests.
type gate struct {
	mu       sync.Mutex
	notReady error
	reload   error
	triggers []string
	drains   []bool
	noDrain  error
}

func (g *gate) Status() GatewayStatus {
	return GatewayStatus{
		Version: "1.2.3", Started: epoch, Mode: "enforce",
		Config:    ConfigStatus{Path: "config.yaml", Hash: "cafe", Loaded: epoch, RestartPending: []string{}},
		Listeners: []Listener{{"public", "127.0.0.1:8080"}},
		Origin:    OriginStatus{URL: "http://127.0.0.1:3000", Addresses: []OriginAddress{{Address: "127.0.0.1:3000", Healthy: true}}},
	}
}

func (g *gate) Ready() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.notReady
}

func (g *gate) Reload(_ context.Context, trigger string) (ReloadReport, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.triggers = append(g.triggers, trigger)
	return ReloadReport{Hash: "beef", Changed: []string{"tenants.limit"}, BucketsKept: 3, BucketsRescaled: 2, RestartPending: []string{"listen"}}, g.reload
}

func (g *gate) Drain(on bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.drains = append(g.drains, on)
	return g.noDrain
}

type badConfig []string

func (b badConfig) Error() string      { return strings.Join(b, "\n") }
func (b badConfig) Problems() []string { return b }

type testServer struct {
	*Server
	gate    *gate
	metrics *Metrics
	policy  *Policy
	logged  *buffer
}

func start(t *testing.T, change func(*Options)) *testServer {
	t.Helper()
	ts := &testServer{gate: &gate{}, metrics: NewMetrics(MetricsOptions{Version: "1.2.3"}), policy: testPolicy(2), logged: &buffer{}}
	live := NewLive(ts.metrics, LiveOptions{})
	Fanout{ts.metrics, live}.SetPolicy(ts.policy)
	o := Options{Listen: "127.0.0.1:0", Gateway: ts.gate, Metrics: ts.metrics, Live: live, Write: true, Logger: textLogger(ts.logged)}
	if change != nil {
		change(&o)
	}
	s, err := NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	ts.Server = s
	return ts
}

// do sends a request with header fields given as "name: value".
func (ts *testServer) do(t *testing.T, method, path string, fields ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, "http://"+ts.Addr()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		if name == "Host" {
			req.Host = value
		}
		req.Header.Set(name, value)
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
	return res, string(body)
}

func TestEndpoints(t *testing.T) {
	ts := start(t, func(o *Options) { o.Pprof = true })
	for _, c := range []struct {
		method, path string
		status       int
		contentType  string
		contains     string
	}{
		{"GET", "/livez", 200, "application/json", "alive"},
		{"HEAD", "/livez", 200, "application/json", ""},
		{"GET", "/readyz", 200, "application/json", "ready"},
		{"GET", "/status", 200, "application/json", `"hash": "cafe"`},
		{"GET", "/metrics", 200, "text/plain; version=0.0.4; charset=utf-8; escaping=underscores", "\nsluice_build_info{"},
		{"GET", "/", 200, "text/html; charset=utf-8", "/assets/app.js"},
		{"GET", "/assets/app.js", 200, "text/javascript; charset=utf-8", "render("},
		{"GET", "/assets/vendor/", 404, "application/problem+json", ""},
		{"GET", "/assets/%2e%2e/assets.go", 404, "application/problem+json", ""},
		{"POST", "/reload", 200, "application/json", `"buckets_rescaled": 2`},
		{"GET", "/reload", 405, "application/problem+json", "takes POST"},
		{"POST", "/status", 405, "application/problem+json", "takes GET, HEAD"},
		{"DELETE", "/livez", 405, "application/problem+json", ""},
		{"GET", "/nothing", 404, "application/problem+json", ""},
		{"GET", "/debug/pprof/goroutine?debug=1", 200, "text/plain; charset=utf-8", "goroutine profile"},
	} {
		res, body := ts.do(t, c.method, c.path)
		if res.StatusCode != c.status || res.Header.Get("Content-Type") != c.contentType || !strings.Contains(body, c.contains) {
			t.Errorf("%s %s: %d, %s\n%.300s\nwant %d, %s, %q", c.method, c.path, res.StatusCode, res.Header.Get("Content-Type"), body, c.status, c.contentType, c.contains)
		}
		if res.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s may be stored", c.method, c.path)
		}
		if c.status == 405 && res.Header.Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", c.method, c.path)
		}
	}
	if got := ts.gate.triggers; len(got) != 1 || got[0] != TriggerAdmin {
		t.Errorf("reloads %v, want one by %s", got, TriggerAdmin)
	}
}

func TestPprofIsOffByDefault(t *testing.T) {
	ts := start(t, nil)
	if res, _ := ts.do(t, "GET", "/debug/pprof/"); res.StatusCode != 404 {
		t.Errorf("status %d, want 404", res.StatusCode)
	}
}

// Property 11, its first step: readiness fails with a reason, liveness does not.
func TestNotReady(t *testing.T) {
	ts := start(t, nil)
	ts.gate.notReady = errors.New("draining")
	if res, body := ts.do(t, "GET", "/readyz"); res.StatusCode != 503 || !strings.Contains(body, `"detail": "draining"`) {
		t.Errorf("readyz: %d %s", res.StatusCode, body)
	}
	if res, _ := ts.do(t, "GET", "/livez"); res.StatusCode != 200 {
		t.Errorf("livez: %d", res.StatusCode)
	}
	if _, body := ts.do(t, "GET", "/status"); !strings.Contains(body, `"not_ready": "draining"`) {
		t.Errorf("status does not say so: %s", body)
	}
}

// Property 10: a bad file is answered with all of its problems.
func TestReloadProblems(t *testing.T) {
	ts := start(t, nil)
	for _, c := range []struct {
		err  error
		want []string
	}{
		{badConfig{"config.yaml:3:1: a", "config.yaml:9:4: b"}, []string{"config.yaml:3:1: a", "config.yaml:9:4: b"}},
		{errors.Join(errors.New("loading"), badConfig{"c"}), []string{"c"}},
		{errors.New("config.yaml: permission denied"), []string{"config.yaml: permission denied"}},
	} {
		ts.gate.reload = c.err
		res, body := ts.do(t, "POST", "/reload")
		var p problem
		if err := json.Unmarshal([]byte(body), &p); err != nil || res.StatusCode != 422 || strings.Join(p.Problems, "|") != strings.Join(c.want, "|") {
			t.Errorf("%d %s, want 422 and %q", res.StatusCode, body, c.want)
		}
	}
}

// The status agrees with the metrics (property 15), and shows the sections of
// other parts.
func TestStatusAddsUp(t *testing.T) {
	ts := start(t, func(o *Options) {
		o.Sections = []Section{
			{Name: "queues", Value: func() any { return map[string]int{"orders": 7} }},
			{Name: "absent", Value: func() any { return nil }},
		}
	})
	rng := seeded(t)
	for range 3000 {
		ts.metrics.Begin()
		ts.metrics.Observe(randomEvent(rng, ts.policy, 10))
	}
	ts.metrics.Begin()
	var st struct {
		Status
		Sections map[string]map[string]int `json:"sections"`
	}
	_, body := ts.do(t, "GET", "/status")
	if err := json.Unmarshal([]byte(body), &st); err != nil {
		t.Fatal(err)
	}
	sum := func(m map[string]uint64) (n uint64) {
		for _, v := range m {
			n += v
		}
		return n
	}
	var classes, routes, tenants uint64
	for _, c := range st.Classes {
		classes += c.Admit + c.Replay + c.Refuse
	}
	for _, r := range st.Routes {
		routes += r.Admit + r.Replay + r.Refuse
	}
	for _, n := range st.Tenants {
		tenants += n.Admit + n.Replay + n.Refuse
	}
	if st.Totals.Received != 3001 || st.Totals.InFlight != 1 || sum(st.Totals.Verdicts) != 3000 || sum(st.Totals.Outcomes) != 3000 ||
		sum(st.Totals.Refused) != st.Totals.Verdicts["refuse"] || classes != 3000 || routes != 3000 || tenants != 3000 {
		t.Errorf("does not add up: %s", body)
	}
	if st.Sections["queues"]["orders"] != 7 || len(st.Sections) != 1 {
		t.Errorf("sections %v", st.Sections)
	}
}

// A page whose host name is made to resolve to this listener gets nothing, and
// a page of another origin changes nothing.
func TestBrowserGuards(t *testing.T) {
	ts := start(t, func(o *Options) { o.Hosts = []string{"Gateway.internal"} })
	for host, want := range map[string]int{
		"localhost": 200, "LOCALHOST:9090": 200, "127.0.0.1:1": 200, "[::1]:9090": 200, "gateway.internal:9090": 200,
		"evil.example": 421, "evil.example:9090": 421, "192.0.2.7:9090": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example": 421,
	} {
		if res, body := ts.do(t, "GET", "/status", "Host: "+host); res.StatusCode != want {
			t.Errorf("host %s: %d, want %d: %s", host, res.StatusCode, want, body)
		}
	}
	for field, want := range map[string]int{
		"Sec-Fetch-Site: cross-site": 403, "Sec-Fetch-Site: same-site": 403, "Origin: http://evil.example": 403,
		"Sec-Fetch-Site: same-origin": 200, "Origin: http://" + ts.Addr(): 200, "X-Nothing: curl": 200,
	} {
		if res, _ := ts.do(t, "POST", "/reload", field); res.StatusCode != want {
			t.Errorf("%s: %d, want %d", field, res.StatusCode, want)
		}
	}
	if n := len(ts.gate.triggers); n != 3 {
		t.Errorf("%d reloads, want 3", n)
	}
}

// With a token set, everything but health needs it; it is not shown anywhere.
func TestToken(t *testing.T) {
	ts := start(t, func(o *Options) { o.Token = "s3cret-token" })
	for _, c := range []struct {
		path, auth string
		want       int
	}{
		{"/livez", "", 200}, {"/readyz", "", 200},
		{"/status", "", 401}, {"/metrics", "Bearer wrong", 401}, {"/status", "Basic s3cret-token", 401}, {"/status", "Bearer s3cret-token2", 401},
		{"/status", "Bearer s3cret-token", 200}, {"/status", "bearer s3cret-token", 200},
		{"/", "Basic " + base64.StdEncoding.EncodeToString([]byte("anybody:s3cret-token")), 200},
		{"/", "Basic " + base64.StdEncoding.EncodeToString([]byte("s3cret-token:")), 401},
	} {
		res, body := ts.do(t, "GET", c.path, "Authorization: "+c.auth)
		if res.StatusCode != c.want || strings.Contains(body, "s3cret") {
			t.Errorf("%s with %q: %d, want %d", c.path, c.auth, res.StatusCode, c.want)
		}
	}
	if strings.Contains(ts.logged.String(), "s3cret") {
		t.Error("the log holds the token")
	}
}

// On an address that other machines can reach, whoever has not said who they are
// gets health and nothing else.
func TestOtherMachines(t *testing.T) {
	ts := start(t, func(o *Options) { o.Listen, o.Token = "0.0.0.0:0", "s3cret-token" })
	ask := func(method, path, host, token string) int {
		r := httptest.NewRequest(method, path, nil)
		r.Host, r.RemoteAddr = host, "192.0.2.7:5000"
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		ts.server.Handler.ServeHTTP(w, r)
		return w.Code
	}
	for _, c := range []struct {
		method, path, host, token string
		want                      int
	}{
		{"GET", "/livez", "sluice:9090", "", 200}, {"GET", "/readyz", "192.0.2.1:9090", "", 200}, {"GET", "/metrics", "sluice:9090", "", 401},
		{"GET", "/metrics", "sluice:9090", "s3cret-token", 200}, // a scraper uses whatever name it is given
		{"GET", "/status", "192.0.2.1:9090", "", 401}, {"GET", "/", "192.0.2.1:9090", "wrong", 401}, {"POST", "/reload", "192.0.2.1:9090", "", 401},
		{"GET", "/api/v1/stream", "192.0.2.1:9090", "", 401}, {"GET", "/debug/pprof/heap", "192.0.2.1:9090", "", 401}, {"GET", "/livez/", "192.0.2.1", "", 401},
		{"GET", "/status", "192.0.2.1:9090", "s3cret-token", 200}, {"GET", "/status", "evil.example:9090", "s3cret-token", 421},
	} {
		if got := ask(c.method, c.path, c.host, c.token); got != c.want {
			t.Errorf("%s %s at %s with token %q: %d, want %d", c.method, c.path, c.host, c.token, got, c.want)
		}
	}
}

// A listener that is not told to write shows everything and changes nothing.
func TestReadOnly(t *testing.T) {
	ts := start(t, func(o *Options) { o.Write, o.Records, o.Signals = false, noRecords{t}, noSignals{t} })
	for _, c := range []struct{ method, path, says string }{
		{"POST", "/reload", "SIGHUP"}, {"POST", "/drain", ""}, {"DELETE", "/drain", ""}, {"POST", "/signals/orders", ""}, {"POST", "/records", ""},
	} {
		res, body := ts.do(t, c.method, c.path)
		if want := c.method + " " + c.path + ", set admin.write: true"; res.StatusCode != 403 || !strings.Contains(body, want) || !strings.Contains(body, c.says) {
			t.Errorf("%s %s: %d %s, want 403 that says %q", c.method, c.path, res.StatusCode, body, want)
		}
	}
	for _, path := range []string{"/drain", "/status", "/metrics", "/", "/api/v1/state"} {
		if res, body := ts.do(t, "GET", path); res.StatusCode != 200 {
			t.Errorf("GET %s: %d %s", path, res.StatusCode, body)
		}
	}
	if len(ts.gate.triggers)+len(ts.gate.drains) > 0 {
		t.Errorf("reloads %v, drains %v; want none", ts.gate.triggers, ts.gate.drains)
	}
}

type noRecords struct{ t *testing.T }

func (n noRecords) Find(context.Context, RecordKey) (any, error) { return nil, nil }

func (n noRecords) Resolve(context.Context, RecordKey, RecordResolution) (any, error) {
	n.t.Error("a record was resolved")
	return nil, nil
}

type noSignals struct{ t *testing.T }

func (n noSignals) Offer(string, []byte) error {
	n.t.Error("a reading was taken")
	return nil
}

func TestDrain(t *testing.T) {
	ts := start(t, nil)
	for _, method := range []string{"POST", "DELETE"} {
		if res, body := ts.do(t, method, "/drain"); res.StatusCode != 200 || !strings.Contains(body, `"in_flight": 0`) {
			t.Errorf("%s: %d %s", method, res.StatusCode, body)
		}
	}
	if got := ts.gate.drains; !slices.Equal(got, []bool{true, false}) {
		t.Errorf("drains %v, want begun, then ended", got)
	}
	ts.gate.noDrain = errors.New("about to stop")
	if res, body := ts.do(t, "DELETE", "/drain"); res.StatusCode != 409 || !strings.Contains(body, "about to stop") {
		t.Errorf("where it cannot be ended: %d %s", res.StatusCode, body)
	}
	if res, _ := ts.do(t, "PUT", "/drain"); res.StatusCode != 405 || res.Header.Get("Allow") != "GET, HEAD, POST, DELETE" {
		t.Errorf("PUT: %d, Allow %q", res.StatusCode, res.Header.Get("Allow"))
	}
}

// A decision is explained by what is told of it, and without that by what the
// tail holds.
func TestExplain(t *testing.T) {
	var answer any
	var fails error
	ts := start(t, func(o *Options) {
		o.Explain = func(_ context.Context, id string) (any, error) { return answer, fails }
	})
	rng := seeded(t)
	e := randomEvent(rng, ts.policy, 3)
	e.Request.ID = "known"
	ts.o.Live.Observe(e)
	for _, c := range []struct {
		path   string
		answer any
		fails  error
		status int
		want   []string
	}{
		{"/explain", nil, nil, 400, []string{"X-Request-Id"}},
		{"/explain?id=unknown", nil, ErrForgotten, 404, []string{"does not remember"}},
		{"/explain?id=unknown", map[string]string{"verdict": "told"}, nil, 200, []string{`"decision": null`, `"verdict": "told"`}},
		{"/explain?id=known", map[string]string{"verdict": "told"}, nil, 200, []string{`"id": "known"`, `"verdict": "told"`}},
		{"/explain?id=known", nil, errors.New("the policy is gone"), 200, []string{`"id": "known"`, `"explanation": null`, `"without": "the policy is gone"`}},
	} {
		answer, fails = c.answer, c.fails
		res, body := ts.do(t, "GET", c.path)
		for _, want := range c.want {
			if res.StatusCode != c.status || !strings.Contains(body, want) {
				t.Errorf("%s: %d %s, want %d and %q", c.path, res.StatusCode, body, c.status, want)
			}
		}
	}
	ts.o.Explain = nil
	if res, body := ts.do(t, "GET", "/explain?id=known"); res.StatusCode != 200 || !strings.Contains(body, `"id": "known"`) {
		t.Errorf("from the tail alone: %d %s", res.StatusCode, body)
	}
}

// No spelling of a host that is not ours passes for it.
func FuzzHost(f *testing.F) {
	for _, h := range []string{"localhost", "127.0.0.1:80", "[::1]", "a.localhost", "127.1", "[::ffff:127.0.0.1]:1", "gateway.internal.", "0x7f.1", "::1%lo"} {
		f.Add(h)
	}
	s := &Server{hosts: []string{"gateway.internal"}, loopback: true}
	f.Fuzz(func(t *testing.T, host string) {
		if !s.hostAllowed(host) {
			return
		}
		u, err := url.Parse("http://" + host)
		if err != nil {
			return // no browser sends it
		}
		name := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
		if ip := net.ParseIP(strings.Split(name, "%")[0]); name != "localhost" && name != "gateway.internal" && !ip.IsLoopback() {
			t.Errorf("%q, that is host %q, is taken for ours", host, name)
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	ok := Options{Gateway: &gate{}, Metrics: NewMetrics(MetricsOptions{})}
	ok.Live = NewLive(ok.Metrics, LiveOptions{})
	for listen, want := range map[string]string{
		"9090":           `admin.listen: "9090" is not an address of the form host:port`,
		"[::1:9090":      `admin.listen: "[::1:9090" is not an address of the form host:port`,
		"127.0.0.1:9090": "", "[::1]:9090": "", "localhost:9090": "", "": "",
		"0.0.0.0:9090": "admin.listen: 0.0.0.0:9090 can be reached from other machines; set admin.token, or client_ca in admin.tls",
		":9090":        "admin.listen: :9090 can be reached from other machines; set admin.token, or client_ca in admin.tls",
	} {
		o := ok
		o.Listen = listen
		if _, err := NewServer(o); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("listen %q: %v, want %q", listen, err, want)
		}
	}
	if _, err := NewServer(Options{}); err == nil {
		t.Error("a server without a gateway was made")
	}
}

// A taken port is an error; the gateway may go on without.
func TestPortTaken(t *testing.T) {
	ts := start(t, nil)
	o := ts.o
	o.Listen = ts.Addr()
	s, err := NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("error %v, want that the address is in use", err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// The reload metrics follow what the gateway records.
func TestConfigMetrics(t *testing.T) {
	m := NewMetrics(MetricsOptions{})
	if g := gather(t, m); g.sum("sluice_config_last_reload_successful") != 0 || g["sluice_config_info"] != nil {
		t.Error("a configuration is shown before there is one")
	}
	m.ConfigLoaded(ReloadRecord{At: epoch, Trigger: "start", Hash: "cafe"})
	m.ConfigLoaded(ReloadRecord{At: epoch.AddDate(0, 0, 1), Trigger: "file", Error: "bad"})
	g := gather(t, m)
	if g.sum("sluice_config_last_reload_successful") != 0 || g.sum("sluice_config_info", "hash", "cafe") != 1 ||
		g.sum("sluice_config_reloads_total", "trigger", "file", "result", "failed") != 1 ||
		g.sum("sluice_config_last_reload_success_timestamp_seconds") != float64(epoch.Unix()) {
		t.Errorf("after a failed reload: %v", g)
	}
	for range 2 * keptReloads {
		m.ConfigLoaded(ReloadRecord{At: epoch, Trigger: "admin", Hash: "beef"})
	}
	if g := gather(t, m); g.sum("sluice_config_last_reload_successful") != 1 || g.sum("sluice_config_info", "hash", "beef") != 1 || g.sum("sluice_config_info", "hash", "cafe") != 0 {
		t.Error("a good reload does not show")
	}
	if n := len(m.Reloads()); n != keptReloads {
		t.Errorf("%d reloads remembered, want %d", n, keptReloads)
	}
}

var _ admission.Observer = Fanout{}
