package stats

import (
	"slices"
)

// Sample is one figure of one run.
type Sample struct {
	Unit  string
	Value float64
}

// Row is one figure over all runs of a scenario with one system.
type Row struct {
	Scenario string
	System   string
	Unit     string
	Median   float64
	Min      float64
	Max      float64
	Runs     int
}

// Rows gathers samples. The zero value is empty.
type Rows struct {
	index map[[3]string]int
	rows  []Row
	all   [][]float64
}

// Add counts a run's samples.
func (r *Rows) Add(scenario, system string, samples ...Sample) {
	if r.index == nil {
		r.index = make(map[[3]string]int)
	}
	for _, s := range samples {
		key := [3]string{scenario, system, s.Unit}
		i, ok := r.index[key]
		if !ok {
			i = len(r.rows)
			r.index[key] = i
			r.rows = append(r.rows, Row{Scenario: scenario, System: system, Unit: s.Unit})
			r.all = append(r.all, nil)
		}
		r.all[i] = append(r.all[i], s.Value)
	}
}

// Summary returns a row for each scenario, system and unit, in the order of their first
// samples.
func (r *Rows) Summary() []Row {
	out := slices.Clone(r.rows)
	for i, values := range r.all {
		out[i].Median, out[i].Min, out[i].Max = Median(values), slices.Min(values), slices.Max(values)
		out[i].Runs = len(values)
	}
	return out
}

// Median returns the value in the middle, or the mean of the two there; 0 without values.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}
