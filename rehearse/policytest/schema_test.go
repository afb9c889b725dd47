package policytest

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"sluice/config/strict"
	"sluice/config/strict/comments"
	"sluice/config/strict/schematest"
)

func TestSchemaIsCurrent(t *testing.T) {
	docs, err := comments.Read(".")
	if err != nil {
		t.Fatal(err)
	}
	shared, err := comments.Read("../spec")
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(docs, shared)
	want := strict.Schema(File{}, "Sluice policy tests", docs)
	if *update {
		if err := os.WriteFile("test.schema.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(Schema(), want) {
		t.Error("test.schema.json is not what the structs say; run: go generate ./rehearse/policytest")
	}
}

// Editors accept what is shipped, and complain of what is wrong in its form.
func TestSchemaAgreesWithTheLoader(t *testing.T) {
	s := schematest.Compile(t, Schema())
	files, err := filepath.Glob("../../examples/*" + Suffix)
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	files = append(files, "testdata/fails.test.yaml")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(t, s, data); err != nil {
			t.Errorf("%s: the schema refuses what the loader takes: %v", file, err)
		}
		if err := validate(t, s, []byte(strings.Replace(string(data), "expect:", "expects:", 1))); err == nil {
			t.Errorf("%s: the schema takes a key that there is not", file)
		}
	}
}

func validate(t *testing.T, s *jsonschema.Schema, data []byte) error {
	t.Helper()
	value, ok := schematest.Value(t, data)
	if !ok {
		t.Fatalf("this is no YAML:\n%s", data)
	}
	return s.Validate(value)
}
