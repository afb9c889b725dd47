package strict

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"gopkg.in/yaml.v3"
)

// schemaNode is the part of JSON Schema draft-07, which editors know best, that
// the tags can say.
type schemaNode struct {
	Schema        string                 `json:"$schema,omitempty"`
	Title         string                 `json:"title,omitempty"`
	Description   string                 `json:"description,omitempty"`
	Ref           string                 `json:"$ref,omitempty"`
	Type          string                 `json:"type,omitempty"`
	Const         any                    `json:"const,omitempty"`
	Enum          []string               `json:"enum,omitempty"`
	Pattern       string                 `json:"pattern,omitempty"`
	Minimum       json.RawMessage        `json:"minimum,omitempty"`
	Maximum       json.RawMessage        `json:"maximum,omitempty"`
	ExclusiveMin  json.RawMessage        `json:"exclusiveMinimum,omitempty"`
	MinLength     json.RawMessage        `json:"minLength,omitempty"`
	MaxLength     json.RawMessage        `json:"maxLength,omitempty"`
	MinItems      json.RawMessage        `json:"minItems,omitempty"`
	MaxItems      json.RawMessage        `json:"maxItems,omitempty"`
	MinProperties json.RawMessage        `json:"minProperties,omitempty"`
	MaxProperties json.RawMessage        `json:"maxProperties,omitempty"`
	Default       any                    `json:"default,omitempty"`
	Examples      []any                  `json:"examples,omitempty"`
	Items         *schemaNode            `json:"items,omitempty"`
	Properties    map[string]*schemaNode `json:"properties,omitempty"`
	PropertyNames *schemaNode            `json:"propertyNames,omitempty"`
	Additional    any                    `json:"additionalProperties,omitempty"`
	Required      []string               `json:"required,omitempty"`
	AnyOf         []*schemaNode          `json:"anyOf,omitempty"`
	OneOf         []*schemaNode          `json:"oneOf,omitempty"`
	AllOf         []*schemaNode          `json:"allOf,omitempty"`
	Not           *schemaNode            `json:"not,omitempty"`
	Definitions   map[string]*schemaNode `json:"definitions,omitempty"`
}

// substituted is the schema of texts that hold a ${…}, which may stand for any
// kind of single value.
const substituted = "substituted"

// Schema returns the JSON Schema (draft-07) of a tagged struct, for editors. It
// says all that a schema can: keys, kinds, words, patterns, bounds of numbers
// and lengths. What it accepts may still be refused by Decode: bounds of
// quantities, and whatever is checked afterwards.
//
// v is a struct or a pointer to one. comments gives the description of each
// field by "Type.Field", and of each type by "Type"; see package comments.
func Schema(v any, title string, comments map[string]string) []byte {
	t := reflect.Indirect(reflect.ValueOf(v)).Type()
	b := &schemaBuilder{comments: comments, inProgress: map[*plan]bool{}, definitions: map[string]*schemaNode{
		substituted: {Type: "string", Pattern: `\$\{(env|file):[^}]+\}`},
	}}
	root := b.of(planOf(t), nil)
	root.Schema, root.Title, root.Definitions = "http://json-schema.org/draft-07/schema#", title, b.definitions
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(root); err != nil {
		panic(fmt.Sprintf("strict: Schema: %v", err)) // a tree of our own making
	}
	return out.Bytes()
}

type schemaBuilder struct {
	comments    map[string]string
	inProgress  map[*plan]bool
	definitions map[string]*schemaNode
}

