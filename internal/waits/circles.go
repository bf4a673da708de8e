package waits

import (
	"cmp"
	"slices"
)

// link is an edge of the graph in which circles are sought.
type link struct {
	to   string
	wait Wait
}

// circles returns a shortest circle of each strongly connected part. name says between which nodes
// a wait is, and whether it counts.
func circles(all []Wait, name func(Wait) (from, to string, ok bool)) []Circle {
	links := make(map[string][]link)
	var order []string // so that the same waits give the same circles
	for _, w := range all {
		from, to, ok := name(w)
		if !ok {
			continue
		}
		if links[from] == nil {
			order = append(order, from)
		}
		links[from] = append(links[from], link{to, w})
	}
	var found []Circle
	for _, part := range components(order, links) {
		if len(part) > 1 {
			found = append(found, closed(shortest(part, links)))
		}
	}
	slices.SortStableFunc(found, func(a, b Circle) int { return cmp.Compare(b.For, a.For) })
	return found
}

func closed(waits []Wait) Circle {
	c := Circle{Waits: waits, For: waits[0].Waiter.Waited}
	for _, w := range waits {
		c.For = min(c.For, w.Waiter.Waited)
	}
	return c
}

// components returns the strongly connected parts. (R. Tarjan, Depth-First Search and Linear Graph
// Algorithms, 1972.) It keeps a stack of its own, because a chain of waits may be long.
func components(order []string, links map[string][]link) [][]string {
	type frame struct {
		node string
		next int
	}
	number, low, on := make(map[string]int), make(map[string]int), make(map[string]bool)
	var stack []string
	var parts [][]string
	enter := func(node string) frame {
		number[node] = len(number) + 1
		low[node] = number[node]
		stack, on[node] = append(stack, node), true
		return frame{node: node}
	}
	for _, root := range order {
		if number[root] > 0 {
			continue
		}
		for path := []frame{enter(root)}; len(path) > 0; {
			f := &path[len(path)-1]
			if f.next < len(links[f.node]) {
				to := links[f.node][f.next].to
				f.next++
				switch {
				case number[to] == 0:
					path = append(path, enter(to))
				case on[to]:
					low[f.node] = min(low[f.node], number[to])
				}
				continue
			}
			if low[f.node] == number[f.node] {
				at := slices.Index(stack, f.node)
				parts = append(parts, slices.Clone(stack[at:]))
				for _, node := range stack[at:] {
					on[node] = false
				}
				stack = stack[:at]
			}
			done := f.node
			if path = path[:len(path)-1]; len(path) > 0 {
				above := path[len(path)-1].node
				low[above] = min(low[above], low[done])
			}
		}
	}
	return parts
}

// shortest returns a shortest circle within a strongly connected part, by breadth-first search
// from each of its first nodes.
func shortest(part []string, links map[string][]link) []Wait {
	const tries = 32 // in a large part any short circle is good enough
	inside := make(map[string]bool, len(part))
	for _, node := range part {
		inside[node] = true
	}
	var best []Wait
	for _, start := range part[:min(len(part), tries)] {
		if circle := through(start, inside, links); best == nil || len(circle) < len(best) {
			best = circle
		}
	}
	return best
}

// through returns a shortest circle through start.
func through(start string, inside map[string]bool, links map[string][]link) []Wait {
	type step struct {
		from string
		wait Wait
	}
	came := make(map[string]step)
	for queue := []string{start}; len(queue) > 0; queue = queue[1:] {
		node := queue[0]
		for _, l := range links[node] {
			if _, seen := came[l.to]; seen || !inside[l.to] {
				continue
			}
			came[l.to] = step{node, l.wait}
			if l.to != start {
				queue = append(queue, l.to)
				continue
			}
			var circle []Wait
			for at := start; ; {
				s := came[at]
				circle = append(circle, s.wait)
				if at = s.from; at == start {
					slices.Reverse(circle)
					return circle
				}
			}
		}
	}
	return nil
}
