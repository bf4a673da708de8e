// Package circles finds processes that wait for each other. It knows nothing but edges: a waits for
// something that b has.
package circles

import "slices"

// Of numbers the circles from 1, in the order of nodes, and returns the number of each node; 0: it is
// in none. Two nodes are in the same circle if each waits for the other, directly or through others.
// (R. Tarjan, Depth-first search and linear graph algorithms, 1972.)
func Of(nodes []string, edges map[string][]string) map[string]int {
	f := finder{edges: edges, index: make(map[string]int), low: make(map[string]int), on: make(map[string]bool), circle: make(map[string]int)}
	for _, n := range nodes {
		if f.index[n] == 0 {
			f.visit(n)
		}
	}
	return f.numbered(nodes)
}

type finder struct {
	edges      map[string][]string
	index, low map[string]int
	on         map[string]bool
	stack      []string
	circle     map[string]int
	found      int
}

func (f *finder) visit(n string) {
	f.index[n] = len(f.index) + 1
	f.low[n] = f.index[n]
	f.stack, f.on[n] = append(f.stack, n), true
	for _, next := range f.edges[n] {
		if f.index[next] == 0 {
			f.visit(next)
			f.low[n] = min(f.low[n], f.low[next])
		} else if f.on[next] {
			f.low[n] = min(f.low[n], f.index[next])
		}
	}
	if f.low[n] != f.index[n] {
		return
	}
	at := slices.Index(f.stack, n)
	together := f.stack[at:]
	f.stack = f.stack[:at]
	if len(together) > 1 {
		f.found++
	}
	for _, m := range together {
		f.on[m] = false
		if len(together) > 1 {
			f.circle[m] = f.found
		}
	}
}

// numbered gives the circles numbers in the order of nodes, whatever order they were found in.
func (f *finder) numbered(nodes []string) map[string]int {
	number, result := make(map[int]int), make(map[string]int)
	for _, n := range nodes {
		c := f.circle[n]
		if c == 0 {
			continue
		}
		if number[c] == 0 {
			number[c] = len(number) + 1
		}
		result[n] = number[c]
	}
	return result
}
