// Package comments reads the comments of struct types from Go source, so that
// a JSON schema describes each key in the words that its field has in the code.
// It is for generating files, not for the program itself.
package comments

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
)

// Read returns the comments of the struct types in the Go files of a folder,
// tests apart: by "Type" and by "Type.Field".
func Read(dir string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, decl := range file.Decls {
			if types, ok := decl.(*ast.GenDecl); ok && types.Tok == token.TYPE {
				for _, spec := range types.Specs {
					read(found, types, spec.(*ast.TypeSpec))
				}
			}
		}
	}
	return found, nil
}

func read(found map[string]string, decl *ast.GenDecl, spec *ast.TypeSpec) {
	doc := spec.Doc
	if doc == nil {
		doc = decl.Doc
	}
	add := func(name string, doc *ast.CommentGroup) {
		if text := oneLine(doc); text != "" {
			found[name] = text
		}
	}
	add(spec.Name.Name, doc)
	fields, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range fields.Fields.List {
		for _, name := range f.Names {
			add(spec.Name.Name+"."+name.Name, f.Doc)
		}
	}
}

func oneLine(doc *ast.CommentGroup) string { return strings.Join(strings.Fields(doc.Text()), " ") }
