// Package schematest validates YAML against a JSON schema in tests, as an editor
// does.
package schematest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"
)

// Compile makes a schema ready to validate with.
func Compile(t testing.TB, schema []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// Value reads YAML as an editor would, or reports that it can't.
func Value(t testing.TB, data []byte) (any, bool) {
	t.Helper()
	var v any
	if err := yaml.Unmarshal(data, &v); err != nil {
		return nil, false
	}
	text, err := json.Marshal(textKeys(v))
	if err != nil {
		return nil, false
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return doc, true
}

// textKeys makes every key a text, as JSON has them.
func textKeys(v any) any {
	switch v := v.(type) {
	case map[any]any:
		out := map[string]any{}
		for key, inner := range v {
			out[fmt.Sprint(key)] = textKeys(inner)
		}
		return out
	case map[string]any:
		for key, inner := range v {
			v[key] = textKeys(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = textKeys(inner)
		}
	}
	return v
}
