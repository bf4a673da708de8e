package waits

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/keyturn/keyturn/internal/who"
)

// Picture is a drawing, in pixels. A template writes it as SVG.
type Picture struct {
	W, H   int
	Boxes  []Box
	Arrows []Arrow
	// Hidden is how many processes are not drawn.
	Hidden int
}

// Box is a process, or a request in a circle.
type Box struct {
	X, Y, W, H int
	Process    who.Process
	Note       string // a second line
	InDeadlock bool
	InHint     bool
}

// Arrow is a cubic curve from a box to another: who waits for whom.
type Arrow struct {
	X1, Y1, AX, AY, BX, BY, X2, Y2 int // the ends and, between them, the control points
	LabelX, LabelY                 int
	Anchor                         string // of the label: "start", "middle" or "end"
	Label                          string // the key
	More                           int    // how many keys there are besides
	InDeadlock, InHint             bool
}

const (
	boxW, boxH = 176, 46
	gapX, gapY = 190, 34
	marginX    = 16
	marginY    = 40
	// sideways is the room beside a column that arrows within it need, with their labels.
	sideways = 190
	// mostBoxes is how many processes a picture can have to be of use. Of more, it shows the
	// circles and the ten for which most waiters wait.
	mostBoxes    = 60
	largestBoxes = 10
)

// Draw lays the graph out in columns: a process stands to the left of those that it waits for, except in
// a circle.
func Draw(g Graph) Picture {
	shown := choose(g)
	if len(shown) == 0 {
		return Picture{Hidden: len(g.Nodes)}
	}
	column := columns(g, shown)
	last := 0
	for _, n := range shown {
		last = max(last, column[n])
	}
	places := make([]int, last+1) // how many boxes each column has
	row := make(map[int]int)
	for _, n := range shown {
		row[n] = places[column[n]]
		places[column[n]]++
	}
	most, left, right := slices.Max(places), marginX, marginX
	for _, e := range g.Edges {
		within := e.From != e.To && places[column[e.From]] > 1 && column[e.From] == column[e.To]
		if within && column[e.From] == last {
			left = sideways
		}
		if within && column[e.From] == 0 {
			right = sideways
		}
	}
	p := Picture{
		W:      left + right + (last+1)*boxW + last*gapX,
		H:      2*marginY + most*boxH + (most-1)*gapY,
		Hidden: len(g.Nodes) - len(shown),
	}
	at := make(map[int]Box)
	for _, n := range shown {
		node, c := g.Nodes[n], column[n]
		height := places[c]*boxH + (places[c]-1)*gapY
		b := Box{
			X: left + (last-c)*(boxW+gapX), Y: (p.H-height)/2 + row[n]*(boxH+gapY), W: boxW, H: boxH,
			Process: node.Process, Note: note(node), InDeadlock: node.InDeadlock, InHint: node.InHint,
		}
		at[n] = b
		p.Boxes = append(p.Boxes, b)
	}
	for _, e := range g.Edges {
		from, ok1 := at[e.From]
		to, ok2 := at[e.To]
		if !ok1 || !ok2 {
			continue
		}
		a := connect(from, to, e.From == e.To)
		a.Label, a.More, a.InDeadlock, a.InHint = e.Keys[0], len(e.Keys)-1, e.InDeadlock, e.InHint
		p.Arrows = append(p.Arrows, a)
	}
	// What matters is drawn last, on top of the others.
	slices.SortStableFunc(p.Arrows, func(a, b Arrow) int { return cmp.Compare(weight(a), weight(b)) })
	return p
}

func weight(a Arrow) int {
	switch {
	case a.InDeadlock:
		return 2
	case a.InHint:
		return 1
	}
	return 0
}

// choose returns the nodes to draw, those that block most in front.
func choose(g Graph) []int {
	all := make([]int, len(g.Nodes))
	for i := range all {
		all[i] = i
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(g.Nodes[b].Blocked, g.Nodes[a].Blocked) })
	if len(all) <= mostBoxes {
		return all
	}
	var some []int
	for rank, n := range all {
		if rank < largestBoxes || g.Nodes[n].InDeadlock || g.Nodes[n].InHint {
			some = append(some, n)
		}
	}
	return some[:min(len(some), mostBoxes)]
}

