package strict

import (
	"fmt"
	"slices"
	"strings"
)

// Quote shows a text of the file in a message, in quotes and shortened.
func Quote(s string) string {
	if r := []rune(s); len(r) > 60 {
		s = string(r[:60]) + "…"
	}
	return fmt.Sprintf("%q", s)
}

// Nearest returns the candidate that s is probably a slip of, or "".
func Nearest(s string, candidates []string) string {
	if len(s) > 64 {
		return ""
	}
	best, bestDistance := "", len(s)/3+2
	folded := fold(s)
	for _, c := range candidates {
		f := fold(c)
		if f == folded {
			return c
		}
		if len(f) > 2 && len(folded) > 2 && (strings.HasPrefix(f, folded) || strings.HasPrefix(folded, f)) {
			return c // warning for warn, err for error
		}
		// A slip changes at most a third of a word, and a single letter of a
		// short one.
		if dist := distance(folded, f); dist < bestDistance && dist <= max(1, max(len(f), len(folded))/3) {
			best, bestDistance = c, dist
		}
	}
	return best
}

// fold makes maxBody, max-body and MAX_BODY equal.
func fold(s string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "", ".", "").Replace(s))
}

// distance counts the letters to insert, delete, replace, or swap with their
// neighbour (each adjacent pair at most once) to turn a into b.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// unknownKey says what the writer of an unknown key may have meant: a key of
// this section, by spelling or by meaning, which it returns, too; or one of
// another section.
func (d *decoder) unknownKey(p *plan, name string) (message string, meant *field) {
	for _, f := range p.fields {
		if slices.Contains(f.aka, fold(name)) {
			return fmt.Sprintf("unknown key; it is called %s here", f.name), f
		}
	}
	if near := Nearest(name, p.keys()); near != "" {
		return fmt.Sprintf("unknown key; did you mean %s?", near), p.byName[near]
	}
	if places := d.root.places(name); len(places) > 0 {
		return fmt.Sprintf("unknown key here; it belongs to %s", choice(places)), nil
	}
	return "unknown key; known here are " + list(p.keys()), nil
}

// places lists the sections that have a key called name, three at most.
func (p *plan) places(name string) []string {
	var found []string
	visited := map[*plan]bool{}
	var visit func(p *plan, path string)
	visit = func(p *plan, path string) {
		if visited[p] || len(found) == 3 {
			return
		}
		switch p.kind {
		case kindList:
			visit(p.elem, path+"[]")
		case kindMap:
			visit(p.elem, Key(path, "*"))
		case kindSection:
			visited[p] = true
			if p.byName[name] != nil {
				found = append(found, orElse(path, "the top of the file"))
			}
			for _, f := range p.fields {
				visit(f.plan, Key(path, f.name))
			}
		}
	}
	visit(p, "")
	return found
}

// list joins words with commas.
func list(words []string) string { return strings.Join(words, ", ") }

// choice joins words as alternatives: a, b or c.
func choice(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return list(words[:len(words)-1]) + " or " + words[len(words)-1]
}
