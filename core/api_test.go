package core_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// mostNames is what fits on two screens of go doc, methods included. A name that only authors
// of stores, hooks or middlewares write belongs to the package that docs/architecture.md has for
// them.
const mostNames = 117

func TestNoMoreNamesThanAUserCanRead(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	must(t, err)
	set := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		must(t, err)
		files = append(files, file)
	}
	pkg, err := doc.NewFromFiles(set, files, "github.com/keyturn/keyturn/core")
	must(t, err)
	names := len(pkg.Funcs)
	values := func(all []*doc.Value) {
		for _, v := range all {
			names += len(v.Names)
		}
	}
	values(pkg.Consts)
	values(pkg.Vars)
	for _, typ := range pkg.Types {
		names += 1 + len(typ.Funcs) + len(typ.Methods)
		values(typ.Consts)
		values(typ.Vars)
	}
	if names < 50 || names > mostNames {
		t.Errorf("core exports %d names and methods, want %d at most", names, mostNames)
	}
}
