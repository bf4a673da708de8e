package main

import (
	"archive/zip"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A module in the folder of another is not in its archive, as it would not be in that of
// a tag; and the go.mod that the proxy answers is that of the tree.
func TestPublish(t *testing.T) {
	tree, out := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"go.mod":            "module example.com/Big\n",
		"a.go":              "package big\n",
		"sub/b.go":          "package sub\n",
		"nested/go.mod":     "module example.com/Big/nested\n",
		"nested/c.go":       "package nested\n",
		"testdata/d.golden": "d",
	} {
		file := filepath.Join(tree, name)
		must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must(t, os.WriteFile(file, []byte(text), 0o644))
	}
	must(t, publish(tree, "v0.1.0", "", out))
	at := filepath.Join(out, "example.com", "!big", "@v")
	if mod, err := os.ReadFile(filepath.Join(at, "v0.1.0.mod")); err != nil || string(mod) != "module example.com/Big\n" {
		t.Errorf("%q, %v", mod, err)
	}
	if list, err := os.ReadFile(filepath.Join(at, "list")); err != nil || string(list) != "v0.1.0\n" {
		t.Errorf("the tags are %q, %v", list, err)
	}
	archive, err := zip.OpenReader(filepath.Join(at, "v0.1.0.zip"))
	must(t, err)
	defer archive.Close()
	var files []string
	for _, f := range archive.File {
		files = append(files, f.Name)
	}
	slices.Sort(files)
	const in = "example.com/Big@v0.1.0/"
	if want := []string{in + "a.go", in + "go.mod", in + "sub/b.go", in + "testdata/d.golden"}; !slices.Equal(files, want) {
		t.Errorf("%q, want %q", files, want)
	}
	if err := publish(tree, "1.0", "", out); err == nil {
		t.Error("1.0 is not a version")
	}
}
