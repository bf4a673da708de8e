package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/proof/bench/stats"
)

// texts are those of an SVG file; it fails the test when the file is not XML.
func texts(t *testing.T, file string) string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all strings.Builder
	for d := xml.NewDecoder(f); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := token.(xml.CharData); ok {
			all.WriteString(strings.TrimSpace(string(text)) + "\n")
		}
	}
}

func TestDrawShowsWhatWasMeasured(t *testing.T) {
	file := filepath.Join(t.TempDir(), "chart.svg")
	rows := []stats.Row{
		{Scenario: "ladder-1", System: "another", Unit: "pairs/s", Median: 5000},
		{Scenario: "ladder-16", System: "another", Unit: "pairs/s", Median: 40000},
	}
	if err := Draw(file, rows); err != nil {
		t.Fatal(err)
	}
	all := texts(t, file)
	if dark := texts(t, strings.TrimSuffix(file, ".svg")+"-dark.svg"); dark != all {
		t.Errorf("on a dark page the chart says %q", dark)
	}
	for _, want := range []string{"by goroutines", "another", "20 000"} {
		if !strings.Contains(all, want) {
			t.Errorf("the chart does not say %q", want)
		}
	}
	if strings.Contains(all, "server's CPU") {
		t.Error("it has a panel of what was not measured")
	}
}

func TestDrawWithoutFigures(t *testing.T) {
	file := filepath.Join(t.TempDir(), "chart.svg")
	if err := Draw(file, []stats.Row{{Scenario: "echo", System: "redis", Unit: "µs added"}}); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file is there: %v", err)
	}
}

func TestDrawTellsThatItCannotWrite(t *testing.T) {
	rows := []stats.Row{{Scenario: "ladder-1", System: "keyturn", Unit: "pairs/s", Median: 1}}
	if err := Draw(filepath.Join(t.TempDir(), "none", "chart.svg"), rows); err == nil {
		t.Error("no error")
	}
}
