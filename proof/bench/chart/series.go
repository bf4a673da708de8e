package chart

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot/plotter"

	"github.com/keyturn/keyturn/proof/bench/stats"
)

// series returns the points of each series, ordered by X, and the names in the order of the rows.
// X is the number that follows prefix in the name of a row's scenario. A row for which name
// returns "" is left out.
func series(rows []stats.Row, prefix string, name func(stats.Row) string) (names []string, points map[string]plotter.XYs) {
	points = make(map[string]plotter.XYs)
	for _, row := range rows {
		number, ok := strings.CutPrefix(row.Scenario, prefix)
		x, err := strconv.ParseFloat(number, 64)
		key := name(row)
		if !ok || err != nil || key == "" {
			continue
		}
		if points[key] == nil {
			names = append(names, key)
		}
		points[key] = append(points[key], plotter.XY{X: x, Y: row.Median})
	}
	for _, xys := range points {
		slices.SortFunc(xys, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
	}
	return names, points
}
