package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"sluice/admission"
	"sluice/config"
)

// The documents are run as a reader would: each is one shell session in a
// folder of its own. Fenced blocks mean:
//
//	console     commands after "$ ", and their output, in which … stands for
//	            anything: within a line, or as a whole line for any lines
//	yaml NAME   is saved as NAME
//	yaml        has to be a valid configuration, by itself or completed
//	sh          is for the reader's checkout: its commands have to exist
//
// Ports are replaced by free ones. Commands that end in & or start one are
// waited for until they answer.
var documents = []string{"README.md", "docs/idempotency.md", "docs/operations.md", "docs/rehearse.md"}

// block is one fenced block of a document.
type block struct {
	line       int // of its first line
	kind, name string
	lines      []string
}

var fence = regexp.MustCompile("^```(\\w*) ?(.*)$")

func blocksOf(t *testing.T, document string) (blocks []block) {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	inside := false
	for i, line := range strings.Split(string(text), "\n") {
		m := fence.FindStringSubmatch(line)
		switch {
		case m != nil && inside:
			inside = false
		case m != nil:
			blocks, inside = append(blocks, block{line: i + 2, kind: m[1], name: m[2]}), true
		case inside:
			b := &blocks[len(blocks)-1]
			b.lines = append(b.lines, line)
		}
	}
	if inside {
		t.Fatalf("%s:%d: a block without end", document, blocks[len(blocks)-1].line)
	}
	return blocks
}

func TestDocuments(t *testing.T) {
	bin := t.TempDir()
	if err := os.Symlink(program, filepath.Join(bin, "sluice")); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", bin, "./deploy/sampleapi").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, document := range documents {
		t.Run(filepath.Base(document), func(t *testing.T) {
			t.Parallel()
			blocks := blocksOf(t, document)
			commands := 0
			sh := startShell(t, bin)
			for _, b := range blocks {
				switch b.kind {
				case "console":
					commands += sh.run(document, b)
				case "yaml":
					sh.save(document, b)
				}
			}
			if commands == 0 && document == "README.md" {
				t.Error("the document has no commands")
			}
		})
	}
}

// shell is a bash that a document's commands are run in.
type shell struct {
	t     *testing.T
	dir   string
	ports *strings.Replacer
	in    io.Writer
	out   *bufio.Reader
}

// end follows each command's output.
const end = "-- end of output --"

func startShell(t *testing.T, bin string) *shell {
	sh := &shell{t: t, dir: t.TempDir()}
	var pairs []string
	for _, port := range []string{"8080", "9090", "3000", "6380"} {
		pairs = append(pairs, port, freePort(t))
	}
	sh.ports = strings.NewReplacer(pairs...)

	cmd := exec.Command("bash", "--norc")
	cmd.Dir = sh.dir
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "LC_ALL=C.UTF-8")
	// A group of its own, so that whatever was started in it can be ended.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		r.Close()
	})
	sh.in, sh.out = in, bufio.NewReader(r)
	return sh
}

func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)
}

// run runs the commands of a console block and compares their output.
func (sh *shell) run(document string, b block) (commands int) {
	sh.t.Helper()
	for i := 0; i < len(b.lines); {
		command, ok := strings.CutPrefix(b.lines[i], "$ ")
		if !ok {
			sh.t.Fatalf("%s:%d: output without a command: %s", document, b.line+i, b.lines[i])
		}
		line := b.line + i
		var want []string
		for i++; i < len(b.lines) && !strings.HasPrefix(b.lines[i], "$ "); i++ {
			want = append(want, b.lines[i])
		}
		commands++
		got := sh.execute(command)
		if got = strings.TrimRight(got, "\n"); got != "" {
			got += "\n"
		}
		if !outputPattern(want).MatchString(got) {
			sh.t.Fatalf("%s:%d: $ %s\ngot:\n%s\nwant:\n%s\n%s", document, line, command, got, strings.Join(want, "\n"), sh.logs())
		}
	}
	return commands
}

