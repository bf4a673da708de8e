package waits

import (
	"math"

	"github.com/keyturn/keyturn/internal/lockjson"
)

// ringX is the room beside a ring, for labels.
const ringX = 66

// mostInRing is how many requests of a circle are drawn. One that is longer has a list only.
const mostInRing = 12

// Ring draws a circle of requests, each beside the key that it waits for.
func Ring(c Circle) Picture {
	n := len(c.Waits)
	if n < 2 || n > mostInRing {
		return Picture{Hidden: n}
	}
	rx, ry := 200.0, 62.0
	if n > 2 {
		rx, ry = 130+40*float64(n), 34+34*float64(n)
	}
	p := Picture{W: 2*ringX + boxW + int(2*rx), H: 2*marginY + boxH + int(2*ry)}
	if n == 2 {
		p.H = 2*marginY + boxH + 96
	}
	cx, cy := float64(p.W)/2, float64(p.H)/2
	point := func(turn, scale float64) (x, y float64) {
		angle := math.Pi + 2*math.Pi*turn/float64(n) // the first one stands at the left
		return cx + scale*rx*math.Cos(angle), cy + scale*ry*math.Sin(angle)
	}
	for i, w := range c.Waits {
		x, y := point(float64(i), 1)
		p.Boxes = append(p.Boxes, Box{
			X: int(x) - boxW/2, Y: int(y) - boxH/2, W: boxW, H: boxH, Process: w.From, Note: short(lockjson.TraceOf(w.Waiter.Trace).TraceID), InDeadlock: true,
		})
	}
	for i, w := range c.Waits {
		from, to := p.Boxes[i], p.Boxes[(i+1)%n]
		bulge := 1.12
		if n == 2 {
			bulge = 1
		}
		x, y := point(float64(i)+0.5, bulge)
		a := Arrow{Label: w.Key, InDeadlock: true, Anchor: "middle", LabelX: int(x), LabelY: int(y)}
		a.X1, a.Y1 = border(from, x, y)
		a.X2, a.Y2 = border(to, x, y)
		// The curve passes near the middle point.
		a.AX, a.AY = int((float64(a.X1)+3*x)/4), int((float64(a.Y1)+3*y)/4)
		a.BX, a.BY = int((float64(a.X2)+3*x)/4), int((float64(a.Y2)+3*y)/4)
		if n == 2 {
			a.AX, a.BX, a.AY, a.BY = a.X1, a.X2, int(y), int(y)
			a.LabelY = (a.Y1+3*a.AY+3*a.BY+a.Y2)/8 + int(math.Copysign(16, y-cy)) - 2
		}
		p.Arrows = append(p.Arrows, a)
	}
	return p
}

// border returns the point of a box's border that is nearest to a point, away from the corners.
func border(b Box, x, y float64) (px, py int) {
	cx, cy := float64(b.X)+float64(b.W)/2, float64(b.Y)+float64(b.H)/2
	dx, dy := x-cx, y-cy
	scale := min(float64(b.W)/2/math.Max(math.Abs(dx), 1), float64(b.H)/2/math.Max(math.Abs(dy), 1))
	return int(cx + dx*scale), int(cy + dy*scale)
}

// short is the beginning of a trace id.
func short(trace string) string {
	if len(trace) < 8 {
		return ""
	}
	return "trace " + trace[:8] + "…"
}
