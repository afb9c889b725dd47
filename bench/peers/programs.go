package peers

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"sluice/bench/target"
)

// program is one that takes part.
type program struct {
	name  string
	works []Work
	// spare is how many requests over their limit may get in during one
	// measurement, since the program's limits cannot be lower.
	spare int64
	start func(ctx context.Context, o *Options, home string, work Work, origin string) (*process, string, error)
}

// programs in the order in which they are shown.
var programs = []program{
	{"fasthttp", []Work{Forward}, 0, startBare},
	{"sluice", []Work{Forward, Refuse, Replay, Keyed}, 0, startSluice},
	{"nginx", []Work{Forward, Refuse}, tenants, startNginx}, // at least one a minute
	{"nginx-return", []Work{Refuse, Replay}, 0, startNginxReturn},
	{"haproxy", []Work{Forward, Refuse}, 0, startHAProxy},
	{"gofiber", []Work{Forward, Refuse, Replay, Keyed}, 0, startGoFiber},
}

// tenants that the load is spread over.
const tenants = 50

// perTenant is a limit that the work never reaches, and one that it is always
// over.
func perTenant(w Work) (perSecond, burst int) {
	if w == Refuse {
		return 0, 1
	}
	return 100_000, 200_000
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// launch starts a program and waits until it accepts connections at listen.
func launch(ctx context.Context, o *Options, listen string, args ...string) (*process, error) {
	if o.CPU != "" {
		args = append([]string{"taskset", "-c", o.CPU}, args...)
	}
	p := &process{cmd: exec.Command(args[0], args[1:]...), url: "http://" + listen, said: &strings.Builder{}}
	p.cmd.Stdout, p.cmd.Stderr = p.said, p.said
	var err error
	if p.done, err = target.Spawn(p.cmd); err != nil {
		return nil, err
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		c, err := net.DialTimeout("tcp", listen, time.Second)
		if err == nil {
			c.Close()
			return p, nil
		}
		select {
		case err := <-p.done:
			return nil, fmt.Errorf("ended before it listened (%v): %s", err, p.said)
		case <-ctx.Done():
			_ = p.stop()
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			_ = p.stop()
			return nil, fmt.Errorf("did not listen on %s within 10s: %s", listen, p.said)
		}
	}
}

func fasthttpVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == "github.com/valyala/fasthttp" {
				return d.Version
			}
		}
	}
	return ""
}

func startBare(ctx context.Context, o *Options, _ string, _ Work, origin string) (*process, string, error) {
	listen, err := freePort()
	if err != nil {
		return nil, "", err
	}
	p, err := launch(ctx, o, listen, o.Self, "bare-proxy", "--listen", listen, "--origin", origin)
	return p, fasthttpVersion(), err
}

const sluiceConfig = `version: 1
listen: %s
admin: {listen: %s}
origin: {url: %s}
shutdown: {drain: 0s, timeout: 5s}
tenants:
  from: [{header: X-Tenant-Id}]
  limit: {rate: %s, burst: %d}
classes: [{name: critical}, {name: standard}, {name: bulk}]
priority:
  - {id: backfills, when: {header: {X-Job-Type: backfill}}, class: bulk}
routes:
  - {id: orders, match: {method: POST, path: /v1/orders}, class: critical%s}
  - {id: emails, match: {method: POST, path: /v1/emails}, class: standard}
  - {id: exports, match: {method: POST, path: /v1/exports}, class: bulk}
`

func startSluice(ctx context.Context, o *Options, home string, work Work, origin string) (*process, string, error) {
	if o.Sluice == "" {
		return nil, "", missingError{"no binary was given"}
	}
	listen, err := freePort()
	if err != nil {
		return nil, "", err
	}
	admin, err := freePort()
	if err != nil {
		return nil, "", err
	}
	rate, burst := perTenant(work)
	limit := fmt.Sprintf("%d/s", rate)
	if rate == 0 {
		limit = "1/h"
	}
	keys, store := "", ""
	if work == Replay || work == Keyed {
		keys = ", idempotency: {key: required}"
	}
	if work == Keyed {
		store = "store: {redis: {url: redis://" + o.redis + "/0}}\n"
	}
	file := filepath.Join(home, "config.yaml")
	if err := os.WriteFile(file, fmt.Appendf([]byte(store), sluiceConfig, listen, admin, origin, limit, burst, keys), 0o644); err != nil {
		return nil, "", err
	}
	p, err := launch(ctx, o, listen, o.Sluice, "run", "--config", file)
	if err != nil {
		return nil, "", err
	}
	return p, firstLine(o.Sluice, "version"), nil
}

const nginxConfig = `daemon off;
master_process off;
pid %[1]s/pid;
error_log %[1]s/error.log crit;
worker_rlimit_nofile 20000;
events { worker_connections 8192; }
http {
  access_log off;
  keepalive_requests 100000000;
  client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  limit_req_zone $http_x_tenant_id zone=tenants:10m rate=%[4]s;
  upstream origin { server %[3]s; keepalive 512; keepalive_requests 100000000; }
  server {
    listen %[2]s;
    location / {
      %[5]s
      proxy_pass http://origin;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
    }
  }
}
`

