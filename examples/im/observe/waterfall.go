package observe

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/tracing/semconv"
)

// Waterfall is a picture of two traces on one time axis: that of the request that waited, and
// that of the request that it waited for.
type Waterfall struct {
	begin, end time.Time
	rows       []row
}

// row is a span, or a heading.
type row struct {
	Span
	heading string
	depth   int
	mark    string // a link ends here
	to      string // a link begins here
}

// NewWaterfall lays out two traces as [Collector.Blocked] gives them.
func NewWaterfall(waited, holder []Span) *Waterfall {
	w := &Waterfall{begin: waited[0].Begin, end: waited[0].End}
	for _, s := range slices.Concat(waited, holder) {
		if s.Begin.Before(w.begin) {
			w.begin = s.Begin
		}
		if s.End.After(w.end) {
			w.end = s.End
		}
	}
	w.rows = append(w.rows, row{heading: "The request that waited"})
	w.lay(waited, noParent, 0)
	w.rows = append(w.rows, row{heading: "The request it waited for, which its link leads to"})
	w.lay(holder, noParent, 0)
	w.connect()
	return w
}

func (w *Waterfall) lay(spans []Span, parent string, depth int) {
	for _, s := range spans {
		if s.Parent == parent {
			w.rows = append(w.rows, row{Span: s, depth: depth})
			w.lay(spans, s.ID, depth+1)
		}
	}
}

// connect marks both ends of the links between the two.
func (w *Waterfall) connect() {
	for i := range w.rows {
		for _, l := range w.rows[i].Links {
			for j := range w.rows {
				if w.rows[j].Trace == l.Trace && w.rows[j].ID == l.ID {
					w.rows[j].mark = "[1]"
					w.rows[i].to = "blocked by [1]"
				}
			}
		}
	}
}

// label returns the span's name and keyturn's attributes.
func (r row) label() string {
	parts := []string{r.Name}
	if r.Rule != "" && r.Name == semconv.SpanAcquire {
		parts = append(parts, r.Rule)
	}
	for _, p := range []string{r.Outcome, r.to, r.mark} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, "  ")
}

// bar places the span on an axis of that length.
func (w *Waterfall) bar(s Span, length float64) (from, to float64) {
	whole := float64(w.end.Sub(w.begin))
	return float64(s.Begin.Sub(w.begin)) / whole * length, float64(s.End.Sub(w.begin)) / whole * length
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)
}

// WriteText draws the picture as text.
func (w *Waterfall) WriteText(out io.Writer) error {
	const length = 48
	var b strings.Builder
	for _, r := range w.rows {
		if r.heading != "" {
			fmt.Fprintf(&b, "\n%s\n", r.heading)
			continue
		}
		from, to := w.bar(r.Span, length)
		left := min(int(from), length-1)
		bar := strings.Repeat(" ", left) + strings.Repeat(fill(r.Name), max(1, int(to)-left))
		fmt.Fprintf(&b, "%-10s %-74s |%-*s| %10s\n", r.Process, strings.Repeat("  ", r.depth)+r.label(), length, bar, milliseconds(r.duration()))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// fill returns different letters for waiting and working.
func fill(name string) string {
	switch name {
	case semconv.SpanAcquire:
		return "."
	case semconv.SpanHold:
		return "#"
	}
	return "="
}
