package waits_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/waits"
)

// fits fails if a part of the picture is outside of it, or if two boxes overlap.
func fits(t *testing.T, p waits.Picture) {
	t.Helper()
	inside := func(x, y int) bool { return x >= 0 && y >= 0 && x <= p.W && y <= p.H }
	for i, b := range p.Boxes {
		check(t, inside(b.X, b.Y) && inside(b.X+b.W, b.Y+b.H), "%+v is not in %d x %d", b, p.W, p.H)
		for _, o := range p.Boxes[:i] {
			check(t, b.X >= o.X+o.W || o.X >= b.X+b.W || b.Y >= o.Y+o.H || o.Y >= b.Y+b.H, "%+v overlaps %+v", b, o)
		}
	}
	for _, a := range p.Arrows {
		check(t, inside(a.X1, a.Y1) && inside(a.X2, a.Y2) && inside(a.LabelX, a.LabelY), "%+v is not in %d x %d", a, p.W, p.H)
	}
}

func TestAWaiterStandsLeftOfTheHolder(t *testing.T) {
	t.Parallel()
	p := waits.Draw(waits.Build(waits.Pairs([]driver.LockInfo{
		key("a", time.Second, [2]int{1, 0}, [2]int{2, 0}, [2]int{3, 0}),
		key("b", time.Second, [2]int{2, 0}, [2]int{4, 0}),
		key("c", time.Second, [2]int{4, 0}, [2]int{4, 0}), // another engine's lease would look the same
	})))
	fits(t, p)
	x := make(map[string]int)
	for _, b := range p.Boxes {
		x[b.Process.Label] = b.X
	}
	check(t, len(p.Boxes) == 4 && len(p.Arrows) == 4 && x["h pid 4"] < x["h pid 2"] && x["h pid 2"] < x["h pid 1"] && x["h pid 3"] == x["h pid 2"], "%+v", p)
}

func TestCirclesAreDrawnOnTop(t *testing.T) {
	t.Parallel()
	g := waits.Build(waits.Pairs([]driver.LockInfo{
		key("a", 9*time.Second, [2]int{1, 11}, [2]int{2, 22}), key("b", 9*time.Second, [2]int{2, 22}, [2]int{1, 11}),
		key("c", 8*time.Second, [2]int{1, 0}, [2]int{3, 0}),
	}))
	p := waits.Draw(g)
	fits(t, p)
	n := len(p.Arrows)
	check(t, n == 3 && !p.Arrows[0].InDeadlock && p.Arrows[n-1].InDeadlock, "%+v", p.Arrows)
	for n := 2; n < 14; n++ {
		c := waits.Circle{}
		for i := range n {
			c.Waits = append(c.Waits, waits.Pairs([]driver.LockInfo{key(fmt.Sprint(i), time.Second, [2]int{i + 1, 0}, [2]int{i, 0})})...)
		}
		ring := waits.Ring(c)
		fits(t, ring)
		check(t, (n > 12 || len(ring.Boxes) == n && len(ring.Arrows) == n) && (n <= 12 || ring.Hidden == n), "%d: %+v", n, ring)
	}
}

func TestManyProcesses(t *testing.T) {
	t.Parallel()
	var infos []driver.LockInfo
	for i := range 200 {
		infos = append(infos, key(fmt.Sprint("k", i), time.Second, [2]int{i % 7, 0}, [2]int{i + 10, 0}))
	}
	infos = append(infos, key("x", 9*time.Second, [2]int{300, 1}, [2]int{301, 2}), key("y", 9*time.Second, [2]int{301, 2}, [2]int{300, 1}))
	p := waits.Draw(waits.Build(waits.Pairs(infos)))
	fits(t, p)
	dead := 0
	for _, b := range p.Boxes {
		if b.InDeadlock {
			dead++
		}
	}
	check(t, len(p.Boxes) == 10 && dead == 2 && p.Hidden == 199, "%d boxes, %d of the deadlock, %d hidden", len(p.Boxes), dead, p.Hidden)
	p = waits.Draw(waits.Graph{})
	check(t, len(p.Boxes) == 0, "%+v", p)
}
