package strict

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// kind says how a Go type is written in YAML.
type kind uint8

const (
	kindSection kind = iota // a struct
	kindList
	kindMap
	kindBool
	kindInt
	kindString
	kindText // has UnmarshalText
)

// plan describes how one Go type is written. It is compiled once a type and
// immutable afterwards.
type plan struct {
	typ     reflect.Type
	kind    kind
	pointer bool  // typ is a pointer to what the rest describes
	elem    *plan // of lists and maps
	fields  []*field
	byName  map[string]*field // also by single
	oneOf   [][]string
	values  []string // of an enumeration
	what    string   // "a duration such as 10s"
	pattern string
	masked  bool
}

// field describes one key of a section.
type field struct {
	name     string
	single   string
	index    int
	goName   string
	plan     *plan
	def      string // the text of the tag
	hasDef   bool
	once     sync.Once
	defValue reflect.Value // of single values, read once
	required bool
	min, max string
	above    string
	example  string
	aka      []string
	restart  string // "", "true" or "presence"
	identity bool
}

// Enumeration is implemented by string types that allow a few words only.
type Enumeration interface{ Values() []string }

// Grammar is implemented by types that can say what their values look like:
// in words ("a duration such as 10s") and as a regular expression over the
// whole text ("" for any text).
type Grammar interface{ Grammar() (what, pattern string) }

// Masked is implemented by types whose values are never shown.
type Masked interface{ Masked() }

var (
	textType   = reflect.TypeFor[encoding.TextUnmarshaler]()
	maskedType = reflect.TypeFor[Masked]()

	plansMu sync.Mutex
	plans   = map[reflect.Type]*plan{}
)

// planOf compiles the description of a type, or finds it.
func planOf(t reflect.Type) *plan {
	plansMu.Lock()
	defer plansMu.Unlock()
	return compile(t)
}

func compile(t reflect.Type) *plan {
	if p := plans[t]; p != nil {
		return p
	}
	p := &plan{typ: t}
	plans[t] = p // before its parts: types may contain themselves
	base := t
	if t.Kind() == reflect.Pointer {
		base, p.pointer = t.Elem(), true
	}
	zero := reflect.New(base)
	if g, ok := zero.Interface().(Grammar); ok {
		p.what, p.pattern = g.Grammar()
	}
	if e, ok := zero.Interface().(Enumeration); ok {
		p.values = e.Values()
	}
	p.masked = zero.Type().Implements(maskedType)
	switch {
	case zero.Type().Implements(textType):
		p.kind = kindText
		p.what = orElse(p.what, "a text")
	case base.Kind() == reflect.Struct:
		p.kind = kindSection
		p.what = orElse(p.what, "a section of keys")
		p.compileFields(base)
	case base.Kind() == reflect.Slice:
		p.kind, p.elem = kindList, compile(base.Elem())
		p.what = orElse(p.what, "a list")
	case base.Kind() == reflect.Map && base.Key().Kind() == reflect.String:
		p.kind, p.elem = kindMap, compile(base.Elem())
		p.what = orElse(p.what, "a section of names")
	case base.Kind() == reflect.Bool:
		p.kind, p.what = kindBool, "true or false"
	case base.Kind() == reflect.Int || base.Kind() == reflect.Int64:
		p.kind = kindInt
		p.what = orElse(p.what, "a whole number")
	case base.Kind() == reflect.String:
		p.kind = kindString
		p.what = orElse(p.what, "a text")
		if p.values != nil {
			p.what = choice(p.values)
		}
	default:
		panic(fmt.Sprintf("strict: type %v cannot be read from a file", t))
	}
	return p
}

// compileFields reads the tags of a struct.
func (p *plan) compileFields(t reflect.Type) {
	p.byName = map[string]*field{}
	for i := range t.NumField() {
		sf := t.Field(i)
		if sf.Name == "_" {
			if group := sf.Tag.Get("exactly_one"); group != "" {
				p.oneOf = append(p.oneOf, strings.Split(group, ","))
			}
			continue
		}
		name := sf.Tag.Get("yaml")
		if name == "" || name == "-" {
			continue
		}
		f := &field{
			name: name, index: i, goName: sf.Name, plan: compile(sf.Type),
			single:   sf.Tag.Get("single"),
			required: sf.Tag.Get("required") == "true",
			restart:  sf.Tag.Get("restart"),
			identity: sf.Tag.Get("identity") == "true",
			min:      sf.Tag.Get("min"), max: sf.Tag.Get("max"), above: sf.Tag.Get("above"),
			example: sf.Tag.Get("example"),
		}
		f.def, f.hasDef = sf.Tag.Lookup("default")
		if aka := sf.Tag.Get("aka"); aka != "" {
			f.aka = strings.Split(aka, ",")
		}
		if f.single != "" && f.plan.kind != kindList {
			panic(fmt.Sprintf("strict: %v.%s: single needs a list", t, sf.Name))
		}
		p.fields = append(p.fields, f)
		for _, n := range []string{f.name, f.single} {
			if n == "" {
				continue
			}
			if p.byName[n] != nil {
				panic(fmt.Sprintf("strict: %v: two fields are called %q", t, n))
			}
			p.byName[n] = f
		}
	}
	for _, group := range p.oneOf {
		for _, name := range group {
			if p.byName[name] == nil {
				panic(fmt.Sprintf("strict: %v: exactly_one names %q, which is no key", t, name))
			}
		}
	}
}

// keys lists the keys of a section in the order of the struct.
func (p *plan) keys() []string {
	var names []string
	for _, f := range p.fields {
		names = append(names, f.name)
		if f.single != "" {
			names = append(names, f.single)
		}
	}
	return names
}

func orElse(s, other string) string {
	if s != "" {
		return s
	}
	return other
}

// base is the type that values have behind the pointer, if there is one.
func (p *plan) base() reflect.Type {
	if p.pointer {
		return p.typ.Elem()
	}
	return p.typ
}
