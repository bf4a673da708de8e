package stats

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// WriteTable writes rows for people. The rows of a scenario and unit are together. The last
// column compares the system with each of the others.
func (rows Rows) WriteTable(w io.Writer, system string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "scenario\tunit\tsystem\tmedian\tmin\tmax\truns\t%s is\t\n", system)
	written := make(map[[2]string]bool)
	for _, head := range rows {
		group := [2]string{head.Scenario, head.Unit}
		if written[group] {
			continue
		}
		written[group] = true
		fmt.Fprintln(tw, "\t\t\t\t\t\t\t\t")
		for _, row := range rows {
			if row.Scenario != head.Scenario || row.Unit != head.Unit {
				continue
			}
			times := ""
			if ours := rows.find(row.Scenario, system, row.Unit); ours != nil && row.System != system {
				times = rows.ratio(ours, row.System) + " x"
			}
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t\n", row.Scenario, row.Unit, row.System, figure(row.Median()),
				figure(slices.Min(row.Values)), figure(slices.Max(row.Values)), len(row.Values), times)
		}
	}
	return tw.Flush()
}

// WriteRatios writes a Markdown table of the system's medians divided by those of each of the
// others, for docs/benchmarks.md. It leaves out figures that only the system has. A ladder's
// scenarios differ in the number at their end, and have a column each.
func (rows Rows) WriteRatios(w io.Writer, system string, ladder bool) error {
	var lines, columns []string
	cells := make(map[[2]string]string)
	for _, row := range rows {
		if row.System != system {
			continue
		}
		for _, other := range rows.systems() {
			ratio := rows.ratio(&row, other)
			if other == system || ratio == "" {
				continue
			}
			line, column := fmt.Sprintf("`%s` | %s", row.Scenario, figureName(row.Unit)), other
			if ladder {
				line, column = figureName(row.Unit)+" | "+other, row.Scenario[strings.LastIndexByte(row.Scenario, '-')+1:]
			}
			lines, columns = with(lines, line), with(columns, column)
			cells[[2]string{line, column}] = ratio
		}
	}
	if len(lines) == 0 {
		return fmt.Errorf("nothing to compare with %s was measured", system)
	}
	head := "scenario | figure"
	if ladder {
		head = "goroutines | beside"
	}
	text := fmt.Sprintf("| %s | %s |\n|---|---%s|\n", head, strings.Join(columns, " | "), strings.Repeat("|---", len(columns)))
	for _, line := range lines {
		text += "| " + line
		for _, column := range columns {
			text += " | " + cells[[2]string{line, column}]
		}
		text += " |\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// systems returns the names of the systems.
func (rows Rows) systems() (names []string) {
	for _, row := range rows {
		names = with(names, row.System)
	}
	return names
}

func with(list []string, name string) []string {
	if slices.Contains(list, name) {
		return list
	}
	return append(list, name)
}

// figureName adds to a unit which direction is better: more per second, otherwise less.
func figureName(unit string) string {
	if strings.HasSuffix(unit, "/s") {
		return unit
	}
	return unit + " (less)"
}