// outputPattern is what the output has to be like: … stands for anything within
// a line, and for any lines where it stands alone.
func outputPattern(want []string) *regexp.Regexp {
	var re strings.Builder
	re.WriteString(`\A`)
	for _, line := range want {
		if line == "…" {
			re.WriteString(`(?:.*\n)*`)
			continue
		}
		re.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + `\n`)
	}
	re.WriteString(`\z`)
	return regexp.MustCompile(re.String())
}

// started are programs that documents start in the background, and the port
// that each answers at, as documents have it.
var started = []struct{ command, ready string }{
	{"sluice run ", "sluice healthcheck --admin 127.0.0.1:9090"},
	{"sampleapi -listen ", "curl -s 127.0.0.1:3000"},
	{"redis-server ", "redis-cli -p 6380 ping"},
}

// execute runs one command and returns what it printed.
func (sh *shell) execute(command string) string {
	sh.t.Helper()
	text := command + "\n"
	for _, s := range started {
		if strings.HasPrefix(command, s.command) {
			text += "for n in {1..400}; do " + s.ready + " > /dev/null 2>&1 && break; sleep 0.025; done\n"
		}
	}
	text = sh.ports.Replace(text) + "echo; echo '" + end + "'\n"
	if _, err := io.WriteString(sh.in, text); err != nil {
		sh.t.Fatal(err)
	}
	done := make(chan string, 1)
	go func() {
		var out strings.Builder
		for {
			line, err := sh.out.ReadString('\n')
			if err != nil || strings.TrimSpace(line) == end {
				done <- strings.ReplaceAll(out.String(), "\r", "")
				return
			}
			out.WriteString(line)
		}
	}()
	select {
	case out := <-done:
		return strings.TrimSuffix(out, "\n")
	case <-time.After(30 * time.Second):
		sh.t.Fatalf("$ %s\ndid not end\n%s", command, sh.logs())
		return ""
	}
}

// logs are the log files in the shell's folder, for failures.
func (sh *shell) logs() string {
	files, _ := filepath.Glob(filepath.Join(sh.dir, "*.log"))
	var all strings.Builder
	for _, f := range files {
		text, _ := os.ReadFile(f)
		fmt.Fprintf(&all, "%s:\n%s\n", filepath.Base(f), text)
	}
	return all.String()
}

// save checks a configuration, and saves it where it has a name.
func (sh *shell) save(document string, b block) {
	sh.t.Helper()
	text := strings.Join(b.lines, "\n") + "\n"
	if strings.HasSuffix(b.name, ".test.yaml") { // tests of a policy; to be run
		write(sh.t, filepath.Join(sh.dir, b.name), text)
		return
	}
	name := filepath.Join(sh.dir, "snippet.yaml")
	if b.name != "" {
		name = filepath.Join(sh.dir, b.name)
	}
	write(sh.t, name, sh.ports.Replace(completed(sh.t, text)))
	if code, _, errOut := runProgram(sh.t, "validate", name); code != 0 {
		sh.t.Fatalf("%s:%d: not a valid configuration:\n%s", document, b.line, errOut)
	}
	if b.name != "" {
		sh.listenOn(name, text)
	}
}

// listenOn adds the ports that a configuration leaves to their defaults.
func (sh *shell) listenOn(name, text string) {
	for key, line := range map[string]string{"listen": "listen: 127.0.0.1:8080\n", "admin": "admin: {listen: 127.0.0.1:9090}\n"} {
		if !strings.Contains("\n"+text, "\n"+key+":") {
			text += line
		}
	}
	write(sh.t, name, sh.ports.Replace(text))
}

// completed adds to a piece of a configuration the sections that it leaves out.
func completed(t *testing.T, text string) string {
	t.Helper()
	var has map[string]any
	if err := yaml.Unmarshal([]byte(text), &has); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if has["version"] != nil {
		return text
	}
	text += "version: 1\n"
	if has["origin"] == nil {
		text += "origin: {url: http://127.0.0.1:3000}\n"
	}
	return text
}

// Commands for the reader's checkout have to exist.
func TestCheckoutCommands(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range documents {
		for _, b := range blocksOf(t, document) {
			if b.kind != "sh" {
				continue
			}
			for i, line := range b.lines {
				words := strings.Fields(line)
				ok := false
				switch {
				case len(words) == 0:
					continue
				case words[0] == "make" && len(words) == 2:
					ok = regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(words[1]) + `:`).Match(makefile)
				case strings.HasPrefix(line, "go run . "):
					code, _, _ := runProgram(t, append(words[3:], "--help")...)
					ok = code == 0
				case strings.HasPrefix(line, "go build "), strings.HasPrefix(line, "export PATH="):
					ok = true // TestDocuments builds the same
				case words[0] == "docker", words[0] == "systemctl", words[0] == "install", words[0] == "sudo":
					ok = true // no engine or service manager to ask
				}
				if !ok {
					t.Errorf("%s:%d: this command is not checked, or does not exist: %s", document, b.line+i, line)
				}
			}
		}
	}
}

// Links inside the project lead somewhere.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)]+)\)`)
	for _, document := range documents {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(m[1], "#")
			target := document
			if path != "" {
				target = filepath.Join(filepath.Dir(document), path)
			}
			if info, err := os.Stat(target); err == nil && info.IsDir() {
				continue
			}
			content, err := os.ReadFile(target)
			if err != nil {
				t.Errorf("%s links to %s: %v", document, m[1], err)
				continue
			}
			if anchor != "" && !slices.Contains(anchors(string(content)), anchor) {
				t.Errorf("%s links to %s, which has no such heading", document, m[1])
			}
		}
	}
}

// anchors are the names that headings get in HTML.
func anchors(markdown string) (all []string) {
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(markdown, -1) {
		all = append(all, strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return all
}

// The table of refusals is the one that the program answers by.
func TestReasonTable(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## What it refuses, and how")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[string][]string{}
	var order []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([^|]+) \\| ([^|]+) \\| ([^|]+) \\|$").FindAllStringSubmatch(section, -1) {
		if rows[m[1]] != nil {
			t.Errorf("%s stands in the table twice", m[1])
		}
		rows[m[1]] = m[2:]
		order = append(order, m[1])
	}
	for _, r := range admission.Reasons() {
		row := rows[r.String()]
		delete(rows, r.String())
		if row == nil {
			t.Errorf("the table lacks %s", r)
			continue
		}
		if !strings.HasPrefix(row[0], strconv.Itoa(r.Status())) {
			t.Errorf("%s: the table says %s, the program %d", r, row[0], r.Status())
		}
		if carries := row[1] != "–"; carries != r.Retryable() {
			t.Errorf("%s: the table says of Retry-After: %s; the program carries it: %v", r, row[1], r.Retryable())
		}
	}
	for name := range rows {
		t.Errorf("the table has %s, which is no reason", name)
	}
	if len(order) != len(admission.Reasons()) {
		t.Errorf("the table has %d rows", len(order))
	}
}

// The table of settings has all of an idempotency policy.
func TestIdempotencyTable(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "| setting | default | protects from |")
	section, _, _ = strings.Cut(section, "\n\n")
	settings := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_0-9]+)` \\| ([^|]+) \\|").FindAllStringSubmatch(section, -1) {
		settings[m[1]] = strings.Trim(m[2], "`")
	}
	policy := reflect.TypeFor[config.Idempotency]()
	for i := range policy.NumField() {
		tag := policy.Field(i).Tag
		name := tag.Get("yaml")
		shown, there := settings[name]
		if !there {
			t.Errorf("the table lacks %s", name)
		}
		if d := tag.Get("default"); d != "" && shown != d {
			t.Errorf("%s: the table says that its default is %s; it is %s", name, shown, d)
		}
		delete(settings, name)
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		t.Errorf("the table has %s, which is no setting", name)
	}
}
