package stats

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// WriteRatios writes a Markdown table of the system's medians divided by those of each of the
// others, for docs/benchmarks.md. It leaves out figures that only the system has.
func WriteRatios(w io.Writer, rows []Row, system string) error {
	var others []string
	for _, row := range rows {
		if row.System != system && !slices.Contains(others, row.System) && times(rows, system, row) != "" {
			others = append(others, row.System)
		}
	}
	if len(others) == 0 {
		_, err := fmt.Fprintf(w, "nothing to compare with %s\n", system)
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| scenario | figure | %s |\n|---|---%s|\n", strings.Join(others, " | "), strings.Repeat("|---", len(others)))
	for _, row := range rows {
		if row.System != system {
			continue
		}
		cells := make([]string, len(others))
		for i, other := range others {
			cells[i] = ratio(rows, row, other)
		}
		if strings.Join(cells, "") != "" {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", row.Scenario, figureName(row.Unit), strings.Join(cells, " | "))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// ratio returns row's figure divided by the other system's; "" if there is no such row.
func ratio(rows []Row, row Row, other string) string {
	for _, r := range rows {
		if r.Scenario == row.Scenario && r.Unit == row.Unit && r.System == other && r.Median != 0 {
			return Figure(row.Median / r.Median)
		}
	}
	return ""
}

// figureName adds to a unit which direction is better: more per second, otherwise less. But
// commands per second are a cost.
func figureName(unit string) string {
	if strings.HasSuffix(unit, "/s") && !strings.HasPrefix(unit, "commands") {
		return unit
	}
	return unit + " (less)"
}
