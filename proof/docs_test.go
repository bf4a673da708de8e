package main_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/proof/trial"
)

// TestThePageNamesWhatThereIs: every test that docs/proof.md names is there, and the page names every
// fault of the nemesis.
func TestThePageNamesWhatThereIs(t *testing.T) {
	text, err := os.ReadFile("../docs/proof.md")
	must(t, err)
	page := string(text)
	tests := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err = filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, match := range function.FindAllSubmatch(source, -1) {
			tests[string(match[1])] = true
		}
		return err
	})
	must(t, err)
	for _, match := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(page, -1) {
		if !tests[match[1]] {
			t.Errorf("there is no test %s", match[1])
		}
	}
	for _, name := range trial.Faults() {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("the page does not name the fault %q", name)
		}
	}
}
