// Command checkdocs refuses documentation that is missing or hard to read:
//
//   - an exported function, method or type whose comment does not begin with its name, and an
//     exported constant or variable without a comment of its own or of its group;
//   - a sentence of more than 40 words, in a Markdown page or in the comment of something exported.
//
// Usage:
//
//	checkdocs file.go... page.md...
//
// It skips tests, generated code, and the code of packages that only this repository can import
// (internal, and commands).
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	found := 0
	report := func(format string, args ...any) {
		found++
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	}
	for _, name := range os.Args[1:] {
		var err error
		switch {
		case strings.HasSuffix(name, ".md"):
			err = checkPage(name, report)
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			err = checkCode(name, report)
		}
		if err != nil {
			report("%v", err)
		}
	}
	if found > 0 {
		os.Exit(1)
	}
}

type reporter = func(format string, args ...any)

func checkPage(name string, report reporter) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	for _, s := range long(string(text)) {
		report("%s: a sentence of %d words: %s", name, len(s), beginning(s))
	}
	return nil
}

func checkCode(name string, report reporter) error {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
	if err != nil || ast.IsGenerated(file) {
		return err
	}
	check := func(doc *ast.CommentGroup, id *ast.Ident) {
		if id.IsExported() && !strings.HasPrefix(doc.Text(), id.Name) {
			report("%s: the comment of %s does not begin with its name", fset.Position(id.Pos()), id.Name)
		}
	}
	wordy := func(doc *ast.CommentGroup) {
		for _, s := range long(doc.Text()) {
			report("%s: a sentence of %d words: %s", fset.Position(doc.Pos()), len(s), beginning(s))
		}
	}
	if wordy(file.Doc); file.Name.Name == "main" || slices.Contains(strings.Split(filepath.ToSlash(name), "/"), "internal") {
		return nil
	}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if !decl.Name.IsExported() || decl.Recv != nil && !receiver(decl).IsExported() {
				continue
			}
			if wordy(decl.Doc); decl.Recv == nil || !implied[decl.Name.Name] {
				check(decl.Doc, decl.Name)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					doc := spec.Doc
					if doc == nil {
						doc = decl.Doc
					}
					if check(doc, spec.Name); spec.Name.IsExported() {
						wordy(doc)
					}
				case *ast.ValueSpec:
					for _, id := range spec.Names {
						if id.IsExported() && spec.Doc == nil && spec.Comment == nil && decl.Doc == nil {
							report("%s: %s has no comment", fset.Position(id.Pos()), id.Name)
						}
					}
				}
			}
		}
	}
	return nil
}

// implied are methods whose meaning their interface says.
var implied = map[string]bool{"Error": true, "Is": true, "Unwrap": true, "String": true, "GRPCStatus": true}

// receiver returns the name of a method's type.
func receiver(f *ast.FuncDecl) *ast.Ident {
	t := f.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x
		}
	}
}

func beginning(words []string) string { return strings.Join(words[:8], " ") + " ..." }
