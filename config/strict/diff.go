package strict

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Change is one difference between two structs.
type Change struct {
	// Path of what differs. Items of lists that have an identity stand under
	// it: routes[create-order].class.
	Path string `json:"path"`
	// Old and New are the values as files have them, "" where there is none.
	// Masked values are asterisks on both sides.
	Old string `json:"old"`
	New string `json:"new"`
	// Restart is set where the change takes effect only after a restart.
	Restart bool `json:"restart"`
}

// String shows the change on one line.
func (c Change) String() string {
	s := fmt.Sprintf("%s: %s -> %s", c.Path, orElse(c.Old, "(none)"), orElse(c.New, "(none)"))
	if c.Restart {
		s += " (restart)"
	}
	return s
}

// Diff lists what differs between two values of one tagged struct, in the order
// of its fields. It panics if they are not of the same type.
func Diff(before, after any) []Change {
	a, b := reflect.Indirect(reflect.ValueOf(before)), reflect.Indirect(reflect.ValueOf(after))
	if a.Type() != b.Type() {
		panic(fmt.Sprintf("strict: Diff compares a %v with a %v", a.Type(), b.Type()))
	}
	var d differ
	d.section(planOf(a.Type()), "", a, b, false)
	return d.changes
}

type differ struct{ changes []Change }

func (d *differ) add(path string, p *plan, a, b reflect.Value, restart bool) {
	d.changes = append(d.changes, Change{path, show(p, a), show(p, b), restart})
}

func (d *differ) section(p *plan, path string, a, b reflect.Value, restart bool) {
	for _, f := range p.fields {
		fa, fb := a.Field(f.index), b.Field(f.index)
		if reflect.DeepEqual(fa.Interface(), fb.Interface()) {
			continue
		}
		inside := restart || f.restart == "true"
		if f.plan.pointer && (fa.IsNil() || fb.IsNil()) {
			d.add(Key(path, f.name), f.plan, fa, fb, inside || f.restart == "presence")
			continue
		}
		d.value(f.plan, Key(path, f.name), fa, fb, inside)
	}
}

// value compares two values that both are there.
func (d *differ) value(p *plan, path string, a, b reflect.Value, restart bool) {
	if reflect.DeepEqual(a.Interface(), b.Interface()) {
		return
	}
	if p.pointer {
		a, b = a.Elem(), b.Elem()
	}
	switch {
	case p.kind == kindSection:
		d.section(p, path, a, b, restart)
	case p.kind == kindMap:
		d.keyed(p.elem, entriesOf(a), entriesOf(b), func(key string) string { return Key(path, key) }, restart)
	case p.kind == kindList && p.elem.kind == kindSection:
		d.items(p.elem, path, a, b, restart)
	default:
		d.add(path, p, a, b, restart)
	}
}

// named is a value under its key.
type named struct {
	key   string
	value reflect.Value
}

func entriesOf(m reflect.Value) []named {
	var all []named
	for _, key := range sortedKeys(m) {
		all = append(all, named{key.String(), m.MapIndex(key)})
	}
	return all
}

// items compares lists of sections: by identity where they have one, by place
// otherwise.
func (d *differ) items(p *plan, path string, a, b reflect.Value, restart bool) {
	identity := slices.IndexFunc(p.fields, func(f *field) bool { return f.identity })
	entries := func(list reflect.Value) (all []named, keys []string) {
		for i := range list.Len() {
			key := fmt.Sprint(i)
			if identity >= 0 {
				key = list.Index(i).Field(p.fields[identity].index).String()
			}
			all, keys = append(all, named{key, list.Index(i)}), append(keys, key)
		}
		return all, keys
	}
	as, aKeys := entries(a)
	bs, bKeys := entries(b)
	d.keyed(p, as, bs, func(key string) string { return path + "[" + key + "]" }, restart)

	// The order of what stands in both counts, too.
	keep := func(keys, other []string) []string {
		return slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return !slices.Contains(other, k) })
	}
	if x, y := keep(aKeys, bKeys), keep(bKeys, aKeys); !slices.Equal(x, y) {
		d.changes = append(d.changes, Change{path, "order " + list(x), "order " + list(y), restart})
	}
}

// keyed compares two lists of named values.
func (d *differ) keyed(p *plan, as, bs []named, at func(key string) string, restart bool) {
	index := make(map[string]reflect.Value, len(bs))
	for _, b := range bs {
		index[b.key] = b.value
	}
	known := make(map[string]bool, len(as))
	for _, a := range as {
		known[a.key] = true
		if b, ok := index[a.key]; ok {
			d.value(p, at(a.key), a.value, b, restart)
			continue
		}
		d.add(at(a.key), p, a.value, reflect.Value{}, restart)
	}
	for _, b := range bs {
		if !known[b.key] {
			d.add(at(b.key), p, reflect.Value{}, b.value, restart)
		}
	}
}

// show writes a value on one line; "" for none.
func show(p *plan, v reflect.Value) string {
	if !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return ""
	}
	if p.scalar() {
		return scalarText(p, v)
	}
	n := nodeOf(p, v)
	flow(n)
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	if err := enc.Encode(n); err != nil {
		return "(" + err.Error() + ")"
	}
	s := strings.Join(strings.Fields(out.String()), " ") // long flows are wrapped
	if r := []rune(s); len(r) > 200 {
		s = string(r[:200]) + "…"
	}
	return s
}

func flow(n *yaml.Node) {
	n.Style |= yaml.FlowStyle
	for _, c := range n.Content {
		if c.Kind != yaml.ScalarNode {
			flow(c)
		}
	}
}
