// Package chart draws what was measured.
package chart

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/keyturn/keyturn/proof/bench/stats"
)

// Columns of panels, and the size of each panel.
const (
	columns = 3
	width   = 9 * vg.Centimeter
	height  = 5 * vg.Centimeter
)

// colors of the systems; a system that is not here is gray.
var colors = map[string]color.Color{
	"keyturn":     color.RGBA{0x1f, 0x77, 0xb4, 0xff},
	"redislock":   color.RGBA{0xe8, 0xa0, 0x4c, 0xff},
	"redsync":     color.RGBA{0x8c, 0xb3, 0x69, 0xff},
	"rueidislock": color.RGBA{0xb4, 0x7a, 0xb0, 0xff},
}

func colorOf(system string) color.Color {
	return cmp.Or(colors[system], color.Color(color.Gray{0xb0}))
}

// Draw writes the panels for which there are rows into an SVG file for a light page, and into one
// for a dark page, whose name ends in -dark.svg: lines over growing numbers of goroutines.
func Draw(file string, rows []stats.Row) error {
	return both(file, func(t theme) (drawn []*plot.Plot, err error) {
		for _, l := range ladders {
			plot, err := l.draw(rows, t)
			if err != nil {
				return nil, err
			}
			if plot != nil {
				drawn = append(drawn, plot)
			}
		}
		if len(drawn) == 0 {
			return nil, fmt.Errorf("nothing of what was measured has a chart: %s is not written", file)
		}
		return drawn, nil
	})
}

// both writes the file of each theme.
func both(file string, draw func(theme) ([]*plot.Plot, error)) error {
	for _, t := range themes {
		drawn, err := draw(t)
		if err != nil {
			return err
		}
		ext := filepath.Ext(file)
		if err := save(strings.TrimSuffix(file, ext)+t.suffix+ext, drawn, t); err != nil {
			return err
		}
	}
	return nil
}

// save lays the panels out in rows.
func save(file string, panels []*plot.Plot, t theme) error {
	cols := min(columns, len(panels))
	grid := slices.Collect(slices.Chunk(panels, cols))
	last := &grid[len(grid)-1]
	for len(*last) < cols {
		*last = append(*last, nil)
	}
	canvas := vgsvg.New(vg.Length(cols)*width, vg.Length(len(grid))*height)
	all := draw.New(canvas)
	all.SetColor(t.background) // otherwise the page would shine through between the panels
	all.Fill(all.Rectangle.Path())
	tiles := draw.Tiles{
		Rows: len(grid), Cols: cols,
		PadX: vg.Centimeter, PadY: vg.Centimeter,
		PadTop: vg.Millimeter * 3, PadBottom: vg.Millimeter * 3, PadLeft: vg.Millimeter * 3, PadRight: vg.Millimeter * 6,
	}
	for i, row := range plot.Align(grid, tiles, all) {
		for j, c := range row {
			if grid[i][j] != nil {
				grid[i][j].Draw(c)
			}
		}
	}
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return err
	}
	return os.WriteFile(file, bytes.ReplaceAll(svg.Bytes(), []byte(oneFont), []byte(aFont)), 0o644)
}

// The writer names the one font whose widths it knows. Where that font is missing, a similar
// one is better than the viewer's default.
const (
	oneFont = "font-family:Liberation Sans;"
	aFont   = "font-family:Liberation Sans,Arial,Helvetica,sans-serif;"
)
