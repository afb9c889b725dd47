package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/config/value"
)

func parse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := testLoader().Parse("dir/test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const base = "version: 1\norigin: {url: http://127.0.0.1:3000}\n"

func TestRoutesInheritWhatTheyLeaveOut(t *testing.T) {
	c := parse(t, `version: 1
origin: {url: http://127.0.0.1:3000, timeout: 9s}
limits: {max_body: 2MiB, body_timeout: 8s, max_response: 3MiB}
routes:
  - {id: a, match: {path: /a}, class: bulk}
  - {id: b, match: {path: /b}, class: bulk, timeout: 1s, max_body: 1KiB, body_timeout: 2s, max_response: 4KiB}
`)
	type inherited struct {
		MaxBody     value.Size
		Timeout     value.Duration
		BodyTimeout value.Duration
		MaxResponse value.Size
	}
	for i, want := range []inherited{
		{2 * value.MiB, 9e9, 8e9, 3 * value.MiB},
		{value.KiB, 1e9, 2e9, 4 * value.KiB},
	} {
		r := c.Routes[i]
		if got := (inherited{r.MaxBody, r.Timeout, r.BodyTimeout, r.MaxResponse}); got != want {
			t.Errorf("route %s: %+v, want %+v", r.ID, got, want)
		}
	}
}

func TestOverridesInheritWhatTheyLeaveOut(t *testing.T) {
	c := parse(t, base+`tenants:
  limit: {rate: 100/s, burst: 200, mode: shadow}
  overrides:
    a: {rate: 1/s}
    b: {mode: enforce, max_class: critical}
class_header: {ceiling: standard}
`)
	want := map[string]Override{
		"a": {Rate: 1, Burst: 200, Mode: Shadow, MaxClass: "standard"},
		"b": {Rate: 100, Burst: 200, Mode: Enforce, MaxClass: "critical"},
	}
	if diff := cmp.Diff(want, c.Tenants.Overrides); diff != "" {
		t.Error(diff)
	}
	c = parse(t, base+"tenants: {overrides: {a: {mode: shadow}}}\n")
	if o := c.Tenants.Overrides["a"]; o != (Override{Mode: Shadow}) {
		t.Errorf("without a limit to inherit, an override is %+v", o)
	}
}

func TestRelativePathsStartAtTheFilesFolder(t *testing.T) {
	c := parse(t, base+`tls: {cert: a.crt, key: /abs/a.key}
decision_log: {output: ./log.jsonl}
`)
	if c.TLS.Cert != Path(filepath.Join("dir", "a.crt")) || c.TLS.Key != "/abs/a.key" || c.TLS.ClientCA != "" {
		t.Errorf("paths are %+v", *c.TLS)
	}
	if file, ok := c.DecisionLog.Output.File(); !ok || file != filepath.Join("dir", "log.jsonl") {
		t.Errorf("decision log goes to %q", file)
	}
	here, err := Parse("test.yaml", []byte(base+"decision_log: {output: ./log.jsonl}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if here.DecisionLog.Output != "./log.jsonl" {
		t.Errorf("decision log goes to %q", here.DecisionLog.Output)
	}
}

func TestSubstitutionFillsValuesOfEveryKind(t *testing.T) {
	c, err := testLoader().Load("testdata/good/substitution.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got := []any{
		c.Listen, c.Admin.Listen, c.Admin.Pprof, c.Origin.URLs, c.Origin.Timeout, c.Origin.MaxConnections,
		c.Forwarding.Via, c.Unmatched, c.Tenants.Overrides["acme"].Rate,
		c.Priority[0].When.Header["X-Price"], // $$ in, $ out; what comes in stays as it is
		c.Source.Files,
	}
	want := []any{
		Address("127.0.0.1:0"), Address("127.0.0.1:0"), false, []OriginURL{"http://127.0.0.1:3001"}, value.Duration(7e9), 17,
		Token("from-a-file"), Refuse, value.Rate(5),
		Glob("$5 and $$6 or $5"),
		[]string{"testdata/good/via.txt"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAnchorsAndMergesMeanWhatTheySay(t *testing.T) {
	c, err := testLoader().Load("testdata/good/anchors.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if o := c.Tenants.Overrides["acme"]; o.Rate != 500 || o.Burst != 200 {
		t.Errorf("a key beside << does not win: %+v", o)
	}
	if o := c.Tenants.Overrides["globex"]; o.Rate != 100 || o.Burst != 300 {
		t.Errorf("a key before << does not win: %+v", o)
	}
	r := c.Routes[1]
	if r.ID != "create-invoice" || r.Class != "critical" || r.Match.Path != "/v1/invoices" || r.Limit.Burst != 200 {
		t.Errorf("merged route is %+v", r)
	}
}

func TestLinesPointAtTheirSections(t *testing.T) {
	c := parse(t, base+`
routes:
  - id: a
    match: {path: /a}
    class: bulk

  - id: b
    match:
      path: /b
    class: bulk
tenants:
  api_keys: [{sha256: `+strings.Repeat("ab", 32)+`, tenant: x}]
  from: [{api_key: {}}]
`)
	for path, want := range map[string]int{
		"routes": 4, "routes[0]": 5, "routes[1]": 9, "routes[1].match.path": 11, "routes[1].match.method": 10,
		"origin.url": 2, "origin.timeout": 2, "limits.max_body": 1, "tenants.api_keys[0].sha256": 14, "": 1,
	} {
		if got := c.Line(path); got != want {
			t.Errorf("%q is said to be in line %d, want %d", path, got, want)
		}
	}
	for path := range c.Source.Lines {
		if strings.HasPrefix(path, "tenants.api_keys[") {
			t.Errorf("Lines holds %s", path)
		}
	}
}

func TestHashFollowsTheText(t *testing.T) {
	a, b := parse(t, base), parse(t, base+"# more\n")
	if a.Source.Hash == b.Source.Hash || len(a.Source.Hash) != 12 {
		t.Errorf("hashes %s and %s", a.Source.Hash, b.Source.Hash)
	}
}

func TestSecretsNeverShow(t *testing.T) {
	hash := strings.Repeat("ab", 32)
	c := parse(t, base+"tenants:\n  from: [{api_key: {}}]\n  api_keys: [{sha256: "+hash+", tenant: acme}]\n")
	if got := fmt.Sprintf("%x", c.Tenants.APIKeys[0].SHA256.Sum()); got != hash {
		t.Errorf("Sum is %s", got)
	}
	changed := *c
	changed.Tenants.APIKeys = []APIKey{{SHA256: KeyHash{value.NewSecret(strings.Repeat("cd", 32))}, Tenant: "acme"}}
	changes := Diff(c, &changed)
	if len(changes) != 1 || changes[0].Path != "tenants.api_keys[0].sha256" {
		t.Errorf("changes are %v", changes)
	}
	for what, text := range map[string]string{
		"Effective": string(c.Effective()), "fmt": fmt.Sprintf("%v %+v %#v", c, *c, c.Tenants), "Diff": fmt.Sprint(changes),
	} {
		if strings.Contains(text, hash) || strings.Contains(text, "abab") || strings.Contains(text, "cdcd") {
			t.Errorf("%s shows a secret: %s", what, text)
		}
	}
	if !strings.Contains(string(c.Effective()), "sha256: '********'") {
		t.Errorf("the secret is not masked but missing:\n%s", c.Effective())
	}
}

func TestEffectiveConfigReadsAsTheSame(t *testing.T) {
	for _, file := range append(glob(t, "testdata/good/*.yaml"), "../config.yaml") {
		c, err := testLoader().Load(file)
		if err != nil {
			t.Fatal(err)
		}
		// Masked when written.
		c.Tenants.APIKeys, c.Store.Encrypt, c.Store.Secrets = nil, nil, nil
		if r := c.Store.Redis; r != nil {
			r.Password = value.Secret{}
		}
		for _, q := range c.Queues {
			for _, s := range q.Signals {
				if s.RedisList != nil {
					s.RedisList.URL = value.NewSecret(value.Mask)
				}
			}
		}
		for i, s := range c.Tenants.From {
			if s.APIKey != nil {
				c.Tenants.From[i] = TenantSource{Header: HeaderName(fmt.Sprintf("X-Instead-%d", i))}
			}
		}
		text := c.Effective()
		again, err := Parse("effective.yaml", text)
		if err != nil {
			t.Errorf("%s: what is in effect does not load:\n%v\n%s", file, err, text)
			continue
		}
		// Paths were resolved against the folder of the first file, and stay.
		if changes := Diff(c, again); len(changes) > 0 {
			t.Errorf("%s: what is in effect reads as something else: %v", file, changes)
		}
	}
}

func TestConfigsOfFlagsAreChecked(t *testing.T) {
	c := minimal(t)
	o, err := c.WithOrigin("https://a.internal", "http://b.internal:81/")
	if err != nil || o.Origin.URLs[0].Address() != "a.internal:443" || o.Origin.URLs[1].Address() != "b.internal:81" || !o.Origin.URLs[0].TLS() {
		t.Errorf("WithOrigin gives %v, %v", o, err)
	}
	if c.Origin.URLs[0] != "http://127.0.0.1:3000" {
		t.Error("WithOrigin changed the config that it started from")
	}
	l, err := c.WithListen("127.0.0.1:0", "")
	if err != nil || l.Listen.Port() != 0 || l.Admin.Listen != c.Admin.Listen {
		t.Errorf("WithListen gives %v, %v", l, err)
	}
	for what, err := range map[string]error{
		"no scheme":        second(c.WithOrigin("127.0.0.1:3000")),
		"nothing":          second(c.WithOrigin()),
		"itself":           second(c.WithOrigin("http://localhost:8080")),
		"port alone":       second(c.WithListen("80", "")),
		"same twice":       second(c.WithListen("", "127.0.0.1:8080")),
		"origin's address": second(c.WithListen("127.0.0.1:3000", "")),
	} {
		if err == nil {
			t.Errorf("%s is accepted", what)
		}
	}
}

func second(_ *Config, err error) error { return err }

func TestHugeFileIsRefusedWithoutReadingItAll(t *testing.T) {
	name := filepath.Join(t.TempDir(), "huge.yaml")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(1 << 40); err != nil { // takes no space
		t.Skip("the file system has no sparse files")
	}
	if _, err := Load(name); err == nil || !strings.Contains(err.Error(), "at most 4194304 are read") {
		t.Errorf("a file of 1 TiB: %v", err)
	}
}

// A listener that others reach by a token alone sends it in clear text.
func TestATokenWithoutTLSIsWarnedOf(t *testing.T) {
	const text = "version: 1\norigin: {url: http://127.0.0.1:3000}\nadmin: {listen: %s, token: a-token%s}\n"
	for _, c := range []struct {
		listen, more string
		warned       bool
	}{
		{"127.0.0.1:9090", "", false},
		{"0.0.0.0:9090", "", true},
		{"0.0.0.0:9090", ", tls: {cert: a.crt, key: a.key}", false},
	} {
		cfg, err := Parse("text.yaml", fmt.Appendf(nil, text, c.listen, c.more))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(cfg.Source.Warnings.Error(), "admin.token: it crosses the network in clear text"); got != c.warned {
			t.Errorf("%s%s: warned is %t, want %t:\n%v", c.listen, c.more, got, c.warned, cfg.Source.Warnings)
		}
	}
}
