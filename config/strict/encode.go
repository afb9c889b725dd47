package strict

import (
	"bytes"
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// mask stands for values that are never shown.
const mask = "********"

// Encode writes a tagged struct as YAML, in the order of its fields, with every
// value that it has in effect. What is unset and has no default is left out;
// masked values are shown as asterisks. Reading the result gives the same
// struct, masked values apart.
//
// v is a struct or a pointer to one. Encode panics on anything else.
func Encode(v any) []byte {
	rv := reflect.Indirect(reflect.ValueOf(v))
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(nodeOf(planOf(rv.Type()), rv)); err != nil {
		panic(fmt.Sprintf("strict: Encode: %v", err)) // a tree of our own making
	}
	return out.Bytes()
}

// nodeOf turns a value into YAML.
func nodeOf(p *plan, v reflect.Value) *yaml.Node {
	if p.pointer {
		v = v.Elem()
	}
	n := &yaml.Node{}
	switch p.kind {
	case kindSection:
		n.Kind = yaml.MappingNode
		for _, f := range p.fields {
			if fv := v.Field(f.index); !f.omitted(fv) {
				n.Content = append(n.Content, text(f.name), nodeOf(f.plan, fv))
			}
		}
	case kindList:
		n.Kind = yaml.SequenceNode
		for i := range v.Len() {
			n.Content = append(n.Content, nodeOf(p.elem, v.Index(i)))
		}
		if p.elem.scalar() {
			n.Style = yaml.FlowStyle
		}
	case kindMap:
		n.Kind = yaml.MappingNode
		for _, key := range sortedKeys(v) {
			n.Content = append(n.Content, text(key.String()), nodeOf(p.elem, v.MapIndex(key)))
		}
	case kindBool, kindInt:
		n.Kind, n.Value = yaml.ScalarNode, scalarText(p, v)
	default:
		return text(strings.ReplaceAll(scalarText(p, v), "$", "$$"))
	}
	return n
}

// text is a YAML text, quoted where it would read as something else.
func text(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	if s == "<<" {
		n.Style = yaml.DoubleQuotedStyle // the library takes it for a text as it is
	}
	return n
}

// scalar reports whether values of the type are single values.
func (p *plan) scalar() bool {
	return p.kind != kindSection && p.kind != kindList && p.kind != kindMap
}

// scalarText is the text of a single value, as files have it; asterisks for
// masked ones.
func scalarText(p *plan, v reflect.Value) string {
	switch {
	case p.masked:
		return mask
	case p.kind == kindBool:
		return strconv.FormatBool(v.Bool())
	case p.kind == kindInt:
		return strconv.FormatInt(v.Int(), 10)
	}
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		out, err := m.MarshalText()
		if err != nil {
			return fmt.Sprintf("(%v)", err)
		}
		return string(out)
	}
	return v.String()
}

// omitted reports whether a field is left out of the file: it is unset, and
// leaving it out means just that.
func (f *field) omitted(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer:
		return v.IsNil()
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	}
	return v.IsZero() && !f.hasDef && !f.required && f.plan.scalar()
}

func sortedKeys(m reflect.Value) []reflect.Value {
	keys := m.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	return keys
}
