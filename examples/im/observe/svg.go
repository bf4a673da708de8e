package observe

import (
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/keyturn/keyturn/tracing/semconv"
)

// Sizes in the picture, in pixels.
const (
	rowHeight  = 24
	labelWidth = 620
	axisLength = 420
	margin     = 12
)

// WriteSVG draws the picture as SVG.
func (w *Waterfall) WriteSVG(out io.Writer) error {
	var b strings.Builder
	width, height := labelWidth+axisLength+110, rowHeight*len(w.rows)+2*margin
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="monospace" font-size="12">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	var from, to [2]float64 // the link's ends
	for i, r := range w.rows {
		y := float64(margin + rowHeight*i)
		text := y + rowHeight*0.65
		if r.heading != "" {
			fmt.Fprintf(&b, `<text x="%d" y="%.1f" font-weight="bold" fill="#24292f">%s</text>`+"\n", margin, text, html.EscapeString(r.heading))
			continue
		}
		begin, end := w.bar(r.Span, axisLength)
		begin, end = begin+labelWidth, max(end, begin+2)+labelWidth
		fmt.Fprintf(&b, `<text x="%d" y="%.1f" fill="#57606a">%s</text>`, margin, text, html.EscapeString(r.Process))
		fmt.Fprintf(&b, `<text x="%d" y="%.1f" fill="#24292f">%s</text>`, margin+90+14*r.depth, text, html.EscapeString(r.label()))
		fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%d" rx="2" fill="%s"/>`, begin, y+5, end-begin, rowHeight-10, colour(r.Name))
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" fill="#57606a">%s</text>`+"\n", end+6, text, milliseconds(r.duration()))
		switch {
		case r.to != "":
			from = [2]float64{begin + 4, y + rowHeight - 5}
		case r.mark != "":
			to = [2]float64{begin + 1, y + 4}
		}
	}
	if from[1] > 0 && to[1] > 0 {
		fmt.Fprintf(&b, `<path d="M%.1f %.1f C%.1f %.1f %.1f %.1f %.1f %.1f" fill="none" stroke="#cf222e" stroke-width="1.5" stroke-dasharray="5 3"/>`+"\n",
			from[0], from[1], from[0]-40, from[1]+30, to[0]-40, to[1]-30, to[0], to[1])
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(out, b.String())
	return err
}

func colour(name string) string {
	switch name {
	case semconv.SpanAcquire:
		return "#d4a72c" // waiting
	case semconv.SpanHold:
		return "#2da44e"
	}
	return "#8c959f"
}
