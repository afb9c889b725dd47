package strict

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"

	"gopkg.in/yaml.v3"
)

// decoder walks one document along the plan of the struct that it fills.
type decoder struct {
	src   Source
	doc   *Document
	root  *plan
	nodes int
	depth int
	// Nesting of aliases, and the nodes seen inside them.
	aliases, aliased int
	open             map[*yaml.Node]bool // anchored nodes being read, to find circles
	full             bool                // a bound was hit: stop, having said so once
	// literal is set while reading defaults: no substitution.
	literal bool
}

func (d *decoder) decodeRoot(n *yaml.Node, v reflect.Value) {
	d.open = map[*yaml.Node]bool{}
	d.doc.entries[""] = &entry{key: position{1, 1}, value: pos(n)}
	d.value(n, d.root, nil, "", v)
}

// value reads n into v. f is the field that v belongs to, nil for items.
func (d *decoder) value(n *yaml.Node, p *plan, f *field, path string, v reflect.Value) {
	target, leave := d.enter(n, path)
	if target == nil {
		d.fail(path)
		return
	}
	defer leave()
	if p.pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if !d.rightKind(target, p, f, path) {
		d.fail(path)
		return
	}
	switch p.kind {
	case kindSection:
		d.section(target, p, path, v)
	case kindList:
		d.list(target, p, path, v)
		d.count(f, v.Len(), "item", path)
	case kindMap:
		d.mapping(target, p, path, v)
		d.count(f, v.Len(), "entry", path)
	default:
		if !d.scalar(target, p, f, path, v) {
			d.fail(path)
		}
	}
}

// enter follows an alias and counts towards the bounds. It returns nil, having
// said why, where n must not be read.
func (d *decoder) enter(n *yaml.Node, path string) (target *yaml.Node, leave func()) {
	if d.full {
		return nil, nil
	}
	isAlias := n.Kind == yaml.AliasNode
	d.spend(n, path, 1, isAlias)
	if d.full {
		return nil, nil
	}
	if d.depth >= MaxDepth {
		d.problemAt(n, path, "nested more than %d levels deep", MaxDepth)
		return nil, nil
	}
	target = n
	if isAlias {
		target = n.Alias
	}
	if d.open[target] {
		d.problemAt(n, path, "*%s stands inside the very value that it repeats; write the value out", n.Value)
		return nil, nil
	}
	if target.Anchor != "" {
		d.open[target] = true
	}
	d.depth++
	if isAlias {
		d.aliases++
	}
	return target, func() {
		d.depth--
		if isAlias {
			d.aliases--
		}
		delete(d.open, target)
	}
}

// spend counts n nodes towards the bounds. Beyond them the whole document is
// given up, with one message.
func (d *decoder) spend(at *yaml.Node, path string, n int, alias bool) {
	if d.full {
		return
	}
	d.nodes += n
	if alias || d.aliases > 0 {
		d.aliased += n
	}
	switch {
	case d.aliased > MaxAliased:
		d.problemAt(at, path, "the aliases of this file unfold to more than %d values; write aliases to aliases out", MaxAliased)
	case d.nodes > MaxNodes:
		d.problemAt(at, path, "the file has more than %d values; split what it describes", MaxNodes)
	default:
		return
	}
	d.full = true
	d.fail("")
}

// rightKind checks that n is a section, list or scalar, as p wants.
func (d *decoder) rightKind(n *yaml.Node, p *plan, f *field, path string) bool {
	if n.Style&yaml.TaggedStyle != 0 {
		d.problemAt(n, path, "the tag %s is not supported; write the value without it", Quote(n.Tag))
		return false
	}
	want := yaml.ScalarNode
	switch p.kind {
	case kindSection, kindMap:
		want = yaml.MappingNode
	case kindList:
		want = yaml.SequenceNode
	}
	if n.Kind == want && !(want == yaml.ScalarNode && n.ShortTag() == "!!null") {
		return true
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		hint := f.wanted(p)
		if f != nil && !f.required {
			hint += ", or remove the key"
		}
		d.problemAt(n, path, "there is no value; write %s", hint)
		return false
	}
	d.problemAt(n, path, "%s is not allowed here; write %s", d.describe(n, p), f.wanted(p))
	return false
}

