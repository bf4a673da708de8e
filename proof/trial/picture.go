package trial

import (
	"cmp"
	"errors"
	"fmt"
	"html"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/proof/history"
)

// The measures of a picture, in pixels.
const (
	wide   = 1200
	margin = 90
	row    = 16
)

// around is what a picture shows before and after what is wrong.
const around = int64(300 * time.Millisecond)

// picture draws the history around what is wrong: a line for each process, a bar for each lease of
// the key, a shade for each fault.
func picture(wrong error, sections []history.Section, m material) string {
	var v *history.Violation
	if !errors.As(wrong, &v) || v.To == 0 {
		return ""
	}
	from, to := v.From-around, v.To+around
	key, _, _ := strings.Cut(v.Key, "/") // of a register
	x := func(at int64) float64 {
		return margin + float64(min(max(at, from), to)-from)/float64(to-from)*(wide-margin-10)
	}
	var shown []history.Section
	lines := map[int]int{} // by process
	for _, s := range sections {
		if s.Given < to && s.End > from && slices.ContainsFunc(s.Claims, func(c driver.Claim) bool { return c.Key == key }) {
			shown = append(shown, s)
		}
	}
	slices.SortStableFunc(shown, func(a, b history.Section) int { return cmp.Compare(a.Process, b.Process) })
	var b strings.Builder
	for _, f := range m.struck {
		if f.From < to && f.To > from {
			fmt.Fprintf(&b, `<rect x="%.1f" y="30" width="%.1f" height="100%%" fill="#fdd"><title>%s</title></rect>`+"\n"+`<text x="%.1f" y="26">%s</text>`+"\n",
				x(f.From), max(x(f.To)-x(f.From), 1), html.EscapeString(f.Fault+" of "+f.Place), x(f.From), html.EscapeString(f.Fault))
		}
	}
	for _, s := range shown {
		if _, ok := lines[s.Process]; !ok {
			lines[s.Process] = len(lines)
			y := 40 + row*lines[s.Process]
			fmt.Fprintf(&b, `<text x="4" y="%d">process %d</text><line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#ccc"/>`+"\n", y+11, s.Process, margin, y+row, wide, y+row)
		}
		y := 40 + row*lines[s.Process]
		fmt.Fprintf(&b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="#48a" fill-opacity="0.6" stroke="#135"><title>%s</title></rect>`+"\n",
			x(s.Given), y+2, max(x(s.End)-x(s.Given), 1), row-4, html.EscapeString(s.String()))
	}
	for _, at := range []int64{v.From, v.To} {
		fmt.Fprintf(&b, `<line x1="%.1f" y1="30" x2="%.1f" y2="100%%" stroke="#c00"/>`+"\n", x(at), x(at))
	}
	high := 60 + row*len(lines)
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="monospace" font-size="10">
<text x="4" y="12">%s, %d ms</text>
%s</svg>
`, wide, high, html.EscapeString(v.Error()), (to-from)/int64(time.Millisecond), b.String())
}
