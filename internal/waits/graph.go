package waits

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/lockjson"
	"github.com/keyturn/keyturn/internal/who"
)

// Younger waits count in no circle: on a busy system circles come and go all the time.
const (
	deadlockAfter = time.Second
	hintAfter     = 5 * time.Second
)

// Wait is a request that waits for a key, beside one that holds it.
type Wait struct {
	Key    string
	Waiter driver.Waiter
	Holder driver.Holder
	// From and To are the processes of the two.
	From, To who.Process
	// Local: the waiter stands in its process's own line, so the store does not know of it.
	Local bool
}

// request names the request that waits, and the one that holds; "" if that is not known. While a
// lease lingers, the request that it was granted to may be over.
func (w Wait) request() (waits, holds string) {
	if !w.Holder.Lingers {
		holds = lockjson.TraceOf(w.Holder.Trace).TraceID
	}
	return lockjson.TraceOf(w.Waiter.Trace).TraceID, holds
}

// Circle is a list of waits, each for something that the next one's waiter holds. The last waits for the
// first.
type Circle struct {
	Waits []Wait
	// For is how long the circle has been closed: its youngest wait.
	For time.Duration
}

// Node is a process.
type Node struct {
	Process who.Process
	// Waiters wait in it, and Blocked wait for it.
	Waiters, Blocked int
	// InDeadlock, InHint: the process is part of a circle.
	InDeadlock, InHint bool
}

// Edge is a process that waits for another, or for itself.
type Edge struct {
	From, To int      // indices of nodes
	Keys     []string // the one that was waited for longest comes first
	Longest  time.Duration
	// InDeadlock, InHint: a circle has this edge.
	InDeadlock, InHint bool
}

// Graph says which process waits for which.
type Graph struct {
	Nodes     []Node
	Edges     []Edge
	Waits     []Wait   // longest first
	Deadlocks []Circle // circles of requests, longest first
	Hints     []Circle // circles of processes that no deadlock explains, longest first
}

// mostHolders is how many holders of a key are paired with its waiters. A thousand readers and a
// thousand waiters would be a million pairs.
const mostHolders = 16

// Pairs returns the waits of keys as a store shows them. A waiter is paired with each holder.
func Pairs(infos []driver.LockInfo) []Wait {
	var all []Wait
	for _, info := range infos {
		for _, w := range info.Waiters {
			for _, h := range info.Holders[:min(len(info.Holders), mostHolders)] {
				all = append(all, Wait{Key: info.Key, Waiter: w, Holder: h, From: who.Of(w.Owner), To: who.Of(h.Owner)})
			}
		}
	}
	return all
}

// Build builds the graph of waits. It sorts them.
func Build(all []Wait) Graph {
	slices.SortStableFunc(all, func(a, b Wait) int {
		return cmp.Or(cmp.Compare(b.Waiter.Waited, a.Waiter.Waited), strings.Compare(a.Key, b.Key))
	})
	g := Graph{Waits: all}
	g.Deadlocks = circles(all, func(w Wait) (from, to string, ok bool) {
		from, to = w.request()
		return from, to, from != "" && to != "" && from != to && w.Waiter.Waited >= deadlockAfter
	})
	dead := edges(g.Deadlocks)
	g.Hints = circles(all, func(w Wait) (from, to string, ok bool) {
		return w.From.ID, w.To.ID, w.From.ID != w.To.ID && w.Waiter.Waited >= hintAfter && !dead[edgeOf(w)]
	})
	hinted := edges(g.Hints)
	g.connect(dead, hinted)
	return g
}

type edge struct{ from, to string }

func edgeOf(w Wait) edge { return edge{w.From.ID, w.To.ID} }

// edges returns the edges between processes that circles have.
func edges(all []Circle) map[edge]bool {
	marked := make(map[edge]bool)
	for _, c := range all {
		for _, w := range c.Waits {
			marked[edgeOf(w)] = true
		}
	}
	return marked
}

// connect fills in the nodes and the edges.
func (g *Graph) connect(dead, hinted map[edge]bool) {
	nodes, known := make(map[string]int), make(map[edge]int)
	node := func(p who.Process) int {
		i, found := nodes[p.ID]
		if !found {
			i = len(g.Nodes)
			nodes[p.ID] = i
			g.Nodes = append(g.Nodes, Node{Process: p})
		}
		return i
	}
	type waiter struct{ owner, key string }
	counted := make(map[waiter]bool)
	type keyOf struct {
		edge int
		key  string
	}
	listed := make(map[keyOf]bool)
	for _, w := range g.Waits {
		from, to, id := node(w.From), node(w.To), edgeOf(w)
		i, found := known[id]
		if !found {
			i = len(g.Edges)
			known[id] = i
			g.Edges = append(g.Edges, Edge{From: from, To: to, Longest: w.Waiter.Waited, InDeadlock: dead[id], InHint: hinted[id]})
			for _, n := range []*Node{&g.Nodes[from], &g.Nodes[to]} {
				n.InDeadlock, n.InHint = n.InDeadlock || dead[id], n.InHint || hinted[id]
			}
		}
		if one := (keyOf{i, w.Key}); !listed[one] {
			listed[one] = true
			g.Edges[i].Keys = append(g.Edges[i].Keys, w.Key)
		}
		g.Nodes[to].Blocked++
		if one := (waiter{w.Waiter.Owner, w.Key}); !counted[one] || w.Local {
			counted[one] = true
			g.Nodes[from].Waiters++
		}
	}
}