// wanted says what the value of f looks like: by its example, or else in words.
func (f *field) wanted(p *plan) string {
	if f != nil && f.example != "" {
		return f.example
	}
	return p.wanted()
}

// wanted says in words what a value of this kind looks like.
func (p *plan) wanted() string {
	switch p.kind {
	case kindSection:
		var sample []string
		for _, f := range p.fields {
			if f.required {
				sample = append(sample, f.sample())
			}
		}
		switch {
		case len(sample) > 0:
			return "a section such as {" + list(sample) + "}"
		case len(p.oneOf) > 0:
			return "a section with one of the keys " + choice(p.oneOf[0])
		}
		return "a section of these keys: " + list(p.keys())
	case kindList:
		if p.elem.kind == kindSection {
			return "a list, each of its items " + p.elem.wanted()
		}
		return "a list, as in [a, b]"
	case kindMap:
		return "a section, as in {name: value}"
	}
	return p.what
}

// describe says what n is.
func (d *decoder) describe(n *yaml.Node, p *plan) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a section"
	case yaml.SequenceNode:
		return "a list"
	}
	if p.masked {
		return "a single value"
	}
	switch n.ShortTag() {
	case "!!int", "!!float":
		return "the number " + n.Value
	case "!!bool":
		return "the truth value " + n.Value
	}
	return "the text " + Quote(n.Value)
}

// misspelt stands for the key of a field that an unknown key was probably meant
// to be: it was reported, so that neither its absence nor its default is worth
// a word.
const misspelt = "?"

// section reads a mapping into a struct.
func (d *decoder) section(n *yaml.Node, p *plan, path string, v reflect.Value) {
	seen := map[*field]string{} // the key that the file has it under
	strangers := false
	for _, pair := range d.pairs(n, path) {
		f := p.byName[pair.name]
		if f == nil {
			message, meant := d.unknownKey(p, pair.name)
			d.problemAt(pair.key, Key(path, pair.name), "%s", message)
			if meant != nil && seen[meant] == "" {
				seen[meant] = misspelt
			}
			strangers = true
			continue
		}
		at := Key(path, pair.name)
		d.record(at, pair.key, pair.value)
		if other, twice := seen[f]; twice && other != misspelt {
			d.problemAt(pair.key, at, "%s and %s say the same thing; keep one of them", other, pair.name)
			continue
		}
		seen[f] = pair.name
		if pair.name == f.single {
			d.item(pair.value, f, path, v.Field(f.index))
			continue
		}
		d.value(pair.value, f.plan, f, at, v.Field(f.index))
	}
	if !d.full {
		d.absent(p, path, v, seen, strangers)
	}
}

// item reads the one item of a list that is given under its single key.
func (d *decoder) item(n *yaml.Node, f *field, path string, list reflect.Value) {
	at := Key(path, f.single)
	list.Set(reflect.MakeSlice(list.Type(), 1, 1))
	d.value(n, f.plan.elem, nil, at, list.Index(0))
	// Checks speak of the list; the file, and so the message, of its single key.
	e := *d.doc.entries[at]
	e.shown = at
	d.doc.entries[Key(path, f.name)] = &e
	d.doc.entries[Index(Key(path, f.name), 0)] = &e
}

// absent fills the fields that the file leaves out with their defaults, and
// reports those that it must not leave out. strangers says that unknown keys
// were reported, any of which may have been meant to be the one chosen.
func (d *decoder) absent(p *plan, path string, v reflect.Value, seen map[*field]string, strangers bool) {
	for _, f := range p.fields {
		at := Key(path, f.name)
		switch seen[f] {
		case "":
		case misspelt:
			d.doc.entries[at] = &entry{key: d.doc.keyOf(path), value: d.doc.keyOf(path), failed: true}
		default:
			continue
		}
		switch {
		case f.hasDef:
			f.setDefault(v.Field(f.index))
		case f.required:
			if seen[f] == "" {
				d.missing(f, path, at)
			}
		case f.plan.kind == kindSection && !f.plan.pointer:
			d.absent(f.plan, at, v.Field(f.index), nil, false)
		}
	}
	for _, group := range p.oneOf {
		var have []string
		for _, name := range group {
			if seen[p.byName[name]] != "" {
				have = append(have, name)
			}
		}
		switch {
		case len(have) == 0 && !strangers:
			d.doc.problemAtKey(path, path, "nothing is chosen; write one of %s", strings.Join(group, ", "))
		case len(have) > 1:
			d.doc.Problem(Key(path, have[1]), "%s exclude each other; keep one of them", strings.Join(have, " and "))
		}
	}
}

