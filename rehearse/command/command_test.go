package command

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"sluice/config"
)

const small = "version: 1\norigin: {url: http://127.0.0.1:3000}\ntenants: {from: [{header: X-Tenant-Id}], limit: {rate: 1/s, burst: 2}}\nroutes: [{id: put, match: {path: /put}, class: standard}]\n"

// Three requests of one tenant at once, of which a bucket of two lets two in.
const (
	recordedTwo = `{"kind":"policy","version":1,"ts":"2026-05-01T12:00:00Z","config":"0","classes":["standard"],"fields":["x-tenant-id"],"refusals_per_second":"all","admits_per_second":"all","signals":true}
{"kind":"decision","ts":"2026-05-01T12:00:01Z","id":"one","tenant":"a","class":"standard","route":"put","verdict":"admit","reason":"none","mode":"enforce","status":200,"outcome":"answered","config":"0","decided_us":1,"answered_us":10,"done_us":11,"bytes_in":0,"bytes_out":0,"received":"2026-05-01T12:00:01Z","method":"POST","path":"/put","fields":{"x-tenant-id":["a"]}}
{"kind":"decision","ts":"2026-05-01T12:00:01Z","id":"two","tenant":"a","class":"standard","route":"put","verdict":"admit","reason":"none","mode":"enforce","status":200,"outcome":"answered","config":"0","decided_us":1,"answered_us":10,"done_us":11,"bytes_in":0,"bytes_out":0,"received":"2026-05-01T12:00:01Z","method":"POST","path":"/put","fields":{"x-tenant-id":["a"]}}
`
	recordedThird = `{"kind":"decision","ts":"2026-05-01T12:00:01Z","id":"three","tenant":"a","class":"standard","route":"put","verdict":"refuse","reason":"tenant_limit","mode":"enforce","status":429,"outcome":"not_tried","config":"0","decided_us":1,"done_us":11,"bytes_in":0,"bytes_out":0,"received":"2026-05-01T12:00:01Z","method":"POST","path":"/put","fields":{"x-tenant-id":["a"]}}`
)

