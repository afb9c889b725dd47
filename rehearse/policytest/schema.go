package policytest

import _ "embed"

//go:generate go test . -run TestSchemaIsCurrent -update

//go:embed test.schema.json
var schema []byte

// Schema is the JSON Schema (draft-07) of files of policy tests, for editors.
func Schema() []byte { return append([]byte(nil), schema...) }
