package strict

import (
	"fmt"
	"path/filepath"
	"strings"
)

// position is a place in the file, counted from 1.
type position struct{ line, column int }

// entry is what is remembered of one path that the file writes.
type entry struct {
	key     position // where the key or list item begins
	value   position
	written string // a scalar as the file has it, before substitution
	from    string // the ${…} parts of it; "" when there are none
	shown   string // the path as the file writes it; "" when that is the path itself
	failed  bool   // the value could not be read: no further complaints
}

// Document is a file that has been decoded: what is wrong with it, and where
// each of its values stands. It is for one goroutine.
type Document struct {
	// Files lists the files read for ${file:path}, in order, once each.
	Files []string

	name     string
	entries  map[string]*entry
	problems Problems
	warnings Problems
}

func newDocument(name string) *Document {
	return &Document{name: name, entries: map[string]*entry{}}
}

// Problem adds an error at path: what is wrong, what would be right. It says
// nothing where the value at path, or one that holds it, could not be read in
// the first place. Where the file does not have the path, since it is a
// default, the nearest section that it has is pointed at.
func (d *Document) Problem(path, format string, args ...any) {
	if !d.Failed(path) {
		d.problems = append(d.problems, d.at(path, fmt.Sprintf(format, args...)))
	}
}

// Warn adds a warning at path: allowed, but probably not what was meant.
func (d *Document) Warn(path, format string, args ...any) {
	if !d.Failed(path) {
		d.warnings = append(d.warnings, d.at(path, fmt.Sprintf(format, args...)))
	}
}

func (d *Document) at(path, message string) Problem {
	p := Problem{File: d.name, Line: 1, Column: 1, Path: path, Message: message}
	if e, at := d.nearest(path); e != nil {
		p.Line, p.Column = e.value.line, e.value.column
		if e.shown != "" {
			p.Path = e.shown + path[len(at):]
		}
	}
	return p
}

// ProblemAtKey is Problem, but points at the key of path instead of its value.
func (d *Document) ProblemAtKey(path, format string, args ...any) {
	if !d.Failed(path) {
		d.problemAtKey(path, path, format, args...)
	}
}

// problemAtKey adds an error about path that points at the key of section.
func (d *Document) problemAtKey(section, path, format string, args ...any) {
	at := d.keyOf(section)
	d.problems = append(d.problems, Problem{File: d.name, Line: at.line, Column: at.column, Path: path, Message: fmt.Sprintf(format, args...)})
}

// keyOf is where the key of path, or of what is around it, stands.
func (d *Document) keyOf(path string) position {
	if e, _ := d.nearest(path); e != nil {
		return e.key
	}
	return position{1, 1}
}

// Err returns nil, or all problems as [Problems] in the order of the file.
func (d *Document) Err() error {
	if len(d.problems) == 0 {
		return nil
	}
	return d.problems.sorted(d.name)
}

// Warnings returns the warnings in the order of the file.
func (d *Document) Warnings() Problems { return d.warnings.sorted(d.name) }

// Has reports whether the file writes path, rather than leaving it to its
// default.
func (d *Document) Has(path string) bool { return d.entries[path] != nil }

// Failed reports whether the value at path, or one that holds it, could not be
// read.
func (d *Document) Failed(path string) bool {
	for {
		if e := d.entries[path]; e != nil && e.failed {
			return true
		}
		if path == "" {
			return false
		}
		path = parent(path)
	}
}

// FailedWithin reports whether any problem was found at or below path.
func (d *Document) FailedWithin(path string) bool {
	if d.Failed(path) {
		return true
	}
	for _, p := range d.problems {
		if within(p.Path, path) {
			return true
		}
	}
	return false
}

// Written returns the scalar at path for use in a message: in quotes, as the
// file has it, before substitution. What a ${…} stands for is never shown.
func (d *Document) Written(path string) string {
	e := d.entries[path]
	switch {
	case e == nil:
		return "the default"
	case e.from != "":
		return "the value of " + e.from
	}
	return Quote(e.written)
}

// Line returns the line of path, or of the nearest section around it that the
// file writes.
func (d *Document) Line(path string) int { return d.keyOf(path).line }

// Lines returns the line of every path that the file writes and for which keep
// says so.
func (d *Document) Lines(keep func(path string) bool) map[string]int {
	lines := make(map[string]int)
	for path, e := range d.entries {
		if keep(path) {
			lines[path] = e.key.line
		}
	}
	return lines
}

// Relative returns path as the file means it: a relative one starts at the
// file's folder.
func (d *Document) Relative(path string) string { return relative(d.name, path) }

func relative(file, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(file), path)
}

// nearest finds the entry of path or of the nearest path around it.
func (d *Document) nearest(path string) (*entry, string) {
	for {
		if e := d.entries[path]; e != nil || path == "" {
			return e, path
		}
		path = parent(path)
	}
}

// parent cuts the last step off a path: a.b[2].c, a.b[2], a.b, a, "".
func parent(path string) string {
	if strings.HasSuffix(path, "]") {
		return path[:max(strings.LastIndexByte(path, '['), 0)]
	}
	return path[:max(strings.LastIndexByte(path, '.'), 0)]
}

// within reports whether path is outer or lies below it.
func within(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (outer == "" || rest == "" || rest[0] == '.' || rest[0] == '[')
}

// Key appends a key to a path. Keys that hold characters of the path's own
// syntax are written in brackets and quotes.
func Key(path, key string) string {
	if key == "" || strings.ContainsAny(key, `.[]" `) {
		return fmt.Sprintf("%s[%q]", path, key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// Index appends the position of a list item, from 0, to a path.
func Index(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }
