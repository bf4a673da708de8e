package chart

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/keyturn/keyturn/proof/bench/stats"
)

// ladder is a panel with a line for each system over a growing number of goroutines. Both
// axes are logarithmic, so the same ratio is the same distance everywhere.
type ladder struct{ title, unit string }

var ladders = []ladder{
	{"pairs/s by goroutines, a key each", "pairs/s"},
	{"server's CPU per pair, µs (less)", "server CPU µs"},
	{"client's CPU per pair, µs (less)", "client CPU µs"},
}

func (l ladder) draw(rows []stats.Row, t theme) (*plot.Plot, error) {
	systems, points := series(rows, "ladder-", func(row stats.Row) string {
		if row.Unit != l.unit || row.Median <= 0 {
			return ""
		}
		return row.System
	})
	if len(points) == 0 {
		return nil, nil
	}
	p := t.newPlot(l.title)
	var ticks []plot.Tick
	for _, system := range systems {
		xys := points[system]
		drawn, dots, err := plotter.NewLinePoints(xys)
		if err != nil {
			return nil, err
		}
		drawn.Color, dots.Color = colorOf(system), colorOf(system)
		drawn.Width = vg.Points(1.5)
		p.Add(drawn, dots)
		p.Legend.Add(system, drawn)
		for _, xy := range xys {
			ticks = append(ticks, plot.Tick{Value: xy.X, Label: stats.Whole(xy.X)})
		}
	}
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(ticks)
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.TickerFunc(halves)
	p.X.Max = max(p.X.Max, 2*p.X.Min) // a logarithmic axis needs a length
	p.Y.Min, p.Y.Max = p.Y.Min/1.2, p.Y.Max*1.2
	if l == ladders[0] { // for all of them
		p.Legend.Left, p.Legend.Top = true, true
		p.Y.Max *= 4 // room for it
	} else {
		p.Legend = plot.NewLegend()
	}
	return p, nil
}

// halves marks 1, 2 and 5 of each power of ten.
func halves(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for power := 1.0; power <= high; power *= 10 {
		for _, digit := range []float64{1, 2, 5} {
			if v := digit * power; v >= low && v <= high {
				ticks = append(ticks, plot.Tick{Value: v, Label: stats.Whole(v)})
			}
		}
	}
	return ticks
}
