package stats

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestHistogramQuantilesAreClose(t *testing.T) {
	h := NewHistogram()
	const n = 100_000
	for i := range n {
		h.Record(time.Duration(i) * time.Microsecond)
	}
	for _, q := range []float64{0, 0.01, 0.5, 0.99, 1} {
		want := q * (n - 1) * float64(time.Microsecond)
		if got := float64(h.Quantile(q)); math.Abs(got-want) > want/50+1 {
			t.Errorf("quantile %v is %v, want about %v", q, time.Duration(got), time.Duration(want))
		}
	}
	if h.Count() != n {
		t.Errorf("counted %d", h.Count())
	}
}

func TestHistogramTakesEveryDuration(t *testing.T) {
	h := NewHistogram()
	if h.Quantile(0.5) != 0 {
		t.Error("an empty one has a median")
	}
	for _, d := range []time.Duration{-1, 0, 1, math.MaxInt64} {
		h.Record(d)
	}
	if got := h.Quantile(0); got != 0 {
		t.Errorf("the least is %v", got)
	}
	if got := h.Quantile(1); float64(got) < 0.98*float64(longest) {
		t.Errorf("the most is %v", got)
	}
}

func TestHistogramMergesWhatAnotherProcessSent(t *testing.T) {
	here, there, back := NewHistogram(), NewHistogram(), NewHistogram()
	here.Record(time.Millisecond)
	there.Record(time.Second)
	there.Record(time.Second)
	text, err := json.Marshal(there)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, back); err != nil {
		t.Fatal(err)
	}
	here.Merge(back)
	if here.Count() != 3 || here.Quantile(0.5) != there.Quantile(0.5) {
		t.Errorf("%d values, median %v", here.Count(), here.Quantile(0.5))
	}
	if json.Unmarshal([]byte(`[1]`), back) == nil {
		t.Error("took an array")
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{7}, 7},
		{[]float64{9, 1, 5}, 5},
		{[]float64{9, 1, 5, 6}, 5.5},
	} {
		if got := Median(c.values); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.values, got, c.want)
		}
	}
}

// someRows: two runs of two systems, each with two units.
func someRows() []Row {
	var rows Rows
	for run := range 2 {
		v := float64(run)
		rows.Add("hot", "ours", Sample{"pairs/s", 3000 + v}, Sample{"us", 2})
		rows.Add("hot", "theirs", Sample{"pairs/s", 1000 - v}, Sample{"us", 4})
	}
	return rows.Summary()
}

func TestRowsSummarize(t *testing.T) {
	want := []Row{
		{"hot", "ours", "pairs/s", 3000.5, 3000, 3001, 2},
		{"hot", "ours", "us", 2, 2, 2, 2},
		{"hot", "theirs", "pairs/s", 999.5, 999, 1000, 2},
		{"hot", "theirs", "us", 4, 4, 4, 2},
	}
	if got := someRows(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTableComparesWithTheFirstSystem(t *testing.T) {
	var out bytes.Buffer
	if err := WriteTable(&out, someRows()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	find := func(system, unit string) string {
		for _, line := range lines {
			if strings.Contains(line, " "+system+" ") && strings.Contains(line, " "+unit+" ") {
				return line
			}
		}
		t.Fatalf("no line for %s, %s in\n%s", system, unit, out.String())
		return ""
	}
	if line := find("theirs", "pairs/s"); !strings.Contains(line, "3.00 x") {
		t.Errorf("no comparison in %q", line)
	}
	if line := find("theirs", "us"); !strings.Contains(line, "0.500 x") {
		t.Errorf("no comparison in %q", line)
	}
	if line := find("ours", "us"); strings.Contains(line, "x") {
		t.Errorf("compared with itself in %q", line)
	}
	out.Reset()
	if err := WriteTable(&out, nil); err != nil || out.Len() > 0 {
		t.Errorf("of nothing: %q, %v", out.String(), err)
	}
}

func TestFigure(t *testing.T) {
	for _, c := range []struct {
		v    float64
		want string
	}{
		{0, "0"},
		{0.01234, "0.0123"},
		{1, "1.00"},
		{12.34, "12.3"},
		{123.4, "123"},
		{1234, "1 234"},
		{1234567, "1 234 567"},
		{-1.5, "-1.50"},
		{-123456, "-123 456"},
	} {
		if got := Figure(c.v); got != c.want {
			t.Errorf("%v is written %q, want %q", c.v, got, c.want)
		}
	}
}

func TestWhole(t *testing.T) {
	for v, want := range map[float64]string{1: "1", 16: "16", 1000: "1 000", 1e6: "1 000 000"} {
		if got := Whole(v); got != want {
			t.Errorf("%v is written %q, want %q", v, got, want)
		}
	}
}

func TestRatios(t *testing.T) {
	var rows Rows
	rows.Add("hot", "ours", Sample{"pairs/s", 30}, Sample{"p50 µs", 5}, Sample{"alone", 1})
	rows.Add("hot", "theirs", Sample{"pairs/s", 10}, Sample{"p50 µs", 10})
	rows.Add("hot", "limit", Sample{"pairs/s", 60})
	rows.Add("idle", "ours", Sample{"commands/s", 1})
	rows.Add("idle", "theirs", Sample{"commands/s", 100})
	rows.Add("grpc", "memstore", Sample{"µs added", 1})
	var out bytes.Buffer
	if err := WriteRatios(&out, rows.Summary(), "ours"); err != nil {
		t.Fatal(err)
	}
	want := `| scenario | figure | theirs | limit |
|---|---|---|---|
| ` + "`hot`" + ` | pairs/s | 3.00 | 0.500 |
| ` + "`hot`" + ` | p50 µs (less) | 0.500 |  |
| ` + "`idle`" + ` | commands/s (less) | 0.0100 |  |
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	out.Reset()
	if err := WriteRatios(&out, nil, "ours"); err != nil || !strings.Contains(out.String(), "nothing") {
		t.Errorf("of nothing: %q, %v", out.String(), err)
	}
}

func TestLadder(t *testing.T) {
	var rows Rows
	rows.Add("ladder-1", "ours", Sample{"pairs/s", 30}, Sample{"server CPU µs", 5})
	rows.Add("ladder-1", "theirs", Sample{"pairs/s", 10}, Sample{"server CPU µs", 10})
	rows.Add("ladder-16", "ours", Sample{"pairs/s", 30})
	rows.Add("ladder-16", "limit", Sample{"pairs/s", 60})
	var out bytes.Buffer
	if err := WriteLadder(&out, rows.Summary(), "ours"); err != nil {
		t.Fatal(err)
	}
	want := `| | | 1 | 16 |
|---|---|---|---|
| pairs/s | theirs | 3.00 |  |
| pairs/s | limit |  | 0.500 |
| server CPU µs (less) | theirs | 0.500 |  |
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
