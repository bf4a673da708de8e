package chart

import (
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/keyturn/keyturn/proof/bench/stats"
)

// line is a panel with the cost of a pair over a growing number.
type line struct{ title, prefix string }

var lines = []line{
	{"leases held meanwhile: µs/pair", "keys-"},
	{"goroutines on one key: µs/pair", "waiters-"},
	{"processes of 4 goroutines: µs/pair", "processes-"},
}

func (l line) draw(rows []stats.Row, t theme) (*plot.Plot, error) {
	units, points := series(rows, l.prefix, func(row stats.Row) string { return row.Unit })
	if len(points) == 0 {
		return nil, nil
	}
	p := t.newPlot(l.title)
	slices.Sort(units)
	var ticks []plot.Tick
	low, high, most := math.Inf(1), 0.0, 0.0
	for i, unit := range units {
		xys := points[unit]
		drawn, dots, err := plotter.NewLinePoints(xys)
		if err != nil {
			return nil, err
		}
		drawn.Color = colorOf("keyturn")
		drawn.Width = vg.Points(1.5)
		drawn.Dashes = [][]vg.Length{nil, {vg.Points(4), vg.Points(2)}}[min(i, 1)]
		dots.Color = colorOf("keyturn")
		p.Add(drawn, dots)
		if len(units) > 1 {
			p.Legend.Add(legend(unit), drawn)
		}
		for _, xy := range xys {
			ticks = append(ticks, plot.Tick{Value: xy.X, Label: stats.Whole(xy.X)})
			most = max(most, xy.Y)
		}
		low, high = min(low, xys[0].X), max(high, xys[len(xys)-1].X)
	}
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(ticks)
	p.X.Min, p.X.Max = low, max(high, 2*low) // a logarithmic axis needs a length
	p.Y.Min, p.Y.Max = 0, max(most, 1e-9)*1.3
	p.Legend.Top, p.Legend.Left = true, true
	return p, nil
}

// legend is what a unit adds to the title.
func legend(unit string) string {
	if unit == "µs/pair" {
		return "one key"
	}
	return strings.TrimPrefix(unit, "µs/pair with ")
}