// run runs one command line as the program does, in a folder of its own.
func run(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	root := &cobra.Command{Use: "sluice", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(All(func(path string) (*config.Config, error) {
		if path == "" {
			return config.Parse("built-in.yaml", []byte(small))
		}
		return config.Load(path)
	})...)
	var out, errs bytes.Buffer
	root.SetArgs(args)
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	root.SetErr(&errs)
	err := root.ExecuteContext(t.Context())
	var e Exit
	switch {
	case err == nil:
	case errors.As(err, &e):
		code = e.Code
		errs.WriteString(e.Error())
	default:
		code = ExitUsage
		errs.WriteString(err.Error())
	}
	return code, out.String(), errs.String()
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Exit codes are a contract with scripts: 0 fine, 1 found, 2 usage.
func TestExitCodes(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "small.yaml", small)
	write(t, "same.yaml", "# other words\nversion: 1\nroutes:\n  - {id: put, class: standard, match: {path: /put}}\n"+strings.Join(strings.Split(small, "\n")[1:3], "\n")+"\n")
	write(t, "other.yaml", strings.Replace(small, "burst: 2", "burst: 3", 1))
	write(t, "broken.yaml", "version: 1\norigin: 7\n")
	tests := "config: small.yaml\ntests: [{name: gets in, steps: [{request: {path: /put, tenant: a}, expect: {verdict: admit}}]}]\n"
	write(t, "good.test.yaml", tests)
	write(t, "bad.test.yaml", strings.Replace(tests, "verdict: admit", "verdict: refuse", 1))
	write(t, "wrong.test.yaml", strings.Replace(tests, "verdict", "verdikt", 1))
	write(t, "brokenpolicy.test.yaml", strings.Replace(tests, "small.yaml", "broken.yaml", 1))
	write(t, "recorded.jsonl", recordedTwo+recordedThird+"\n")
	write(t, "cut.jsonl", recordedTwo+recordedThird[:len(recordedThird)/2])
	var packed bytes.Buffer
	pack := gzip.NewWriter(&packed)
	_, _ = pack.Write([]byte(recordedTwo + recordedThird))
	pack.Close()
	write(t, "recorded.jsonl.gz", packed.String())
	for _, dir := range []string{"none", "some"} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, "some/good.test.yaml", strings.Replace(tests, "small.yaml", "../small.yaml", 1))

	for _, c := range []struct {
		line, stdin string
		code        int
		out, err    string // what has to be in them
	}{
		{line: "test good.test.yaml", code: 0, out: "1 test passed"},
		{line: "test some", code: 0, out: "1 test passed"},
		{line: "test good.test.yaml --format json", code: 0, out: `"failed": 0`},
		{line: "test bad.test.yaml", code: 1, out: "want refuse  got admit"},
		{line: "test good.test.yaml bad.test.yaml", code: 1, out: "1 of 2 tests failed"},
		{line: "test wrong.test.yaml good.test.yaml", code: 1, out: "1 test passed", err: "did you mean verdict?"},
		{line: "test brokenpolicy.test.yaml", code: 1, err: "broken.yaml:2:9: origin"},
		{line: "test", code: 2, err: "name at least one file"},
		{line: "test none", code: 2, err: "no file of policy tests in none"},
		{line: "test nowhere.test.yaml", code: 2, err: "there is nothing of that name"},
		{line: "test good.test.yaml --run nothing", code: 2, err: "matches no test"},
		{line: "test good.test.yaml --run [", code: 2, err: "--run"},
		{line: "test good.test.yaml --format xml", code: 2, err: "text or json"},
		{line: "test good.test.yaml --junit none/at/all.xml", code: 2, err: "--junit"},

		{line: "explain --path /put --tenant a", code: 0, out: "admit: nothing refuses it (built-in.yaml:4 routes[0])"},
		{line: "explain -c other.yaml --path /put --tenant a --already 3", code: 0, out: "refuse: tenant_limit"},
		{line: "explain -", stdin: `{"request": {"path": "/put", "tenant": "a"}, "already": 2}`, code: 0, out: "refuse: tenant_limit"},
		{line: "explain - --format json", stdin: "request: {path: /put}", code: 0, out: `"verdict": "admit"`},
		{line: "explain -", stdin: `{"request": {"paht": "/put"}}`, code: 2, err: "did you mean path?"},
		{line: "explain - --path /put", stdin: `{}`, code: 2, err: "exclude each other"},
		{line: "explain", code: 2, err: "which request?"},
		{line: "explain --path put", code: 2, err: "from its first slash on"},
		{line: "explain --path /put --client me", code: 2, err: "is not an address"},
		{line: "explain --path /put --header X", code: 2, err: "'Name: value'"},
		{line: "explain --path /put --class high", code: 2, err: "has no class_header"},
		{line: "explain --path /put --signal q=age:5s", code: 2, err: "has no queue"},
		{line: "explain -c broken.yaml --path /put", code: 1, err: "broken.yaml:2:9"},
		{line: "explain what", code: 2, err: "not understood"},
		{line: "explain --id 7 --path /put", code: 2, err: "exclude each other"},
		{line: "explain --id 7 --admin 127.0.0.1:1", code: 4, err: "no gateway answers"},

		{line: "replay recorded.jsonl -c small.yaml", code: 0, out: "0 of 3 decisions change"},
		{line: "replay - -c small.yaml --format json", stdin: recordedTwo, code: 0, out: `"changed": 0`},
		{line: "replay recorded.jsonl -c other.yaml", code: 1, out: "refuse tenant_limit -> admit"},
		{line: "replay recorded.jsonl -c other.yaml --format json", code: 1, out: `"example": "three"`},
		{line: "replay recorded.jsonl recorded.jsonl.gz -c small.yaml", code: 1, out: "6 decisions"},
		{line: "replay cut.jsonl -c small.yaml", code: 0, out: "the last line of cut.jsonl is cut off"},
		{line: "replay recorded.jsonl -c broken.yaml", code: 1, err: "broken.yaml:2:9"},
		{line: "replay nowhere.jsonl -c small.yaml", code: 2, err: "no such file"},
		{line: "replay small.yaml -c small.yaml", code: 2, err: "small.yaml:1: it is not a JSON object"},
		{line: "replay - -c small.yaml", stdin: "", code: 2, err: "there is no decision"},
		{line: "replay", code: 2, err: "name at least one file"},
		{line: "explain -c small.yaml --log recorded.jsonl --id three", code: 0, out: "refuse: tenant_limit, decided by limit"},
		{line: "explain -c small.yaml --log recorded.jsonl --id three --format json", code: 0, out: `"verdict": "refuse"`},
		{line: "explain -c small.yaml --log recorded.jsonl --id four", code: 1, err: "there is no decision about"},
		{line: "explain -c small.yaml --log recorded.jsonl", code: 2, err: "Name it with --id"},

		{line: "diff small.yaml same.yaml", code: 0, out: "the same"},
		{line: "diff small.yaml same.yaml --format json", code: 0, out: `"same": true`},
		{line: "diff small.yaml other.yaml", code: 1, out: "tenants.limit.burst: 2 -> 3"},
		{line: "diff small.yaml other.yaml --format json", code: 1, out: `"new": "3"`},
		{line: "diff small.yaml broken.yaml", code: 2, err: "broken.yaml:2:9"},
		{line: "diff small.yaml nowhere.yaml", code: 2, err: "cannot be read"},
		{line: "diff small.yaml", code: 2, err: "name two files"},
		{line: "diff small.yaml other.yaml --live", code: 2, err: "name one file"},
		{line: "diff small.yaml --live --admin 127.0.0.1:1", code: 4, err: "no gateway answers"},

		{line: "schema", code: 0, out: string(config.Schema())},
		{line: "schema --tests", code: 0, out: "Sluice policy tests"},
		{line: "init -", code: 0, out: string(starter)},
		{line: "init small.yaml", code: 1, err: "is there already and stays as it is"},
		{line: "init none/at/all.yaml", code: 1, err: "no such file"},
		{line: "status --admin nowhere", code: 2, err: "not host:port"},
		{line: "status --admin 127.0.0.1:1", code: 4, err: "no gateway answers"},
		{line: "status --token-file nowhere", code: 2, err: "--token-file"},
		{line: "reload --admin 127.0.0.1:1", code: 4, err: "no gateway answers"},
	} {
		code, stdout, stderr := run(t, c.stdin, strings.Fields(c.line)...)
		if code != c.code || !strings.Contains(stdout, c.out) || !strings.Contains(stderr, c.err) {
			t.Errorf("sluice %s: exit code %d, want %d, with %q on standard output and %q on standard error; got\n%s\n%s",
				c.line, code, c.code, c.out, c.err, stdout, stderr)
		}
		if strings.Contains(c.line, "--format json") && code < 2 && !json.Valid([]byte(stdout)) {
			t.Errorf("sluice %s: standard output is not JSON:\n%s", c.line, stdout)
		}
	}
	if text, err := os.ReadFile("small.yaml"); err != nil || string(text) != small {
		t.Errorf("a file that was there has changed: %v", err)
	}
}