func nginx(ctx context.Context, o *Options, home, origin, rate, limit string) (*process, string, error) {
	bin, err := o.find("nginx")
	if err != nil {
		return nil, "", err
	}
	listen, err := freePort()
	if err != nil {
		return nil, "", err
	}
	file := filepath.Join(home, "nginx.conf")
	text := fmt.Sprintf(nginxConfig, home, listen, strings.TrimPrefix(origin, "http://"), rate, limit)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return nil, "", err
	}
	p, err := launch(ctx, o, listen, bin, "-c", file, "-p", home, "-e", filepath.Join(home, "error.log"))
	return p, firstLine(bin, "-v"), err
}

func startNginx(ctx context.Context, o *Options, home string, work Work, origin string) (*process, string, error) {
	rate, burst := perTenant(work)
	if rate == 0 {
		return nginx(ctx, o, home, origin, "1r/m", "limit_req zone=tenants;")
	}
	return nginx(ctx, o, home, origin, fmt.Sprintf("%dr/s", rate), fmt.Sprintf("limit_req zone=tenants burst=%d nodelay;", burst))
}

// startNginxReturn is the least that an answer can cost that needs no origin: no
// limit and no key is looked up at all.
func startNginxReturn(ctx context.Context, o *Options, home string, work Work, origin string) (*process, string, error) {
	if work == Replay {
		return nginx(ctx, o, home, origin, "1r/m", `return 202 '{"accepted":1}';`)
	}
	return nginx(ctx, o, home, origin, "1r/m", "return 503;")
}

const haproxyConfig = `global
  maxconn 8192
  nbthread 1
defaults
  mode http
  timeout client 60s
  timeout server 60s
  timeout connect 5s
  timeout http-keep-alive 60s
frontend in
  bind %s
  stick-table type string len 64 size 100k expire 10m store http_req_rate(10s)
  http-request track-sc0 req.hdr(X-Tenant-Id)
  http-request deny deny_status 429 if { sc_http_req_rate(0) gt %d }
  default_backend out
backend out
  http-reuse always
  server origin %s
`

func startHAProxy(ctx context.Context, o *Options, home string, work Work, origin string) (*process, string, error) {
	bin, err := o.find("haproxy")
	if err != nil {
		return nil, "", err
	}
	listen, err := freePort()
	if err != nil {
		return nil, "", err
	}
	rate, _ := perTenant(work)
	file := filepath.Join(home, "haproxy.cfg")
	text := fmt.Sprintf(haproxyConfig, listen, rate*10, strings.TrimPrefix(origin, "http://"))
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return nil, "", err
	}
	p, err := launch(ctx, o, listen, bin, "-f", file, "-db")
	return p, firstLine(bin, "-v"), err
}

func startGoFiber(ctx context.Context, o *Options, home string, work Work, origin string) (*process, string, error) {
	if o.GoFiber == "" {
		return nil, "", missingError{"its source is not here"}
	}
	bin := filepath.Join(filepath.Dir(home), "gofiber") // one for all kinds of work
	if !fileExists(bin) {
		build := exec.CommandContext(ctx, "go", "build", "-o", bin, ".")
		build.Dir = o.GoFiber
		if said, err := build.CombinedOutput(); err != nil {
			return nil, "", missingError{fmt.Sprintf("it does not build: %v: %s", err, said)}
		}
	}
	listen, err := freePort()
	if err != nil {
		return nil, "", err
	}
	args := []string{bin, "--listen", listen, "--origin", origin, "--limit", "1000000000"}
	switch work {
	case Refuse:
		args = []string{bin, "--listen", listen, "--origin", origin, "--limit", "1", "--window", "1h"}
	case Replay:
		args = append(args, "--keys")
	case Keyed:
		args = append(args, "--keys", "--redis", o.redis)
	}
	p, err := launch(ctx, o, listen, args...)
	mod, _ := os.ReadFile(filepath.Join(o.GoFiber, "go.mod"))
	return p, fiberVersion.FindString(string(mod)), err
}

var fiberVersion = regexp.MustCompile(`gofiber/fiber/v3 v[0-9.]+`)

// find looks a program up where Debian puts servers, too.
func (o *Options) find(name string) (string, error) {
	if bin, err := exec.LookPath(name); err == nil {
		return bin, nil
	}
	if bin := filepath.Join(cmp.Or(o.bin, "/usr/sbin"), name); fileExists(bin) {
		return bin, nil
	}
	return "", missingError{"it is not installed (apt-get install " + name + ")"}
}

func fileExists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func firstLine(bin string, args ...string) string {
	out, _ := exec.Command(bin, args...).CombinedOutput()
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}

// expect is the status that a program answers a kind of work with.
func expect(work Work, status int) bool {
	if work == Refuse {
		return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
	}
	return status < 300
}
