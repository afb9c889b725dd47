package strict

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// scalar reads one value, after substitution, and checks its bounds. It
// reports whether v was set.
func (d *decoder) scalar(n *yaml.Node, p *plan, f *field, path string, v reflect.Value) bool {
	tag, text, from := n.ShortTag(), n.Value, ""
	if tag == "!!str" && !d.literal {
		var err error
		if text, from, err = d.substitute(n.Value); err != nil {
			d.problemAt(n, path, "%v", err)
			return false
		}
	}
	if e := d.doc.entries[path]; e != nil {
		e.from = from
	}
	// shown is the value in messages. What was substituted may be a secret.
	shown := Quote(text)
	switch {
	case from != "":
		shown = "the value of " + from
	case p.masked:
		shown = "the value"
	case tag != "!!str":
		shown = text
	}

	var err error
	switch p.kind {
	case kindBool:
		err = setBool(v, tag, text, from, shown)
	case kindInt:
		err = setInt(v, tag, text, from, shown)
	case kindString:
		err = setString(v, p, tag, text, from, shown)
	case kindText:
		if text == "" {
			err = fmt.Errorf("%s is empty; write %s", orElse(from, "the text"), p.what)
			break
		}
		err = v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text))
		switch {
		case err != nil && d.src.Masks && p.masked && text == mask:
			err = nil
		case err != nil && (from != "" || p.masked):
			err = fmt.Errorf("%s is not %s", shown, p.what)
		case err == nil && tag != "!!str":
			err = fmt.Errorf("%s reads as %s; write %q", text, yamlKind(tag), text)
		}
	}
	if err == nil && f != nil {
		err = f.bounds(v, shown)
	}
	if err != nil {
		d.problemAt(n, path, "%v", err)
		return false
	}
	return true
}

func setBool(v reflect.Value, tag, text, from, shown string) error {
	if (tag == "!!bool" || from != "") && (text == "true" || text == "false") {
		v.SetBool(text == "true")
		return nil
	}
	return fmt.Errorf("%s is not a truth value; write true or false, without quotes", shown)
}

func setInt(v reflect.Value, tag, text, from, shown string) error {
	if tag != "!!int" && from == "" {
		if isWhole(text) && tag == "!!str" {
			return fmt.Errorf("%s is a text; write %s, without quotes", shown, text)
		}
		if isWhole(text) {
			return fmt.Errorf("%s is too large for a whole number", shown)
		}
		return fmt.Errorf("%s is not a whole number; write one such as 100", shown)
	}
	if !isWhole(text) {
		return fmt.Errorf("%s is not a whole number in plain digits; write one such as 100", shown)
	}
	i, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("%s is too large for a whole number", shown)
	}
	v.SetInt(i)
	return nil
}

// isWhole reports whether s is a decimal whole number, without leading zeros,
// which some readers take for octal.
func isWhole(s string) bool {
	if len(s) > 1 && s[0] == '-' {
		s = s[1:]
	}
	if s == "" || (len(s) > 1 && s[0] == '0') {
		return false
	}
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

func setString(v reflect.Value, p *plan, tag, text, from, shown string) error {
	if tag != "!!str" {
		return fmt.Errorf("%s reads as %s; write %q", text, yamlKind(tag), text)
	}
	if p.values != nil && !slices.Contains(p.values, text) {
		if near := Nearest(text, p.values); near != "" && from == "" {
			return fmt.Errorf("%s is none of %s; did you mean %s?", shown, list(p.values), near)
		}
		return fmt.Errorf("%s is none of %s", shown, list(p.values))
	}
	v.SetString(text)
	return nil
}

func yamlKind(tag string) string {
	switch tag {
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "a truth value"
	case "!!timestamp":
		return "a date"
	}
	return "something other than a text"
}

// bounds checks the tags min, max and above against a value that was set.
func (f *field) bounds(v reflect.Value, shown string) error {
	if f.min == "" && f.max == "" && f.above == "" {
		return nil
	}
	if f.plan.kind == kindString || (f.plan.kind == kindText && v.Kind() == reflect.String) {
		n := utf8.RuneCountInString(v.String())
		switch {
		case f.min != "" && n < atoi(f.min) && n == 0:
			return fmt.Errorf("the text is empty; write %s", f.plan.what)
		case f.min != "" && n < atoi(f.min):
			return fmt.Errorf("%s is too short; write at least %s characters", shown, f.min)
		case f.max != "" && n > atoi(f.max):
			return fmt.Errorf("%s is too long; write at most %s characters", shown, f.max)
		}
		return nil
	}
	n := number(v)
	switch {
	case f.min != "" && f.min == f.max && n != f.limit(f.min):
		return fmt.Errorf("%s is not supported; write %s", shown, f.min)
	case f.above != "" && n <= f.limit(f.above):
		return fmt.Errorf("%s is too little; write more than %s", shown, f.above)
	case f.min != "" && n < f.limit(f.min):
		return fmt.Errorf("%s is too little; write %s or more", shown, f.min)
	case f.max != "" && n > f.limit(f.max):
		return fmt.Errorf("%s is too much; write %s or less", shown, f.max)
	}
	return nil
}

// limit reads the text of a bound as a value of the field's own type.
func (f *field) limit(text string) float64 {
	v := reflect.New(f.plan.base()).Elem()
	if f.plan.kind == kindText {
		if err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text)); err != nil {
			panic(fmt.Sprintf("strict: bound of %s: %v", f.name, err))
		}
		return number(v)
	}
	return float64(atoi(text))
}

// number returns a quantity as the number that it is in Go.
func number(v reflect.Value) float64 {
	switch {
	case v.CanInt():
		return float64(v.Int())
	case v.CanFloat():
		return v.Float()
	}
	return math.NaN() // never out of bounds; validate refuses such tags
}

// count checks the tags min and max against the length of a list or map.
func (d *decoder) count(f *field, n int, what, path string) {
	if f == nil || d.full {
		return
	}
	if f.min != "" && n < atoi(f.min) && n == 0 {
		d.doc.Problem(path, "it is empty; write at least %s", plural(atoi(f.min), what))
	} else if f.min != "" && n < atoi(f.min) {
		d.doc.Problem(path, "there are too few; write at least %s", plural(atoi(f.min), what))
	}
	if f.max != "" && n > atoi(f.max) {
		d.doc.Problem(path, "%d are too many; write at most %s", n, plural(atoi(f.max), what))
	}
}

func plural(n int, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case what == "entry":
		return fmt.Sprintf("%d entries", n)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// atoi reads a number of a tag; a tag that holds none is a fault of the
// program.
func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(fmt.Sprintf("strict: bound %q is not a number", s))
	}
	return n
}
