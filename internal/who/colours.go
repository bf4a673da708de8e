package who

import (
	"hash/fnv"
	"sync"
)

// ColourCount is how many colours the style sheet has for processes.
const ColourCount = 10

// mostColoured is how many processes have a colour at a time. Then all choose again.
const mostColoured = 4096

// Colours gives each process a colour that it keeps, and the first processes colours that differ. The zero
// value has given none. It is safe for concurrent use.
type Colours struct {
	mu    sync.Mutex
	given map[string]int
	used  [ColourCount]int
}

// Of returns the colour of a process, from 0 to [ColourCount]-1.
func (c *Colours) Of(p Process) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if colour, has := c.given[p.ID]; has {
		return colour
	}
	if c.given == nil || len(c.given) >= mostColoured {
		c.given, c.used = make(map[string]int), [ColourCount]int{}
	}
	// Begin at the same place for the same process, so that consoles mostly agree.
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(p.ID)) // cannot fail
	first := int(sum.Sum32() % ColourCount)
	best := first
	for i := range ColourCount {
		if colour := (first + i) % ColourCount; c.used[colour] < c.used[best] {
			best = colour
		}
	}
	c.given[p.ID] = best
	c.used[best]++
	return best
}
