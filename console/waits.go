package console

import (
	"html/template"
	"strings"

	"github.com/keyturn/keyturn/internal/waits"
	"github.com/keyturn/keyturn/internal/who"
)

// circleModel is a circle of waits for its template.
type circleModel struct {
	ID      string
	Dead    bool
	For     template.HTML
	Steps   []stepModel
	Picture waits.Picture
	Victim  stepModel // the step whose holder is the youngest: to end it costs least
	Command string
}

type stepModel struct {
	Key         string
	From, To    who.Process
	FromTrace   traceModel
	Rule        string
	HolderRule  string
	Waited      template.HTML
	CarriedFrom *who.Process // the request holds its own key through this other process
}

// edgeModel is a row of the table below the picture.
type edgeModel struct {
	ID               string
	From, To         who.Process
	Key              string
	More             int
	Longest          template.HTML
	Deadlock, Circle bool
}

const edgesShown = 200

func (c *Console) waits(l look) []list {
	g := l.graph
	var circles, edges []part
	for kind, all := range [][]waits.Circle{g.Deadlocks, g.Hints} {
		for _, one := range all {
			m := c.circle(l, one, kind == 0)
			circles = append(circles, part{ID: m.ID, HTML: c.write("circle", m)})
		}
	}
	for _, e := range g.Edges[:min(len(g.Edges), edgesShown)] {
		from, to := g.Nodes[e.From].Process, g.Nodes[e.To].Process
		m := edgeModel{elementID("edge", from.ID+"\n"+to.ID), from, to, e.Keys[0], len(e.Keys) - 1, l.clock.since(l.status.At.Add(-e.Longest)), e.InDeadlock, e.InHint}
		edges = append(edges, part{ID: m.ID, HTML: c.write("edge", m)})
	}
	picture := struct {
		waits.Picture
		None bool
	}{waits.Draw(*g), len(g.Edges) == 0}
	return []list{{"circles", circles}, {"graph", []part{{ID: "picture", HTML: c.write("graph", picture)}}}, {"edges", edges}}
}

func (c *Console) circle(l look, circle waits.Circle, dead bool) circleModel {
	m := circleModel{Dead: dead, For: l.clock.since(l.status.At.Add(-circle.For))}
	var id strings.Builder
	youngest := circle.Waits[0]
	n := len(circle.Waits)
	for i, w := range circle.Waits {
		id.WriteString(w.Waiter.Owner + " " + w.Key + "\n")
		s := stepModel{Key: w.Key, From: w.From, To: w.To, FromTrace: c.trace(w.Waiter.Trace), Rule: w.Waiter.Rule, HolderRule: w.Holder.Rule, Waited: l.clock.since(l.status.At.Add(-w.Waiter.Waited))}
		// What this request holds is what the one before it in the circle waits for.
		if held := circle.Waits[(i+n-1)%n].To; held.ID != w.From.ID {
			s.CarriedFrom = &held
		}
		m.Steps = append(m.Steps, s)
		if w.Holder.HeldFor <= youngest.Holder.HeldFor {
			youngest, m.Victim = w, s
		}
	}
	m.ID = elementID("circle", id.String())
	if dead {
		m.Picture = waits.Ring(circle)
	}
	if dead && !c.source.hides(youngest.Key) { // the command needs the key itself
		m.Command = "keyturn force --owner " + quote(youngest.Holder.Owner) + " --reason deadlock -- " + quote(youngest.Key)
	}
	return m
}

// quote quotes a word for a shell. Keys and owners have no control characters.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
