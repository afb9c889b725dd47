package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/config/strict"
	"sluice/config/strict/comments"
	"sluice/config/strict/schematest"
)

var update = flag.Bool("update", false, "write what the tests find instead of comparing with it")

// generateSchema builds the schema from the structs as they are now.
func generateSchema(t *testing.T) []byte {
	t.Helper()
	docs, err := comments.Read(".")
	if err != nil {
		t.Fatal(err)
	}
	return strict.Schema(Config{}, "Sluice configuration", docs)
}

func TestSchemaIsCurrent(t *testing.T) {
	want := generateSchema(t)
	if *update {
		if err := os.WriteFile("config.schema.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(Schema(), want) {
		t.Error("config.schema.json is not what the structs say; run: go generate ./config")
	}
}

func TestSchemaDescribesEveryKey(t *testing.T) {
	var root map[string]any
	if err := json.Unmarshal(generateSchema(t), &root); err != nil {
		t.Fatal(err)
	}
	keys := 0
	var visit func(path string, v any)
	visit = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if props, ok := v["properties"].(map[string]any); ok {
				for key, p := range props {
					keys++
					if p.(map[string]any)["description"] == nil {
						t.Errorf("%s.%s has no description: comment its field", path, key)
					}
				}
			}
			for key, inner := range v {
				visit(path+"."+key, inner)
			}
		case []any:
			for _, inner := range v {
				visit(path, inner)
			}
		}
	}
	visit("", root)
	if keys < 80 {
		t.Errorf("the schema has %d keys only", keys)
	}
}

func TestSchemaAcceptsWhatTheLoaderAccepts(t *testing.T) {
	schema := schematest.Compile(t, Schema())
	for _, file := range append(glob(t, "testdata/good/*.yaml"), "../config.yaml") {
		doc, ok := schematest.Value(t, read(t, file))
		if !ok {
			t.Errorf("%s does not read as YAML", file)
			continue
		}
		if err := schema.Validate(doc); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// The mistakes named in testdata/beyond-schema.json, with the reason, are those
// that the loader alone finds: no single value shows them, or no pattern or
// bound of JSON Schema can express them.
func TestSchemaRefusesWhatTheLoaderRefuses(t *testing.T) {
	var beyondSchema map[string]string
	if err := json.Unmarshal(read(t, "testdata/beyond-schema.json"), &beyondSchema); err != nil {
		t.Fatal(err)
	}
	schema := schematest.Compile(t, Schema())
	for _, file := range glob(t, "testdata/bad/*.yaml") {
		doc, ok := schematest.Value(t, read(t, file))
		if !ok {
			continue // not even YAML to an editor
		}
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		err := schema.Validate(doc)
		_, beyond := beyondSchema[name]
		switch {
		case err == nil && !beyond:
			t.Errorf("the schema accepts %s, which the loader refuses", file)
		case err != nil && beyond:
			t.Errorf("the schema refuses %s now: remove it from testdata/beyond-schema.json", file)
		}
		delete(beyondSchema, name)
	}
	for name := range beyondSchema {
		t.Errorf("testdata/beyond-schema.json names %s, which is no file of testdata/bad", name)
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no files match %s (%v)", pattern, err)
	}
	return files
}

func read(t testing.TB, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
