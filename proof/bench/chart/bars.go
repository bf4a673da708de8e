package chart

import (
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/keyturn/keyturn/proof/bench/scenario"
	"github.com/keyturn/keyturn/proof/bench/stats"
)

// bar is a panel that compares systems in one figure.
type bar struct {
	title, scenario, unit string
	without               []string // systems whose figure has another meaning
}

// Less is better where the title ends in "(less)".
var bars = []bar{
	{"1 goroutine: pairs/s", "uncontended-1", "pairs/s", nil},
	{"64 goroutines, a key each: pairs/s", "uncontended-64", "pairs/s", grouped},
	{"512 goroutines, a key each: pairs/s", "uncontended-512", "pairs/s", grouped},
	{"64 goroutines, one key: pairs/s", "hot-1proc", "pairs/s", nil},
	{"4 processes, one key: pairs/s", "hot-4proc", "pairs/s", nil},
	{"4 processes, one key: p99 wait, µs (less)", "hot-4proc", "p99 µs", limit},
	{"from release to grant: p50, µs (less)", "handover", "p50 µs", nil},
	{"commands for 100 renewals (less)", "held-100k", "commands per 100 renewals", nil},
	{"once: first executions/s", "once-64", "first/s", nil},
}

var (
	limit   = []string{scenario.Limit}
	grouped = []string{scenario.Grouped}
)

func (b bar) draw(rows []stats.Row, t theme) (*plot.Plot, error) {
	var shown []stats.Row
	for _, row := range rows {
		if row.Scenario == b.scenario && row.Unit == b.unit && !slices.Contains(b.without, row.System) {
			shown = append(shown, row)
		}
	}
	if len(shown) == 0 {
		return nil, nil
	}
	slices.Reverse(shown) // the axis begins at the bottom
	p := t.newPlot(b.title)
	var names []string
	most := 0.0
	for i, row := range shown {
		chart, err := plotter.NewBarChart(plotter.Values{row.Median}, vg.Millimeter*4)
		if err != nil {
			return nil, err
		}
		chart.Horizontal = true
		chart.XMin = float64(i)
		chart.Color = colorOf(row.System)
		chart.LineStyle.Width = 0
		p.Add(chart)
		if err := label(p, row.Median, float64(i), stats.Figure(row.Median)); err != nil {
			return nil, err
		}
		names = append(names, row.System+"  ")
		most = max(most, row.Median)
	}
	p.NominalY(names...)
	p.X.Min, p.X.Max = 0, max(most, 1e-9)*1.25 // room for the figures
	p.X.Tick.Marker = plot.ConstantTicks(nil)  // the figures beside the bars are enough
	p.X.LineStyle.Width = 0
	return p, nil
}