// of describes a type, with the bounds of the field that it is used by.
func (b *schemaBuilder) of(p *plan, f *field) *schemaNode {
	if f == nil {
		f = &field{}
	}
	n := &schemaNode{}
	switch p.kind {
	case kindSection:
		return b.section(p)
	case kindList:
		n.Type, n.Items = "array", b.of(p.elem, nil)
		n.MinItems, n.MaxItems = bound(f.min), bound(f.max)
		return n
	case kindMap:
		n.Type, n.Additional = "object", b.of(p.elem, nil)
		n.MinProperties, n.MaxProperties = bound(f.min), bound(f.max)
		if key := planOf(p.base().Key()); key.pattern != "" {
			n.PropertyNames = &schemaNode{Pattern: key.pattern}
		}
		return n
	case kindBool:
		n.Type = "boolean"
	case kindInt:
		n.Type, n.Minimum, n.Maximum, n.ExclusiveMin = "integer", bound(f.min), bound(f.max), bound(f.above)
	default:
		n.Type, n.Enum, n.Pattern = "string", p.values, p.pattern
		if p.kind == kindString || p.base().Kind() == reflect.String {
			n.MinLength, n.MaxLength = bound(f.min), bound(f.max)
		}
		if len(n.Enum) == 0 && n.Pattern == "" && n.MaxLength == nil {
			return n // takes a ${…} as it is
		}
	}
	return &schemaNode{AnyOf: []*schemaNode{n, {Ref: "#/definitions/" + substituted}}}
}

// section describes a struct. One that contains itself becomes a definition.
func (b *schemaBuilder) section(p *plan) *schemaNode {
	name := p.base().Name()
	ref := &schemaNode{Ref: "#/definitions/" + name}
	if b.definitions[name] != nil {
		return ref
	}
	if b.inProgress[p] {
		b.definitions[name] = &schemaNode{} // filled by whoever began it
		return ref
	}
	// The pointer to a struct and the struct itself describe the same section.
	b.inProgress[p], b.inProgress[planOf(p.base())], b.inProgress[planOf(reflect.PointerTo(p.base()))] = true, true, true
	n := &schemaNode{Type: "object", Properties: map[string]*schemaNode{}, Additional: false}
	for _, f := range p.fields {
		n.Properties[f.name] = b.property(p, f, b.of(f.plan, f))
		if f.single != "" {
			n.Properties[f.single] = b.property(p, f, b.of(f.plan.elem, nil))
			if !f.required {
				n.AllOf = append(n.AllOf, &schemaNode{Not: &schemaNode{Required: []string{f.name, f.single}}})
			}
		}
		switch {
		case f.required && f.single != "":
			n.AllOf = append(n.AllOf, oneOf([]string{f.name, f.single}))
		case f.required:
			n.Required = append(n.Required, f.name)
		}
	}
	for _, group := range p.oneOf {
		n.AllOf = append(n.AllOf, oneOf(group))
	}
	delete(b.inProgress, p)
	delete(b.inProgress, planOf(p.base()))
	delete(b.inProgress, planOf(reflect.PointerTo(p.base())))
	if def := b.definitions[name]; def != nil {
		*def = *n
		return ref
	}
	return n
}

// property adds what the field says about its value.
func (b *schemaBuilder) property(p *plan, f *field, n *schemaNode) *schemaNode {
	if n.Ref != "" { // nothing beside a $ref is read
		n = &schemaNode{AllOf: []*schemaNode{n}}
	}
	n.Description = b.comments[p.base().Name()+"."+f.goName]
	if f.restart == "true" {
		n.Description = strings.TrimSpace(n.Description + " (A change needs a restart.)")
	}
	if f.hasDef {
		n.Default = f.literal(f.def)
	}
	if f.example != "" && !f.plan.masked {
		n.Examples = []any{f.literal(f.example)}
	}
	return n
}

// literal turns the text of a tag into JSON.
func (f *field) literal(s string) any {
	if f.plan.kind == kindText || f.plan.kind == kindString {
		return s
	}
	var v any
	if err := yaml.Unmarshal([]byte(s), &v); err != nil {
		panic(fmt.Sprintf("strict: tag of %s: %v", f.name, err))
	}
	return v
}

func oneOf(names []string) *schemaNode {
	n := &schemaNode{}
	for _, name := range names {
		n.OneOf = append(n.OneOf, &schemaNode{Required: []string{name}})
	}
	return n
}

func bound(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}
