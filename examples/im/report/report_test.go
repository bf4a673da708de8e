package report

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/examples/im/load"
)

// The lines that the table names are those in the code.
func TestTableTellsTheTruth(t *testing.T) {
	named := regexp.MustCompile(`(?m)^  (\S+\.(?:go|proto)) +(.+)$`).FindAllStringSubmatch(Result{}.verdict(), -1)
	if len(named) != 3 {
		t.Fatalf("%d lines named", len(named))
	}
	for _, line := range named {
		source, err := os.ReadFile("../" + line[1])
		if err != nil {
			t.Error(err)
		}
		if !strings.Contains(string(source), line[2]) {
			t.Errorf("%s does not contain %s", line[1], line[2])
		}
	}
}

func TestTableOfAFailure(t *testing.T) {
	for _, figures := range []load.Figures{
		{StatusLostUpdates: 1}, {GroupViolations: 1}, {MessagesProcessedTwice: 1}, {MessagesLost: 1},
	} {
		var out bytes.Buffer
		if err := (Result{Guarded: figures}).WriteTable(&out); err != nil || !strings.Contains(out.String(), "That is a bug") {
			t.Errorf("%+v: %q, %v", figures, out.String(), err)
		}
	}
}
