package chart

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// soakPanels are the columns of a soak's samples that are drawn, each over the time in minutes.
var soakPanels = []struct{ title, column string }{
	{"live heap of two processes, MB", "heap_mb"},
	{"their goroutines", "goroutines"},
	{"requests per second", "requests_per_second"},
	{"connections of Redis", "connections"},
	{"keys in Redis", "keys"},
	{"memory of Redis, MB", "redis_mb"},
}

// DrawSoak writes what a soak has sampled (examples/im -for -csv) into two files, as [Draw] does.
func DrawSoak(file string, samples io.Reader) error {
	rows, err := csv.NewReader(samples).ReadAll()
	if err != nil {
		return err
	}
	if len(rows) < 2 {
		return errors.New("there are no samples")
	}
	seconds, err := column(rows, "seconds")
	if err != nil {
		return err
	}
	return both(file, func(t theme) (drawn []*plot.Plot, err error) {
		for _, panel := range soakPanels {
			values, err := column(rows, panel.column)
			if err != nil {
				return nil, err
			}
			p, err := overTime(t, panel.title, seconds, values)
			if err != nil {
				return nil, err
			}
			drawn = append(drawn, p)
		}
		return drawn, nil
	})
}

// overTime is a panel whose axis of values begins at 0: what grows by a little should look so.
func overTime(t theme, title string, seconds, values []float64) (*plot.Plot, error) {
	xys := make(plotter.XYs, len(seconds))
	for i := range xys {
		xys[i] = plotter.XY{X: seconds[i] / 60, Y: values[i]}
	}
	line, err := plotter.NewLine(xys)
	if err != nil {
		return nil, err
	}
	line.Color, line.Width = colorOf("keyturn"), vg.Points(1.2)
	p := t.newPlot(title)
	p.Add(line)
	p.X.Min, p.X.Max = 0, max(slices.Max(seconds)/60, 1e-9)
	p.Y.Min, p.Y.Max = 0, max(slices.Max(values), 1e-9)*1.3
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(plain), plot.TickerFunc(plain)
	return p, nil
}

// plain labels the usual ticks without decimals that say nothing.
func plain(low, high float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(low, high)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = strconv.FormatFloat(ticks[i].Value, 'f', -1, 64)
		}
	}
	return ticks
}

// column returns the numbers of a column, which has a name in the first row.
func column(rows [][]string, name string) (numbers []float64, err error) {
	at := slices.Index(rows[0], name)
	if at < 0 {
		return nil, fmt.Errorf("the samples have no column %s", name)
	}
	for i, row := range rows[1:] {
		n, err := strconv.ParseFloat(row[at], 64)
		if err != nil {
			return nil, fmt.Errorf("sample %d: %s: %w", i+1, name, err)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}
