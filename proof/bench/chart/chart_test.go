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
		{Scenario: "hot-1proc", System: "keyturn", Unit: "pairs/s", Median: 12345},
		{Scenario: "hot-1proc", System: "somebody", Unit: "pairs/s", Median: 0},
		{Scenario: "handover", System: "keyturn", Unit: "p50 µs", Median: 321},
		{Scenario: "keys-100", System: "keyturn", Unit: "µs/pair", Median: 5},
		{Scenario: "keys-1000", System: "keyturn", Unit: "µs/pair", Median: 6},
		{Scenario: "waiters-1", System: "keyturn", Unit: "µs/pair", Median: 6},
		{Scenario: "processes-1", System: "keyturn", Unit: "µs/pair", Median: 6},
		{Scenario: "processes-1", System: "keyturn", Unit: "µs/pair with a key each", Median: 3},
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
	for _, want := range []string{"64 goroutines, one key", "keyturn", "somebody", "12 345", "321", "release to grant", "leases held", "a key each", "by goroutines", "another", "20 000"} {
		if !strings.Contains(all, want) {
			t.Errorf("the chart does not say %q", want)
		}
	}
	if strings.Contains(all, "512 goroutines") {
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
	rows := []stats.Row{{Scenario: "hot-1proc", System: "keyturn", Unit: "pairs/s", Median: 1}}
	if err := Draw(filepath.Join(t.TempDir(), "none", "chart.svg"), rows); err == nil {
		t.Error("no error")
	}
}

func TestDrawSoak(t *testing.T) {
	file := filepath.Join(t.TempDir(), "soak.svg")
	const names = "seconds,requests_per_second,heap_mb,goroutines,connections,keys,redis_mb\n"
	if err := DrawSoak(file, strings.NewReader(names+"15,32,5.75,52,43,138,2.34\n120,31,5.98,53,27,184,2.28\n")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file, strings.TrimSuffix(file, ".svg") + "-dark.svg"} {
		all := texts(t, name)
		for _, panel := range soakPanels {
			if !strings.Contains(all, panel.title) {
				t.Errorf("%s does not say %q", name, panel.title)
			}
		}
	}
	for samples, want := range map[string]string{
		"":                               "no samples",
		names:                            "no samples",
		"seconds,heap_mb\n15,5.75\n":     "no column goroutines",
		names + "15,32,much,52,43,1,2\n": "sample 1: heap_mb",
		names + "15,32,5.75,52,43,138\n": "wrong number of fields",
	} {
		if err := DrawSoak(file, strings.NewReader(samples)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q in it", samples, err, want)
		}
	}
}
