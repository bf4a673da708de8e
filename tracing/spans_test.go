package tracing_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
)

var update = flag.Bool("update", false, "write testdata anew")

const (
	key  = "user:status:42"
	rule = "/im.Status/Set"
)

func TestSpans(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	check(t, err == nil && (len(files) == len(plays) || *update), "%d files of %d plays, %v: a file without a play would look like a proof", len(files), len(plays), err)
	for name, play := range plays {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				play(s)
				s.finish()
				compare(t, name, s.rec.tree()+s.meter.text())
			})
		})
	}
}

// compare holds got against testdata/name.txt.
func compare(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		must(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	check(t, got == string(want), "%s: got\n%s\nwant\n%s", file, got, want)
}

func (s *scene) want(err, target error) {
	s.t.Helper()
	if !errors.Is(err, target) {
		s.t.Errorf("error %v, want %v", err, target)
	}
}

func (s *scene) panics(do func()) {
	s.t.Helper()
	defer func() {
		s.t.Helper()
		if recover() == nil {
			s.t.Error("no panic")
		}
	}()
	do()
}
