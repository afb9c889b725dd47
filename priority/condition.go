package priority

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/admission"
)

// Condition says which requests a rule is for. All of its fields that are set
// must hold. The zero value is no condition, and an error.
type Condition struct {
	Methods []string          // one of them, as sent
	Path    string            // a Pattern of the raw path
	Headers []HeaderCondition // each of them
	Tenants []string          // one of them: a name, or a glob in which "*" stands for any text
	Any     []Condition       // at least one of them
	All     []Condition       // each of them
	Not     *Condition        // does not hold
}

// HeaderCondition says what a header field must be like.
//
// A field that is sent more than once is present, but equals and resembles
// nothing: which of its values the origin goes by is not known.
type HeaderCondition struct {
	Name  string
	Op    HeaderOp
	Value string // of Equals and Like
}

// HeaderOp compares a header field.
type HeaderOp uint8

const (
	Equals  HeaderOp = iota // the value, byte by byte
	Like                    // the value as a glob in which "*" stands for any text
	Present                 // sent, with whatever value
	Absent                  // not sent
)

// condition is a Condition made ready.
type condition struct {
	methods  []string
	path     *Pattern
	headers  []HeaderCondition
	tenants  *names
	any, all []condition
	not      *condition
}

// names is a set of names and globs.
type names struct {
	exact    map[string]bool
	prefixes []string // of globs that end with their only asterisk
	globs    []string // the others
}

func (c Condition) compile(where string) (condition, error) {
	var made condition
	var errs []error
	bad := func(err error) { errs = append(errs, err) }

	made.methods = slices.Clone(c.Methods)
	if slices.Contains(c.Methods, "") {
		bad(fmt.Errorf("%s: empty method, want a name such as POST", where))
	}
	if c.Path != "" {
		p, err := ParsePattern(c.Path)
		if err != nil {
			bad(fmt.Errorf("%s: %w", where, err))
		}
		made.path = &p
	}
	for _, h := range c.Headers {
		if h.Name == "" {
			bad(fmt.Errorf("%s: header without a name", where))
		}
		if h.Op > Absent {
			bad(fmt.Errorf("%s: header %s: unknown comparison %d", where, h.Name, h.Op))
		}
	}
	made.headers = slices.Clone(c.Headers)
	for i := range made.headers {
		if h := &made.headers[i]; h.Op == Like && !strings.Contains(h.Value, "*") {
			h.Op = Equals
		}
	}
	if len(c.Tenants) > 0 {
		made.tenants = newNames(c.Tenants)
	}
	sub := func(name string, list []Condition) []condition {
		var all []condition
		for i, c := range list {
			one, err := c.compile(fmt.Sprintf("%s: %s %d", where, name, i+1))
			if err != nil {
				bad(err)
			}
			all = append(all, one)
		}
		return all
	}
	made.any, made.all = sub("any", c.Any), sub("all", c.All)
	if c.Not != nil {
		one, err := c.Not.compile(where + ": not")
		if err != nil {
			bad(err)
		}
		made.not = &one
	}
	if made.empty() {
		bad(fmt.Errorf("%s: no condition, want at least one of method, path, header, tenant, any, all and not", where))
	}
	return made, errors.Join(errs...)
}

func (c *condition) empty() bool {
	return len(c.methods) == 0 && c.path == nil && len(c.headers) == 0 && c.tenants == nil &&
		len(c.any) == 0 && len(c.all) == 0 && c.not == nil
}

// holds reports whether c holds for r. The cheap parts come first.
func (c *condition) holds(r *admission.Request) bool {
	if len(c.methods) > 0 && !slices.Contains(c.methods, r.Method) ||
		c.tenants != nil && !c.tenants.has(r.Tenant) ||
		c.path != nil && !c.path.Match(r.Path) {
		return false
	}
	for i := range c.headers {
		if !c.headers[i].holds(r.Header) {
			return false
		}
	}
	for i := range c.all {
		if !c.all[i].holds(r) {
			return false
		}
	}
	if len(c.any) > 0 {
		some := false
		for i := 0; i < len(c.any) && !some; i++ {
			some = c.any[i].holds(r)
		}
		if !some {
			return false
		}
	}
	return c.not == nil || !c.not.holds(r)
}

func (h *HeaderCondition) holds(header admission.Header) bool {
	value, count := header.Get(h.Name)
	switch h.Op {
	case Equals:
		return count == 1 && value == h.Value
	case Like:
		return count == 1 && glob(h.Value, value)
	case Present:
		return count > 0
	default:
		return count == 0
	}
}

func newNames(list []string) *names {
	n := &names{exact: make(map[string]bool)}
	for _, name := range list {
		switch star := strings.IndexByte(name, '*'); star {
		case -1:
			n.exact[name] = true
		case len(name) - 1:
			n.prefixes = append(n.prefixes, name[:star])
		default:
			n.globs = append(n.globs, name)
		}
	}
	return n
}

func (n *names) has(name string) bool {
	if len(n.exact) > 0 && n.exact[name] {
		return true
	}
	for _, p := range n.prefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	for _, g := range n.globs {
		if glob(g, name) {
			return true
		}
	}
	return false
}

// glob reports whether text is like pattern, in which "*" stands for any text,
// none included. It takes at most len(pattern) * len(text) steps.
func glob(pattern, text string) bool {
	p, t := 0, 0
	star, from := -1, 0 // the last asterisk, and where what it stands for ends
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, t
			p++
		case p < len(pattern) && pattern[p] == text[t]:
			p++
			t++
		case star >= 0:
			from++
			p, t = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
