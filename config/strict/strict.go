// Package strict reads YAML files that people write, and tells them everything
// that is wrong at once.
//
// A file format is a tree of plain Go structs whose field tags describe it:
//
//	type Server struct {
//		Listen  string         `yaml:"listen" required:"true"`
//		Timeout value.Duration `yaml:"timeout" default:"10s" above:"0s"`
//		Mode    Mode           `yaml:"mode" default:"enforce"`
//	}
//
// That one description is read by four: [Decode], which fills the structs;
// [Schema], the JSON Schema that editors check with; [Encode], which writes the
// values in effect; and [Diff], which compares two of them. They cannot drift
// apart.
//
// # Tags
//
//	yaml:"name"         the key; fields without it are not part of the file
//	default:"10s"       taken when the key is absent, in YAML
//	required:"true"     the key must be there
//	min:"1" max:"16"    bounds of a number or quantity, length of a string, list or map
//	above:"0s"          a number or quantity must be more than this
//	example:"10s"       shown when a required key is missing
//	single:"method"     a list may be given as one item under this other key
//	aka:"upstream"      wrong words that people try, for the suggestion
//	identity:"true"     tells the items of a list of sections apart (see Diff)
//	restart:"true"      a change takes effect only after a restart (see Diff);
//	                    "presence": only when the section comes or goes
//
// and on a field named _ of the struct itself:
//
//	exactly_one:"a,b"   exactly one of these keys must be there
//
// # Kinds
//
// A field is a struct (a section that always exists, with its defaults), a
// pointer to a struct (a section that may be absent), a list, a map with
// string keys, a bool, an integer, a string, or any type with UnmarshalText.
// String types with a Values method are enumerations. Types with a Grammar
// method say what they look like, for messages and for the schema. Values of
// types with a Masked method are never shown.
//
// # Substitution
//
// After parsing, ${env:NAME}, ${env:NAME:-default} and ${file:path} are
// replaced inside string values, once: what comes in is not looked at again.
// $$ stands for one dollar sign.
//
// # Bounds
//
// Files are at most [MaxSize] bytes, [MaxNodes] nodes and [MaxDepth] levels;
// aliases may unfold to [MaxAliased] nodes. What is refused is refused with a
// message; no input makes this package panic.
package strict

import (
	"fmt"
	"reflect"
)

// Bounds of what is read.
const (
	MaxSize     = 4 << 20  // bytes of one file
	MaxNodes    = 500_000  // YAML nodes of one file
	MaxAliased  = 10_000   // nodes reached through aliases, each time they are
	MaxDepth    = 64       // levels of nesting
	MaxProblems = 100      // problems kept; the rest are counted
	maxIncluded = 64 << 10 // bytes of one file named by ${file:path}
)

// Decode reads one YAML document into the struct that into points to, and
// returns nil or [Problems]. name is shown in problems; ${file:path} is
// relative to its folder. Where there are problems, what into holds must not
// be used.
//
// Use [Source.Decode] to add checks of one's own to the problems found.
func Decode(name string, data []byte, into any) error {
	return Source{Name: name, Data: data}.Decode(into).Err()
}

// Source is a YAML text and the surroundings that it may refer to.
type Source struct {
	Name string // the file's name, for problems, and to find its folder
	Data []byte

	// LookupEnv resolves ${env:NAME}; nil means os.LookupEnv.
	LookupEnv func(name string) (string, bool)
	// ReadFile resolves ${file:path}, with a path that is absolute or already
	// relative to the working directory; nil reads up to 64 KiB from disk.
	ReadFile func(path string) ([]byte, error)
	// Masks lets masked values be the asterisks that [Encode] writes for them,
	// whatever they look like otherwise; they are then left unset.
	Masks bool
}

// Decode fills the struct that into points to and returns the document, with
// the problems found so far: add your own with [Document.Problem], then ask
// [Document.Err].
//
// It panics if into is not a pointer to a struct, or if the struct's tags make
// no sense, since both are faults of the program and not of the file.
func (s Source) Decode(into any) *Document {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		panic(fmt.Sprintf("strict: Decode needs a pointer to a struct, not %T", into))
	}
	v = v.Elem()
	doc := newDocument(s.Name)
	d := &decoder{src: s, doc: doc, root: planOf(v.Type())}
	if node := d.parse(); node != nil {
		d.decodeRoot(node, v)
	}
	return doc
}
