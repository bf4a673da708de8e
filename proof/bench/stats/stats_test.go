package stats

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/checktest"
)

var must = checktest.Must

// measured has four runs of two systems, and what was measured of one alone.
func measured() (rows Rows) {
	for run := range 4 {
		v := float64(run)
		rows.Add("ladder-1", "ours", Sample{"pairs/s", 2998 + v}, Sample{"server CPU µs", 2}, Sample{"alone", 1})
		rows.Add("ladder-1", "theirs", Sample{"pairs/s", 1002 - v}, Sample{"server CPU µs", 4})
	}
	rows.Add("ladder-16", "ours", Sample{"pairs/s", 30})
	rows.Add("ladder-16", "third", Sample{"pairs/s", 60}, Sample{"client CPU µs", 1})
	return rows
}

// Rows of a scenario and unit are together, and compared with one system.
func TestWriteTable(t *testing.T) {
	var out bytes.Buffer
	must(t, measured().WriteTable(&out, "ours"))
	want := []string{
		"scenario unit system median min max runs ours is", "",
		"ladder-1 pairs/s ours 3 000 2 998 3 001 4",
		"ladder-1 pairs/s theirs 1 000 999 1 002 4 3.00 x", "",
		"ladder-1 server CPU µs ours 2.00 2.00 2.00 4",
		"ladder-1 server CPU µs theirs 4.00 4.00 4.00 4 0.500 x", "",
		"ladder-1 alone ours 1.00 1.00 1.00 4", "",
		"ladder-16 pairs/s ours 30.0 30.0 30.0 1",
		"ladder-16 pairs/s third 60.0 60.0 60.0 1 0.500 x", "",
		"ladder-16 client CPU µs third 1.00 1.00 1.00 1",
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	if got := strings.Join(lines, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func TestWriteRatios(t *testing.T) {
	for ladder, want := range map[bool]string{
		false: `| scenario | figure | theirs | third |
|---|---|---|---|
| ` + "`ladder-1`" + ` | pairs/s | 3.00 |  |
| ` + "`ladder-1`" + ` | server CPU µs (less) | 0.500 |  |
| ` + "`ladder-16`" + ` | pairs/s |  | 0.500 |
`,
		true: `| goroutines | beside | 1 | 16 |
|---|---|---|---|
| pairs/s | theirs | 3.00 |  |
| server CPU µs (less) | theirs | 0.500 |  |
| pairs/s | third |  | 0.500 |
`,
	} {
		var out bytes.Buffer
		if err := measured().WriteRatios(&out, "ours", ladder); err != nil || out.String() != want {
			t.Errorf("%v, got\n%s\nwant\n%s", err, out.String(), want)
		}
	}
	if err := measured()[:1].WriteRatios(new(bytes.Buffer), "ours", false); err == nil {
		t.Error("a table of nothing")
	}
}

// Each file is XML and shows every system with its figures.
func TestDraw(t *testing.T) {
	file := filepath.Join(t.TempDir(), "chart.svg")
	must(t, measured().Draw(file))
	for _, name := range []string{file, strings.TrimSuffix(file, ".svg") + "-dark.svg"} {
		text, err := os.ReadFile(name)
		must(t, err)
		drawn := map[string]int{}
		for d := xml.NewDecoder(bytes.NewReader(text)); ; {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			must(t, err)
			switch token := token.(type) {
			case xml.StartElement:
				drawn[token.Name.Local]++
			case xml.CharData:
				drawn[string(token)]++
			}
		}
		if drawn["circle"] != 7 || drawn["ours"]*drawn["theirs"]*drawn["third"]*drawn["16"]*drawn["2 000 –"] == 0 || bytes.Contains(text, []byte("NaN")) {
			t.Errorf("%s has %v", name, drawn)
		}
	}
	if err := measured()[:1].Draw(file + ".none"); err == nil {
		t.Error("a chart of what was not measured")
	}
}
