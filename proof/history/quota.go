package history

import "fmt"

// Count is how much happened in a history.
type Count struct {
	Operations int // acquisitions, releases, increments, calls of Once, forced releases
	Unknown    int // of these, nobody knows what came of them
	Grants     int
	Tokens     int // different ones
	HandedOn   int // grants within a process, without the store
	Lingered   int // of these, of leases that the process had kept
	Lost       int // leases that were lost
	Extended   int
	Downgraded int
	Forced     int
	Stale      int // increments that a register refused because of their tokens
}

// CountOf counts what is in a history.
func CountOf(events []Event) Count {
	type id struct{ process, nr int }
	var c Count
	open := map[id]bool{}
	tokens := map[uint64]bool{}
	owners := map[string]bool{}
	for _, e := range events {
		at := id{e.Process, e.Nr}
		switch e.What {
		case Asked, Returning, Adding, Calling, Forcing:
			if !open[at] { // an execution of Once is one operation with its call
				c.Operations++
				open[at] = true
			}
		case Given:
			c.Grants++
			tokens[e.Token] = true
			if owners[e.Owner] {
				c.HandedOn++
			}
			owners[e.Owner] = e.Owner != ""
			delete(open, at)
		case Unsure:
			c.Unknown++
			delete(open, at)
		case Lingered:
			c.Lingered++
		case Extending:
			c.Extended++
		case Sharing:
			c.Downgraded++
		case Forced:
			c.Forced += len(e.Owners)
			delete(open, at)
		case Gone:
			c.Lost++
			delete(open, at)
		case Stale:
			c.Stale++
			delete(open, at)
		case Denied, Returned, Added, Recorded, Replayed:
			delete(open, at)
		}
	}
	c.Unknown += len(open) // their process died
	c.Tokens = len(tokens)
	return c
}

// maxUnknown is the largest part of the operations without a known outcome: one in so many. A
// history of which less is known proves little.
const maxUnknown = 5

// Enough checks that a history has at least so many grants, and not too many operations whose
// outcome is unknown.
func (c Count) Enough(grants int) error {
	switch {
	case c.Grants < grants:
		return fmt.Errorf("%d grants, and there should be %d or more", c.Grants, grants)
	case c.Unknown*maxUnknown > c.Operations:
		return fmt.Errorf("of %d operations nobody knows what came of %d", c.Operations, c.Unknown)
	}
	return nil
}
