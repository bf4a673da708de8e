package stats

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The panels of the chart: lines over growing numbers of goroutines.
var panels = []struct{ title, unit string }{
	{"pairs/s by goroutines, a key each", "pairs/s"},
	{"server's CPU per pair, µs (less)", "server CPU µs"},
	{"client's CPU per pair, µs (less)", "client CPU µs"},
}

// The sizes are in pixels: of a panel, and of what is left free around its lines.
const (
	width, height = 340, 190
	left, right   = 60, 15
	top, bottom   = 30, 20
)

// colors of the systems; a system that is not here is gray.
var colors = map[string]string{"keyturn": "#1f77b4", "redislock": "#e8a04c", "redsync": "#8cb369", "rueidislock": "#b47ab0"}

// Draw writes the chart of a ladder into an SVG file for a light page, and into one for a dark
// page, whose name ends in -dark.svg.
func (rows Rows) Draw(file string) error {
	ext := filepath.Ext(file)
	for _, theme := range []struct{ suffix, paper, ink string }{{"", "#ffffff", "#000000"}, {"-dark", "#0d1117", "#c9d1d9"}} {
		svg := new(bytes.Buffer)
		fmt.Fprintf(svg, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" font-family="Liberation Sans,Arial,Helvetica,sans-serif" font-size="11" fill="%[3]s">`+"\n",
			len(panels)*width, height, theme.ink)
		fmt.Fprintf(svg, `<rect width="100%%" height="100%%" fill="%s"/>`+"\n", theme.paper)
		for i, p := range panels {
			fmt.Fprintf(svg, `<g transform="translate(%d)">`+"\n", i*width)
			fmt.Fprintf(svg, `<text x="%d" y="15" font-size="13" text-anchor="middle">%s</text>`+"\n", width/2, p.title)
			if !rows.panel(svg, p.unit, theme.ink) {
				return fmt.Errorf("%s was not measured: %s is not written", p.unit, file)
			}
			fmt.Fprintln(svg, "</g>")
		}
		for i, system := range rows.systems() { // for all panels, where the lines of the first leave room
			fmt.Fprintf(svg, `<text x="%d" y="%d" text-anchor="end" fill="%s">%s</text>`+"\n", width-right, height-bottom-8-13*i, colorOf(system), system)
		}
		fmt.Fprintln(svg, "</svg>")
		if err := os.WriteFile(strings.TrimSuffix(file, ext)+theme.suffix+ext, svg.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// axis is logarithmic, so the same ratio is the same distance everywhere.
type axis struct{ low, high, from, to float64 }

func (a *axis) include(low, high float64) { a.low, a.high = min(a.low, low), max(a.high, high) }

// at returns the place of v in pixels.
func (a *axis) at(v float64) float64 {
	return a.from + (a.to-a.from)*math.Log(v/a.low)/math.Log(a.high/a.low)
}

// panel draws the axes and a line for each system. It reports whether there are any.
func (rows Rows) panel(w io.Writer, unit, ink string) bool {
	x, y := axis{math.Inf(1), 0, left, width - right}, axis{math.Inf(1), 0, height - bottom, top}
	type point struct{ n, v float64 }
	lines := make(map[string][]point)
	for _, row := range rows {
		n, err := strconv.ParseFloat(strings.TrimPrefix(row.Scenario, "ladder-"), 64)
		if v := row.Median(); err == nil && row.Unit == unit && v > 0 {
			x.include(n, n+0.1) // an axis needs a length
			y.include(v/1.2, v*1.2)
			lines[row.System] = append(lines[row.System], point{n, v})
		}
	}
	fmt.Fprintf(w, `<path d="M%d %dV%dH%d" fill="none" stroke="%s"/>`+"\n", left, top, height-bottom, width-right, ink)
	for power := 1.0; power <= y.high; power *= 10 {
		for _, v := range []float64{power, 2 * power, 5 * power} {
			if v >= y.low && v <= y.high {
				fmt.Fprintf(w, `<text x="%d" y="%.1f" text-anchor="end">%s –</text>`+"\n", left, y.at(v)+4, whole(v))
			}
		}
	}
	for n := 1.0; n <= x.high; n *= 2 {
		if n >= x.low {
			fmt.Fprintf(w, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", x.at(n), height-bottom+14, whole(n))
		}
	}
	for _, system := range rows.systems() {
		var path strings.Builder
		for _, p := range lines[system] {
			fmt.Fprintf(&path, " %.1f,%.1f", x.at(p.n), y.at(p.v))
			fmt.Fprintf(w, `<circle cx="%.1f" cy="%.1f" r="2" fill="%s"/>`+"\n", x.at(p.n), y.at(p.v), colorOf(system))
		}
		fmt.Fprintf(w, `<polyline points="%s" fill="none" stroke="%s" stroke-width="1.5"/>`+"\n", path.String(), colorOf(system))
	}
	return len(lines) > 0
}

func colorOf(system string) string { return cmp.Or(colors[system], "#b0b0b0") }