func (d *decoder) missing(f *field, path, at string) {
	d.doc.problemAtKey(path, Key(path, orElse(f.single, f.name)), "missing; write %s", f.sample())
	d.doc.entries[at] = &entry{key: d.doc.keyOf(path), value: d.doc.keyOf(path), failed: true}
}

// sample shows the key and a value for it.
func (f *field) sample() string {
	return orElse(f.single, f.name) + ": " + f.wanted(f.plan)
}

// setDefault sets v to the default of the tag. A default that cannot be read
// is a fault of the program.
func (f *field) setDefault(v reflect.Value) {
	if f.plan.scalar() && !f.plan.pointer {
		f.once.Do(func() {
			f.defValue = reflect.New(f.plan.typ).Elem()
			f.readDefault(f.defValue)
		})
		v.Set(f.defValue)
		return
	}
	f.readDefault(v) // what it points to must not be shared
}

func (f *field) readDefault(v reflect.Value) {
	doc := newDocument("default of " + f.name)
	d := &decoder{src: Source{Name: doc.name, Data: []byte(f.def)}, doc: doc, literal: true, open: map[*yaml.Node]bool{}}
	n := text(f.def)
	if f.plan.kind != kindText && f.plan.kind != kindString {
		n = d.parse()
	}
	if n != nil {
		d.value(n, f.plan, f, "", v)
	}
	if err := doc.Err(); err != nil {
		panic(fmt.Sprintf("strict: %v", err))
	}
}

func (d *decoder) list(n *yaml.Node, p *plan, path string, v reflect.Value) {
	if len(n.Content) == 0 {
		return // an empty list is nil, as an absent one
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		at := Index(path, i)
		d.record(at, item, item)
		d.value(item, p.elem, nil, at, v.Index(i))
		if d.full {
			return
		}
	}
}

func (d *decoder) mapping(n *yaml.Node, p *plan, path string, v reflect.Value) {
	if len(n.Content) == 0 {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, pair := range d.pairs(n, path) {
		at := Key(path, pair.name)
		d.record(at, pair.key, pair.value)
		key := reflect.New(v.Type().Key())
		if text, ok := key.Interface().(encoding.TextUnmarshaler); ok {
			if err := text.UnmarshalText([]byte(pair.name)); err != nil {
				d.problemAt(pair.key, at, "%v", err)
				continue
			}
		} else {
			key.Elem().SetString(pair.name)
		}
		elem := reflect.New(v.Type().Elem()).Elem()
		d.value(pair.value, p.elem, nil, at, elem)
		v.SetMapIndex(key.Elem(), elem)
		if d.full {
			return
		}
	}
}

// record remembers where path stands.
func (d *decoder) record(path string, key, value *yaml.Node) {
	e := &entry{key: pos(key), value: pos(value)}
	if value.Kind == yaml.ScalarNode {
		e.written = value.Value
	}
	d.doc.entries[path] = e
}

// fail marks path as unreadable, so that no check complains of it again.
func (d *decoder) fail(path string) {
	if e := d.doc.entries[path]; e != nil {
		e.failed = true
	}
}

func (d *decoder) problemAt(n *yaml.Node, path, format string, args ...any) {
	d.doc.problems = append(d.doc.problems, Problem{
		File: d.doc.name, Line: max(n.Line, 1), Column: max(n.Column, 1), Path: path, Message: fmt.Sprintf(format, args...),
	})
}

func pos(n *yaml.Node) position { return position{max(n.Line, 1), max(n.Column, 1)} }