// columns gives each node the length of the longest chain of waits that begins there. The nodes of a
// strongly connected part are in one column.
func columns(g Graph, shown []int) map[int]int {
	is := make(map[int]bool)
	for _, n := range shown {
		is[n] = true
	}
	links := make(map[string][]link)
	id := func(n int) string { return g.Nodes[n].Process.ID }
	var order []string
	number := make(map[string]int)
	for _, n := range shown {
		order = append(order, id(n))
		number[id(n)] = n
	}
	for _, e := range g.Edges {
		if is[e.From] && is[e.To] && e.From != e.To {
			links[id(e.From)] = append(links[id(e.From)], link{to: id(e.To)})
		}
	}
	column := make(map[int]int)
	// Tarjan's algorithm finds a part after all parts that it leads to.
	for _, part := range components(order, links) {
		far := 0
		inside := make(map[string]bool)
		for _, node := range part {
			inside[node] = true
		}
		for _, node := range part {
			for _, l := range links[node] {
				if !inside[l.to] {
					far = max(far, column[number[l.to]]+1)
				}
			}
		}
		for _, node := range part {
			column[number[node]] = far
		}
	}
	return column
}

// connect draws an arrow between two boxes.
func connect(from, to Box, self bool) Arrow {
	a := Arrow{Y1: from.Y + from.H/2, Y2: to.Y + to.H/2}
	switch {
	case self: // a loop above the box
		a = Arrow{X1: from.X + from.W - 50, Y1: from.Y, X2: from.X + from.W - 20, Y2: from.Y, AY: from.Y - 26, BY: from.Y - 26}
		a.AX, a.BX = a.X1-6, a.X2+6
		a.LabelX, a.LabelY, a.Anchor = (a.X1+a.X2)/2, from.Y-24, "middle"
		return a
	case from.X == to.X: // the way down leaves at the right, the way up at the left
		side, bulge, label := from.X+from.W, 56, 48
		a.Anchor = "start"
		if from.Y > to.Y {
			side, bulge, label, a.Anchor = from.X, -56, -48, "end"
		}
		a.X1, a.X2, a.AX, a.BX = side, side, side+bulge, side+bulge
		a.LabelX, a.LabelY = side+label, (a.Y1+a.Y2)/2+4
	default:
		a.X1, a.X2, a.Anchor = from.X+from.W, to.X, "middle"
		if from.X > to.X {
			a.X1, a.X2 = from.X, to.X+to.W
		}
		reach := (a.X2 - a.X1) / 2
		a.AX, a.BX = a.X1+reach, a.X2-reach
		// Nearer to the waiter: the arrows to one holder meet at its box.
		a.LabelX, a.LabelY = (343*a.X1+441*a.AX+189*a.BX+27*a.X2)/1000, (784*a.Y1+216*a.Y2)/1000-7
	}
	a.AY, a.BY = a.Y1, a.Y2
	return a
}

// note says how many requests wait in a process, and how many wait for it.
func note(n Node) string {
	switch {
	case n.Blocked == 0:
		return strconv.Itoa(n.Waiters) + " waiting"
	case n.Waiters == 0:
		return "blocks " + strconv.Itoa(n.Blocked)
	}
	return strconv.Itoa(n.Waiters) + " waiting, blocks " + strconv.Itoa(n.Blocked)
}

// labelShown is how many characters of a name fit.
const labelShown = 22

// Name is the process's label, as far as it fits.
func (b Box) Name() string { return cut(b.Process.Label) }

// Short is the key, as far as it fits.
func (a Arrow) Short() string { return cut(a.Label) }

func cut(s string) string {
	runes := []rune(s)
	if len(runes) <= labelShown {
		return s
	}
	return string(runes[:labelShown-1]) + "…"
}
