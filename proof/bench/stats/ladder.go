package stats

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// WriteLadder writes a Markdown table of the system's medians divided by those of the others,
// with a column for each rung. It is for scenarios whose names differ in the number at their
// end.
func WriteLadder(w io.Writer, rows []Row, system string) error {
	var rungs, units, others []string
	note := func(list *[]string, name string) {
		if !slices.Contains(*list, name) {
			*list = append(*list, name)
		}
	}
	for _, row := range rows {
		if row.System == system {
			note(&rungs, row.Scenario)
			note(&units, row.Unit)
		} else {
			note(&others, row.System)
		}
	}
	var b strings.Builder
	b.WriteString("| | |")
	for _, rung := range rungs {
		fmt.Fprintf(&b, " %s |", rung[strings.LastIndexByte(rung, '-')+1:])
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(rungs)) + "\n")
	for _, unit := range units {
		for _, other := range others {
			cells := make([]string, len(rungs))
			for i, rung := range rungs {
				cells[i] = rungRatio(rows, rung, unit, system, other)
			}
			if strings.Join(cells, "") != "" {
				fmt.Fprintf(&b, "| %s | %s | %s |\n", figureName(unit), other, strings.Join(cells, " | "))
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// rungRatio returns system's figure divided by the other's; "" if either was not measured.
func rungRatio(rows []Row, rung, unit, system, other string) string {
	for _, row := range rows {
		if row.Scenario == rung && row.Unit == unit && row.System == system {
			return ratio(rows, row, other)
		}
	}
	return ""
}