// setting is one that is off, rather than a comment.
var setting = regexp.MustCompile(`^#( {2,})?["a-z_]+(:|\S*":)`)

// What is written to start from is right, and warns of nothing.
func TestStarterIsValid(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	if code, _, stderr := run(t, "", "init", file); code != 0 {
		t.Fatal(stderr)
	}
	cfg, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range cfg.Source.Warnings {
		t.Errorf("it is warned of: %v", w)
	}
	// The settings that are off are right, too.
	text := string(starter)
	for _, line := range strings.Split(text, "\n") {
		body := strings.TrimLeft(line, " ")
		if setting.MatchString(body) {
			text = strings.Replace(text, line, strings.Replace(line, "#", "", 1), 1)
		}
	}
	if text == string(starter) {
		t.Fatal("no setting is off")
	}
	if _, err := config.Parse("config.yaml", []byte(text)); err != nil {
		t.Errorf("with everything switched on:\n%v", err)
	}
}

func TestJUnitIsWritten(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "small.yaml", small)
	write(t, "a.test.yaml", "config: small.yaml\ntests: [{name: gets in, steps: [{request: {path: /put, tenant: a}, expect: {verdict: admit}}]}]\n")
	if code, _, stderr := run(t, "", "test", "a.test.yaml", "--junit", "out.xml"); code != 0 {
		t.Fatal(stderr)
	}
	if text, err := os.ReadFile("out.xml"); err != nil || !strings.Contains(string(text), `<testcase classname="a.test.yaml" name="gets in"`) {
		t.Errorf("out.xml holds %s (%v)", text, err)
	}
}
