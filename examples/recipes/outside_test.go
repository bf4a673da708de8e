package recipes

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// Readers copy this code to a module of their own, where internal packages can't be imported. TestInstall, in
// the snippets, compiles such a module.
func TestOutside(t *testing.T) {
	for _, name := range []string{"quickstart", "recipes", "caches", "snippets", "migrating", "im/impb"} {
		files, err := filepath.Glob(filepath.Join("..", name, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no files: %v", name, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			code, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			must(t, err)
			for _, i := range code.Imports {
				if strings.Contains(i.Path.Value, "/internal/") {
					t.Errorf("%s imports %s", file, i.Path.Value)
				}
			}
		}
	}
}
