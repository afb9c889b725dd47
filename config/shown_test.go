package config

import (
	"path/filepath"
	"strings"
	"testing"
)

// What a gateway shows of its configuration can be read again and compared, for
// every good file there is, whatever secrets are in it; and the reading of one
// is the reading of its showing.
func TestShownCanBeCompared(t *testing.T) {
	files, err := filepath.Glob("testdata/good/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%v, %d files", err, len(files))
	}
	for _, file := range files {
		cfg, err := testLoader().Load(file)
		if err != nil {
			t.Fatal(err)
		}
		shown, err := ParseShown(file, cfg.Shown())
		if err != nil {
			t.Errorf("what is shown of %s cannot be read: %v", file, err)
			continue
		}
		again, err := ParseShown(file, shown.Shown())
		if err != nil {
			t.Fatal(err)
		}
		if changes := Diff(shown, again); len(changes) > 0 {
			t.Errorf("%s differs from itself: %v", file, changes)
		}
	}
}

// No credential is shown, also where the configuration does not know it for one.
func TestShownHidesCredentials(t *testing.T) {
	text := strings.ToLower(string(parse(t, `version: 1
origin: {url: http://127.0.0.1:3000}
admin: {token: hidden-token-of-the-listener}
store: {redis: {url: "redis://user:hidden-password@127.0.0.1:6379/0"}, secrets: [hidden-secret-of-the-store]}
queues:
  orders: {max_useful_age: 5m, signal: {http: {url: "http://reader:hidden-password@127.0.0.1:3000/queue", age: /age, token: hidden-bearer}}}
`).Shown()))
	if strings.Contains(text, "hidden") {
		t.Errorf("a credential is shown:\n%s", text)
	}
	if !strings.Contains(text, "http://********@127.0.0.1:3000/queue") {
		t.Errorf("an address without its credentials is not shown:\n%s", text)
	}
}
