package stats

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"text/tabwriter"
)

// WriteTable writes rows for people. The rows of a scenario and unit are together. The last
// column compares the first system with each of the others.
func WriteTable(w io.Writer, rows []Row) error {
	if len(rows) == 0 {
		return nil
	}
	first := rows[0].System
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "scenario\tunit\tsystem\tmedian\tmin\tmax\truns\t%s is\t\n", first)
	var last Row
	for _, row := range group(rows) {
		if row.Scenario != last.Scenario || row.Unit != last.Unit {
			fmt.Fprintln(tw, "\t\t\t\t\t\t\t\t")
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t\n", row.Scenario, row.Unit, row.System,
			Figure(row.Median), Figure(row.Min), Figure(row.Max), row.Runs, times(rows, first, row))
		last = row
	}
	return tw.Flush()
}

// group brings rows of the same scenario and unit together.
func group(rows []Row) []Row {
	type key struct{ scenario, unit string }
	var order []key
	groups := make(map[key][]Row)
	for _, row := range rows {
		k := key{row.Scenario, row.Unit}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], row)
	}
	out := make([]Row, 0, len(rows))
	for _, k := range order {
		out = append(out, groups[k]...)
	}
	return out
}

// times returns system's median divided by row's, for the same scenario and unit.
func times(rows []Row, system string, row Row) string {
	if row.System == system {
		return ""
	}
	for _, r := range rows {
		if r.Scenario == row.Scenario && r.Unit == row.Unit && r.System == system {
			if text := ratio(rows, r, row.System); text != "" {
				return text + " x"
			}
		}
	}
	return ""
}

// Figure formats v with three significant digits, or with all digits before the point, in
// groups of three.
func Figure(v float64) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	digits := max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	text := strconv.FormatFloat(v, 'f', digits, 64)
	if digits > 0 {
		return text
	}
	return inThrees(text)
}

// Whole formats v without digits after the point, in groups of three.
func Whole(v float64) string { return inThrees(strconv.FormatFloat(v, 'f', 0, 64)) }

func inThrees(text string) string {
	start := 0
	if text[0] == '-' {
		start = 1
	}
	for i := len(text) - 3; i > start; i -= 3 {
		text = text[:i] + " " + text[i:]
	}
	return text
}
