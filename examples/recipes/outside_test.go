package recipes

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pages are the packages with the code of the pages, from examples, and whether their tests run outside, too. The
// others' tests need internal packages.
var pages = map[string]bool{"quickstart": true, "recipes": true, "caches": true, "snippets": false, "migrating": false, "im/impb": false}

// TestOutside copies every recipe to a module outside of the repository, as readers do, where internal packages can't
// be imported. Those of their tests that need none run there.
func TestOutside(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles modules of its own")
	}
	if os.Getenv(outside) != "" {
		t.Skip("it is outside")
	}
	examples, err := filepath.Abs("..")
	must(t, err)
	app := t.TempDir()
	for name, tests := range pages {
		copyGo(t, filepath.Join(examples, name), filepath.Join(app, name), tests)
	}
	own, err := os.ReadFile(filepath.Join(examples, "go.mod"))
	must(t, err)
	// The versions of this module: otherwise the newest would be compiled for this test alone.
	text, replaced, _ := strings.Cut(string(own), "\nreplace ")
	text = regexp.MustCompile(`(?m)^module .*`).ReplaceAllString(text, "module example.com/app")
	text = regexp.MustCompile(`(?m)^\s*(require )?github.com/keyturn/.*$`).ReplaceAllString(text, "")
	must(t, os.WriteFile(filepath.Join(app, "go.mod"), []byte(text), 0o644))
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = app
		cmd.Env = append(os.Environ(), outside+"=1", "GOWORK=off", "GOFLAGS=-buildvcs=false", "GOSUMDB=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	// Most modules are those that this one was built with; no network for those.
	proxy := "GOPROXY=file://" + strings.TrimSpace(run("go", "env", "GOMODCACHE")) + "/cache/download," + strings.TrimSpace(run("go", "env", "GOPROXY"))
	for _, r := range regexp.MustCompile(`(github.com/keyturn/\S+) => (\S+)`).FindAllStringSubmatch(replaced, -1) {
		run("go", "mod", "edit", "-replace", r[1]+"="+filepath.Join(examples, r[2]))
	}
	run("env", proxy, "go", "mod", "tidy")
	run("go", "build", "./...")
	out := run("go", "test", "-timeout=5m", "./...")
	for _, want := range []string{"ok  \texample.com/app/recipes\t", "ok  \texample.com/app/quickstart\t"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing:\n%s", want, out)
		}
	}
}

// outside is set where the recipes are outside of the repository.
const outside = "KEYTURN_RECIPES_OUTSIDE"

// copyGo copies the Go files of a directory, except tests that import internal packages.
func copyGo(t *testing.T, from, to string, tests bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(from, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no files: %v", from, err)
	}
	must(t, os.MkdirAll(to, 0o755))
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		code := string(text)
		if strings.HasSuffix(file, "_test.go") && (!tests || strings.Contains(code, `"github.com/keyturn/keyturn/internal/`)) {
			continue
		}
		code = strings.ReplaceAll(code, `"github.com/keyturn/keyturn/examples/`, `"example.com/app/`)
		must(t, os.WriteFile(filepath.Join(to, filepath.Base(file)), []byte(code), 0o644))
	}
}
