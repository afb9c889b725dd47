package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/config/strict/schematest"
)

// FuzzParse checks of any text at all: the loader does not panic and ends soon;
// problems point into the file, in order, and say something; and what loads
// can be written, read again to the same config, and is accepted by the schema.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/bad/*.yaml", "testdata/good/*.yaml", "../config.yaml"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			f.Add(read(f, file))
		}
	}
	schema := schematest.Compile(f, Schema())
	loader := testLoader()
	loader.ReadFile = func(string) ([]byte, error) { return nil, os.ErrNotExist }
	f.Fuzz(func(t *testing.T, data []byte) {
		began := time.Now()
		c, err := loader.Parse("fuzz.yaml", data)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("took %v for %d bytes", took, len(data))
		}
		if err != nil {
			checkProblems(t, data, err)
			return
		}
		if doc, ok := schematest.Value(t, data); ok && !strings.Contains(string(data), "<<") {
			if err := schema.Validate(doc); err != nil {
				t.Errorf("the schema refuses what the loader accepts: %v", err)
			}
		}
		checkRoundTrip(t, c)
	})
}

func checkProblems(t *testing.T, data []byte, err error) {
	t.Helper()
	var problems Problems
	if !errors.As(err, &problems) || len(problems) == 0 {
		t.Fatalf("not a list of problems: %v", err)
	}
	lines := 1 + strings.Count(string(data), "\n") + strings.Count(string(data), "\r") +
		strings.Count(string(data), "\u2028") + strings.Count(string(data), "\u2029") + strings.Count(string(data), "\u0085")
	last := 0
	for _, p := range problems {
		if p.Line < 1 || p.Line > lines || p.Column < 1 || p.Line < last || p.Message == "" {
			t.Errorf("bad problem in a file of %d lines: %+v", lines, p)
		}
		last = p.Line
	}
}

// checkRoundTrip writes c and reads it again.
func checkRoundTrip(t *testing.T, c *Config) {
	t.Helper()
	if len(c.Tenants.APIKeys)+len(c.Store.Encrypt)+len(c.Store.Secrets) > 0 || c.Store.Redis != nil || len(c.Queues) > 0 {
		return // written masked
	}
	// The text is in another folder than the file that c came from, so that
	// paths relative to that may not move.
	text := c.Effective()
	again, err := testLoader().Parse("effective.yaml", text)
	if err != nil {
		t.Errorf("what is in effect does not load: %v\n%s", err, text)
		return
	}
	if changes := Diff(c, again); len(changes) > 0 {
		t.Errorf("what is in effect reads as something else: %v\n%s", changes, text)
	}
	if diff := cmp.Diff(string(text), string(again.Effective())); diff != "" {
		t.Errorf("what is in effect differs the second time: %s", diff)
	}
}
