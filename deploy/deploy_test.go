// Package deploy holds what Sluice is run with. There is no program here; the
// tests hold image, unit and compose file to the program that they run.
package deploy

import (
	"context"
	"debug/elf"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"sluice/config"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// instructions are the lines of the Dockerfile that begin with a word.
func instructions(t *testing.T, word string) (all []string) {
	t.Helper()
	for line := range strings.Lines(read(t, "../Dockerfile")) {
		if rest, ok := strings.CutPrefix(line, word+" "); ok {
			all = append(all, strings.TrimSpace(rest))
		}
	}
	return all
}

// buildContext copies what the image is built from: the checkout without what
// .dockerignore names.
func buildContext(t *testing.T) string {
	t.Helper()
	var ignored []string
	for line := range strings.Lines(read(t, "../.dockerignore")) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			ignored = append(ignored, line)
		}
	}
	skip := func(path string) bool {
		for _, pattern := range ignored {
			if anywhere, ok := strings.CutPrefix(pattern, "**/"); ok {
				pattern, path = anywhere, filepath.Base(path)
			}
			if ok, _ := filepath.Match(pattern, path); ok {
				return true
			}
		}
		return false
	}
	to := t.TempDir()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel("..", path)
		switch {
		case name != "." && skip(name) && d.IsDir():
			return filepath.SkipDir
		case skip(name):
			return nil
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), data, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// The image's build command makes a binary that needs nothing else, from what
// .dockerignore lets through; the image runs it as somebody who is not root, on
// a configuration that can be reached, and checks its health.
func TestImage(t *testing.T) {
	var build string
	for _, run := range instructions(t, "RUN") {
		if strings.Contains(run, "go build") {
			build = run
		}
	}
	dir := buildContext(t)
	bin := filepath.Join(t.TempDir(), "sluice")
	cmd := exec.Command("sh", "-c", strings.Replace(build, "/out/sluice", bin, 1))
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "VERSION=v9.8.7")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, out)
	}
	f, err := elf.Open(bin)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the binary asks for a dynamic loader")
		}
	}
	if libs, _ := f.ImportedLibraries(); len(libs) > 0 {
		t.Errorf("the binary needs %v", libs)
	}

	for _, c := range instructions(t, "COPY") {
		words := strings.Fields(c)
		for _, source := range words[:len(words)-1] {
			if strings.HasPrefix(source, "--from=") {
				break
			}
			if _, err := os.Stat(filepath.Join(dir, source)); err != nil {
				t.Errorf("COPY %s: %v", c, err)
			}
		}
	}
	if user := instructions(t, "USER"); len(user) != 1 || !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(user[0]) {
		t.Errorf("USER %v: want the numbers of a user and a group that are not root", user)
	}

	run := func(args ...string) string {
		cmd := exec.Command(bin, args...)
		cmd.Env = []string{"SLUICE_ORIGIN=http://api:3000"} // nothing else, as in the image
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v", args, err)
		}
		return string(out)
	}
	if got := run("version"); !strings.Contains(got, "v9.8.7") {
		t.Errorf("version: %s", got)
	}
	run("validate", "container.yaml")
	t.Setenv("SLUICE_ORIGIN", "http://api:3000")
	cfg, err := config.Load("container.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Listen.Loopback() || string(cfg.Origin.URLs[0]) != "http://api:3000" {
		t.Errorf("listen %s, origin %s", cfg.Listen, cfg.Origin.URLs)
	}
	// The image's health check asks at the default address.
	if help := run("healthcheck", "--help"); !strings.Contains(help, string(cfg.Admin.Listen)) {
		t.Errorf("the health check asks elsewhere than %s:\n%s", cfg.Admin.Listen, help)
	}
}

// What the compose file mounts, publishes and starts exists.
func TestCompose(t *testing.T) {
	var compose struct {
		Services map[string]struct {
			Command     []string
			Ports       []string
			Volumes     []string
			Environment map[string]string
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "compose.yaml")), &compose); err != nil {
		t.Fatal(err)
	}
	s := compose.Services["sluice"]
	for name := range s.Environment {
		t.Setenv(name, "value")
	}
	file, target, _ := strings.Cut(s.Volumes[0], ":")
	if !strings.Contains(read(t, "../Dockerfile"), strings.TrimSuffix(target, ":ro")) {
		t.Errorf("the image does not read %s", target)
	}
	cfg, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range []config.Address{cfg.Listen, cfg.Admin.Listen} {
		if a.Loopback() || !strings.HasSuffix(s.Ports[i], ":"+strings.TrimPrefix(string(a), "0.0.0.0:")) {
			t.Errorf("%s is published as %s", a, s.Ports[i])
		}
	}
	if cfg.Admin.Token.IsZero() {
		t.Error("the admin port is published without a token")
	}
	for _, host := range []string{"redis", "api"} {
		if _, ok := compose.Services[host]; !ok {
			t.Errorf("there is no service %s, which the configuration names", host)
		}
	}
	help, _ := exec.Command("go", "run", "./sampleapi", "-help").CombinedOutput()
	for _, service := range []string{"api", "worker"} {
		for _, arg := range compose.Services[service].Command {
			if strings.HasPrefix(arg, "-") && !strings.Contains(string(help), "\n  "+arg+" ") {
				t.Errorf("%s: sampleapi has no flag %s", service, arg)
			}
		}
	}
}

// The unit gives the gateway the time that it takes to drain, and systemd
// understands it.
func TestUnit(t *testing.T) {
	unit := read(t, "sluice.service")
	m := regexp.MustCompile(`(?m)^TimeoutStopSec=(\S+)$`).FindStringSubmatch(unit)
	if m == nil {
		t.Fatal("no TimeoutStopSec")
	}
	stop, err := time.ParseDuration(m[1])
	cfg, err2 := config.Parse("default", []byte("version: 1\norigin: {url: http://127.0.0.1:3000}\n"))
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	if need := time.Duration(cfg.Shutdown.Drain + cfg.Shutdown.Timeout); stop < need+5*time.Second {
		t.Errorf("TimeoutStopSec=%v; draining takes up to %v", stop, need)
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	// The program is not installed here; any that is there will do.
	file := filepath.Join(t.TempDir(), "sluice.service")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(unit, "/usr/local/bin/sluice", "/bin/true")), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, analyze, "verify", file).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
