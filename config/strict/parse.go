package strict

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// parse returns the top of the one document that the source holds, or nil,
// having said why there is none.
func (d *decoder) parse() *yaml.Node {
	data := d.src.Data
	if len(data) > MaxSize {
		d.syntax(1, 1, "the file has %d bytes; at most %d are read", len(data), MaxSize)
		return nil
	}
	if i := invalidUTF8(data); i >= 0 {
		line, column := lineColumn(data, i)
		d.syntax(line, column, "the byte 0x%02X is not UTF-8; save the file as UTF-8", data[i])
		return nil
	}
	documents, err := parseAll(data)
	if err != nil {
		d.syntaxError(data, err)
		return nil
	}
	if len(documents) > 1 {
		d.syntax(documents[1].Line, documents[1].Column, "a second document begins here; write one document a file, and no --- between sections")
		return nil
	}
	if len(documents) == 0 || isNull(documents[0].Content[0]) {
		d.syntax(1, 1, "the file is empty; %s", d.atLeast())
		return nil
	}
	return documents[0].Content[0]
}

// atLeast says which keys no file goes without.
func (d *decoder) atLeast() string {
	var needed []string
	if d.root != nil {
		for _, f := range d.root.fields {
			if f.required {
				needed = append(needed, f.name)
			}
		}
	}
	if len(needed) == 0 {
		return "write at least one key"
	}
	return "it needs at least " + strings.Join(needed, " and ")
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// parseAll reads the first two documents of a stream: the second only proves
// that there is one too many.
func parseAll(data []byte) (documents []*yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: the text cannot be read as YAML (%v)", r)
		}
	}()
	in := yaml.NewDecoder(bytes.NewReader(data))
	for len(documents) < 2 {
		var n yaml.Node
		switch err := in.Decode(&n); {
		case errors.Is(err, io.EOF):
			return documents, nil
		case err != nil:
			return documents, err
		case len(n.Content) > 0:
			documents = append(documents, &n)
		}
	}
	return documents, nil
}

var (
	errorLine   = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)
	errorAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
)

// syntaxError reports an error of the YAML library in the user's words, at the
// line that causes it.
func (d *decoder) syntaxError(data []byte, err error) {
	line, message := 1, err.Error()
	if m := errorLine.FindStringSubmatch(message); m != nil {
		message = m[2]
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = n
		}
	}
	if m := errorAnchor.FindStringSubmatch(message); m != nil {
		if i := bytes.Index(data, []byte("*"+m[1])); i >= 0 {
			line, column := lineColumn(data, i)
			d.syntax(line, column, "*%s repeats a value that nothing above calls &%s; define it there first", m[1], m[1])
			return
		}
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	if n := breakingLine(lines); n > 0 {
		line = n
	}
	line = min(max(line, 1), len(lines))
	text := lines[line-1]
	indent := text[:len(text)-len(bytes.TrimLeft(text, " \t"))]
	if bytes.ContainsRune(indent, '\t') {
		d.tabs(lines)
		return
	}
	d.syntax(line, len(indent)+1, "%s", explainSyntax(message))
}

// tabs reports every line that is indented by a tab.
func (d *decoder) tabs(lines [][]byte) {
	for i, text := range lines {
		indent := text[:len(text)-len(bytes.TrimLeft(text, " \t"))]
		if tab := bytes.IndexByte(indent, '\t'); tab >= 0 && len(bytes.TrimSpace(text)) > 0 {
			d.syntax(i+1, tab+1, "the line is indented with a tab; indent with spaces")
		}
	}
}

// breakingLine finds the line that makes the text unreadable: the first after
// which no beginning of the text can be read any more. The library reports
// where the enclosing section begins, which can be anywhere above. It returns
// 0 where the text is too long to try.
func breakingLine(lines [][]byte) int {
	size := 0
	for _, l := range lines {
		size += len(l)
	}
	if size > 64<<10 {
		return 0
	}
	reads := func(n int) bool {
		_, err := parseAll(bytes.Join(lines[:n], nil))
		return err == nil
	}
	good, bad := 0, len(lines)
	for range 4 {
		for bad-good > 1 {
			if mid := (good + bad) / 2; reads(mid) {
				good = mid
			} else {
				bad = mid
			}
		}
		// Inside brackets and quotes no beginning reads, until they close.
		closed := 0
		for n := bad + 1; n < min(len(lines), bad+20); n++ {
			if reads(n) {
				closed = n
				break
			}
		}
		if closed == 0 {
			break
		}
		good, bad = closed, len(lines)
	}
	return bad
}

func explainSyntax(message string) string {
	switch {
	case strings.Contains(message, "mapping values are not allowed"):
		return `a ": " stands where no key can be; put a text that contains ": " in quotes, and indent the keys of one section alike`
	case strings.Contains(message, "did not find expected key"),
		strings.Contains(message, "did not find expected '-' indicator"):
		return "the line does not fit the section around it; indent the keys of one section alike, and put texts with special characters in quotes"
	case strings.Contains(message, "could not find expected ':'"):
		return `the line is no "key: value"; add the ": ", or indent the line if it continues the one above`
	case strings.Contains(message, "found unexpected end of stream"):
		return "a quote is opened here and never closed"
	case strings.Contains(message, "did not find expected ',' or"):
		return "a [ or { is not closed, or a comma is missing between its items"
	case strings.Contains(message, "found character that cannot start any token"):
		return "a value cannot begin with @, ` or %; put it in quotes"
	case strings.Contains(message, "control characters"):
		return "the file holds control characters; remove them"
	}
	return "the text is not YAML: " + message
}

func (d *decoder) syntax(line, column int, format string, args ...any) {
	d.problemAt(&yaml.Node{Line: line, Column: column}, "", format, args...)
	d.full = true
}

// invalidUTF8 returns the offset of the first byte that is not UTF-8, or -1.
func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// lineColumn returns the place of a byte, in lines and characters from 1.
func lineColumn(data []byte, offset int) (line, column int) {
	before := data[:offset]
	return 1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
}
