package config

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// examples are the sections of config.yaml that show something instead of the
// defaults; the file says so beside each.
var examples = []string{"tenants.from", "tenants.limit", "tenants.overrides", "class_header", "priority", "routes"}

func loadDefault(t *testing.T) *Config {
	t.Helper()
	c, err := Load("../config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func minimal(t *testing.T) *Config {
	t.Helper()
	c, err := Parse("minimal.yaml", []byte("version: 1\norigin: {url: http://127.0.0.1:3000}\n"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDocumentedExampleLoadsWithoutWarning(t *testing.T) {
	c := loadDefault(t)
	if len(c.Source.Warnings) > 0 {
		t.Errorf("warnings:\n%v", c.Source.Warnings)
	}
	if !c.Listen.Loopback() || !c.Admin.Listen.Loopback() {
		t.Errorf("the example listens on %s and %s, where strangers may reach it", c.Listen, c.Admin.Listen)
	}
}

func TestDocumentedExampleShowsTheDefaults(t *testing.T) {
	for _, change := range Diff(minimal(t), loadDefault(t)) {
		section := regexp.MustCompile(`\[.*`).ReplaceAllString(change.Path, "")
		if !slices.ContainsFunc(examples, func(e string) bool { return section == e || strings.HasPrefix(section, e+".") }) {
			t.Errorf("config.yaml shows another value than the default: %v", change)
		}
	}
}

// disabled finds the settings of config.yaml that are off: #key, #- and, deeper
// in such a block, "#  key".
var disabled = regexp.MustCompile(`(?m)^( *)#( *(?:- )?[{a-z][a-z0-9_]*:.*|- .*|  - .*)$`)

func TestDisabledSettingsOfTheExampleWork(t *testing.T) {
	text := string(read(t, "../config.yaml"))
	if n := len(disabled.FindAllString(text, -1)); n < 20 {
		t.Fatalf("found %d disabled settings only", n)
	}
	// Prose has a space after the #, and a word with a colon is no setting.
	text = disabled.ReplaceAllStringFunc(text, func(line string) string {
		m := disabled.FindStringSubmatch(line)
		return m[1] + m[2]
	})
	text = strings.Replace(text, "  url: http://127.0.0.1:3000\n", "", 1) // urls stands instead
	text = regexp.MustCompile(`(?s)\n  memory:\n.*?(\n  redis:)`).ReplaceAllString(text, "$1")
	loader := Loader{ReadFile: func(string) ([]byte, error) { return []byte(strings.Repeat("0f", 32)), nil }}
	c, err := loader.Parse("config.yaml", []byte(text))
	if err != nil {
		t.Fatalf("with every setting on:\n%v", err)
	}
	if c.TLS == nil || c.Origin.TLS == nil || c.Origin.Health == nil || len(c.Tenants.APIKeys) != 2 || len(c.Tenants.From) != 5 {
		t.Errorf("not every setting was switched on: %s", c.Effective())
	}
}

func TestDocumentedExampleNamesEveryKey(t *testing.T) {
	text := string(read(t, "../config.yaml"))
	var root map[string]any
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatal(err)
	}
	var visit func(v any)
	visit = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if props, ok := v["properties"].(map[string]any); ok {
				for key := range props {
					if !regexp.MustCompile(`\b` + key + `:`).MatchString(text) {
						t.Errorf("config.yaml does not show the key %s", key)
					}
				}
			}
			for _, inner := range v {
				visit(inner)
			}
		case []any:
			for _, inner := range v {
				visit(inner)
			}
		}
	}
	visit(root)
}

func TestDocumentedExampleMarksWhatNeedsARestart(t *testing.T) {
	lines := strings.Split(string(read(t, "../config.yaml")), "\n")
	c := loadDefault(t)
	// Every scalar that a restart is needed for says so: on its own line, or in
	// the comment above its section.
	for _, path := range []string{
		"listen", "admin", "log", "decision_log", "metrics.tenants",
	} {
		i := c.Line(path) - 1
		text := lines[i]
		for i--; i >= 0 && strings.HasPrefix(strings.TrimSpace(lines[i]), "#"); i-- {
			text += lines[i]
		}
		if !strings.Contains(text, "(restart)") {
			t.Errorf("line %d: %s needs a restart, and the comment does not say so", c.Line(path), path)
		}
	}
}
