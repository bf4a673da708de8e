// Package stats has the results of a benchmark: medians over runs, tables of them, and a chart.
package stats

import (
	"math"
	"slices"
	"strconv"
)

// Sample is one figure of one run.
type Sample struct {
	Unit  string
	Value float64
}

// Row is one figure over all runs of a scenario with one system.
type Row struct {
	Scenario, System, Unit string
	Values                 []float64
}

// Median returns the value in the middle, or the mean of the two there.
func (r *Row) Median() float64 {
	sorted := slices.Sorted(slices.Values(r.Values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// Rows are in the order of their first samples.
type Rows []Row

// Add counts a run's samples.
func (rows *Rows) Add(scenario, system string, samples ...Sample) {
	for _, s := range samples {
		row := rows.find(scenario, system, s.Unit)
		if row == nil {
			*rows = append(*rows, Row{scenario, system, s.Unit, nil})
			row = &(*rows)[len(*rows)-1]
		}
		row.Values = append(row.Values, s.Value)
	}
}

func (rows Rows) find(scenario, system, unit string) *Row {
	i := slices.IndexFunc(rows, func(r Row) bool { return r.Scenario == scenario && r.System == system && r.Unit == unit })
	if i < 0 {
		return nil
	}
	return &rows[i]
}

// ratio returns row's median divided by that of another system; "" if there is none.
func (rows Rows) ratio(row *Row, system string) string {
	other := rows.find(row.Scenario, system, row.Unit)
	if other == nil || other.Median() == 0 {
		return ""
	}
	return figure(row.Median() / other.Median())
}

// String is the value with its unit.
func (s Sample) String() string { return figure(s.Value) + " " + s.Unit }

// figure formats v with three significant digits, or as whole.
func figure(v float64) string {
	if v == 0 || math.Abs(v) >= 100 || math.IsNaN(v) {
		return whole(v)
	}
	return strconv.FormatFloat(v, 'f', 2-int(math.Floor(math.Log10(math.Abs(v)))), 64)
}

// whole formats v without digits after the point, in groups of three.
func whole(v float64) string {
	text := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + " " + text[i:]
	}
	return text
}
