package idempotency

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"
)

// ignored is a tree of object members to leave out. A nil *ignored leaves out
// nothing; one without members stands for a member that is left out itself.
type ignored struct{ members map[string]*ignored }

func parseIgnored(o FingerprintOptions) (*ignored, error) {
	if len(o.Ignore) == 0 {
		return nil, nil
	}
	if !o.JSON {
		return nil, fmt.Errorf("idempotency: fingerprint ignores %q, which needs json: true", o.Ignore[0])
	}
	root := &ignored{members: map[string]*ignored{}}
	for _, pointer := range o.Ignore {
		names := strings.Split(pointer, "/")
		if len(names) < 2 || names[0] != "" {
			return nil, fmt.Errorf("idempotency: fingerprint ignores %q, which is no JSON Pointer to a member; write it as /member or /outer/inner", pointer)
		}
		at := root
		for i, name := range names[1:] {
			name = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
			next, known := at.members[name]
			last := i == len(names)-2
			switch {
			case known && next.members == nil: // left out as a whole already
				last = true
			case last:
				at.members[name] = &ignored{}
			case !known:
				next = &ignored{members: map[string]*ignored{}}
				at.members[name] = next
			}
			if last {
				break
			}
			at = next
		}
	}
	return root, nil
}

// leavesOut reports whether the member is left out, and what is left out
// inside it.
func (ig *ignored) leavesOut(member string) (all bool, inside *ignored) {
	if ig == nil {
		return false, nil
	}
	m := ig.members[member]
	return m != nil && m.members == nil, m
}

// maxJSONDepth bounds the recursion; deeper bodies are compared as bytes.
const maxJSONDepth = 128

// canonicalJSON returns bytes that are equal for two JSON texts if and only if
// their content is equal apart from ignored members. Every string is preceded
// by its length and every list by its count, so the bytes can be read in one
// way only. It reports false for what it cannot compare with certainty.
func canonicalJSON(text []byte, ig *ignored) ([]byte, bool) {
	if !json.Valid(text) || !utf8.Valid(text) {
		return nil, false
	}
	c := canonicalizer{in: text, out: make([]byte, 0, len(text)+len(text)/2)}
	c.value(ig, 0)
	return c.out, !c.failed
}

// canonicalizer walks over a text that is known to be valid.
type canonicalizer struct {
	in     []byte
	at     int
	out    []byte
	failed bool
}

func (c *canonicalizer) value(ig *ignored, depth int) {
	if depth > maxJSONDepth {
		c.failed = true
	}
	if c.failed {
		return
	}
	switch c.peek() {
	case '{':
		c.object(ig, depth)
	case '[':
		c.array(depth)
	case '"':
		c.string('s', c.text())
	default: // number, true, false, null: as written
		start := c.at
		for c.at < len(c.in) && !bytes.ContainsRune([]byte(",]} \t\r\n"), rune(c.in[c.at])) {
			c.at++
		}
		c.string('l', c.in[start:c.at])
	}
}

func (c *canonicalizer) object(ig *ignored, depth int) {
	type member struct {
		name  string
		value []byte
	}
	var members []member
	outer := c.out
	for c.at++; c.peek() != '}'; {
		name := string(c.text())
		c.peek()
		c.at++ // colon
		all, inside := ig.leavesOut(name)
		c.out = nil
		c.value(inside, depth+1)
		if c.failed {
			return
		}
		if !all {
			members = append(members, member{name, c.out})
		}
		if c.peek() == ',' {
			c.at++
		}
	}
	c.at++
	c.out = outer
	sort.Slice(members, func(i, j int) bool { return members[i].name < members[j].name })
	c.count('{', len(members))
	for i, m := range members {
		if i > 0 && members[i-1].name == m.name {
			c.failed = true // which of two equal names counts is the origin's choice
			return
		}
		c.string('s', []byte(m.name))
		c.out = append(c.out, m.value...)
	}
}

func (c *canonicalizer) array(depth int) {
	elements := 0
	outer := c.out
	c.out = nil
	for c.at++; c.peek() != ']'; elements++ {
		c.value(nil, depth+1)
		if c.failed {
			return
		}
		if c.peek() == ',' {
			c.at++
		}
	}
	c.at++
	inner := c.out
	c.out = outer
	c.count('[', elements)
	c.out = append(c.out, inner...)
}

// text reads a string and returns its content.
func (c *canonicalizer) text() []byte {
	c.peek()
	start := c.at
	escaped := false
	for c.at++; c.in[c.at] != '"'; c.at++ {
		if c.in[c.at] == '\\' {
			escaped = true
			c.at++
		}
	}
	c.at++
	if !escaped {
		return c.in[start+1 : c.at-1]
	}
	var s string
	// The decoder turns a lone surrogate into U+FFFD, which would equate
	// different texts.
	if err := json.Unmarshal(c.in[start:c.at], &s); err != nil || strings.ContainsRune(s, utf8.RuneError) {
		c.failed = true
	}
	return []byte(s)
}

// peek skips white space and returns the byte after it.
func (c *canonicalizer) peek() byte {
	for c.in[c.at] == ' ' || c.in[c.at] == '\t' || c.in[c.at] == '\n' || c.in[c.at] == '\r' {
		c.at++
	}
	return c.in[c.at]
}

func (c *canonicalizer) count(tag byte, n int) {
	c.out = append(c.out, tag)
	c.out = binary.AppendUvarint(c.out, uint64(n))
}

func (c *canonicalizer) string(tag byte, s []byte) {
	c.count(tag, len(s))
	c.out = append(c.out, s...)
}
