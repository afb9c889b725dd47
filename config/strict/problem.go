package strict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing wrong, or doubtful, in a file.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`           // from 1
	Column  int    `json:"column"`         // from 1, in characters
	Path    string `json:"path,omitempty"` // routes[2].match.path; "" is the whole file
	Message string `json:"message"`        // what is wrong, what would be right
}

// Error formats the problem as file:line:column: path: message.
func (p Problem) Error() string {
	at := fmt.Sprintf("%s:%d:%d: ", p.File, p.Line, p.Column)
	if p.Path != "" {
		at += p.Path + ": "
	}
	return at + p.Message
}

// Problems are all that is wrong in a file, in the order of its lines.
type Problems []Problem

// Error lists the problems, one a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// sorted returns the problems by position, without repetitions, and no more
// than MaxProblems of them.
func (ps Problems) sorted(file string) Problems {
	ps = slices.Clone(ps)
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Path, b.Path))
	})
	ps = slices.Compact(ps)
	if more := len(ps) - MaxProblems; more > 0 {
		last := ps[MaxProblems]
		ps = append(ps[:MaxProblems:MaxProblems], Problem{
			File: file, Line: last.Line, Column: last.Column,
			Message: fmt.Sprintf("%d more problems from here on are not shown; repair those above first", more),
		})
	}
	return ps
}
