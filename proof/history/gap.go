package history

import (
	"slices"
)

// Span is a time from one moment to another.
type Span struct{ From, To int64 }

// Gap is a time without a grant.
type Gap struct {
	Span
	Late int64 // how much of it was after the last moment at which the server did not serve
}

// Longest returns the longest gap between the grants, and the one that was longest after the
// server served again. within is when there should have been grants; outages are when the server
// did not serve.
func Longest(sections []Section, within Span, outages []Span) (longest, latest Gap) {
	at := []int64{within.From, within.To}
	for _, s := range sections {
		if s.Given > within.From && s.Given < within.To {
			at = append(at, s.Given)
		}
	}
	slices.Sort(at)
	for i := 1; i < len(at); i++ {
		g := Gap{Span: Span{at[i-1], at[i]}}
		served := g.From
		for _, o := range outages {
			if o.From < g.To && o.To > g.From {
				served = max(served, min(o.To, g.To))
			}
		}
		g.Late = g.To - served
		if g.To-g.From > longest.To-longest.From {
			longest = g
		}
		if g.Late > latest.Late {
			latest = g
		}
	}
	return longest, latest
}
