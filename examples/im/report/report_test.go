package report

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/examples/im/load"
)

var result = Result{
	Redis:         "a Redis",
	Seconds:       3.5,
	Unguarded:     load.Figures{StatusLostUpdates: 251, GroupViolations: 163, MessagesProcessedTwice: 120, Requests: 1368},
	Guarded:       load.Figures{Requests: 1368},
	UnguardedTook: 800 * time.Millisecond,
	GuardedTook:   1900 * time.Millisecond,
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	if err := result.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(out.String(), "\n\n")
	want := `                                      without keyturn      with keyturn
status updates lost        of 360                 251                 0
members too many or twice                         163                 0
messages processed twice   of 120                 120                 0
messages lost              of 120                   0                 0
requests                                         1368              1368
seconds                                           0.8               1.9`
	if table != want {
		t.Errorf("got\n%s\nwant\n%s", table, want)
	}
}

// The lines that the table names are those in the code.
func TestTableTellsTheTruth(t *testing.T) {
	named := regexp.MustCompile(`(?m)^  (\S+\.(?:go|proto)) +(.+)$`).FindAllStringSubmatch(result.verdict(), -1)
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
		bad := result
		bad.Guarded = figures
		var out bytes.Buffer
		if err := bad.WriteTable(&out); err != nil || !strings.Contains(out.String(), "That is a bug") {
			t.Errorf("%+v: %q, %v", figures, out.String(), err)
		}
	}
}
