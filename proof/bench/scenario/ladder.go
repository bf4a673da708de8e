package scenario

import (
	"fmt"
	"time"
)

// rungs are the numbers of goroutines of the ladder. Most real processes are on the lower ones.
var rungs = []int{1, 2, 4, 8, 16, 32, 64, 128, 256}

// ladderSpan bounds the measurement of a rung. There are many rungs, and the neighbours show as
// well as a longer measurement whether a figure is an outlier.
const ladderSpan = time.Second

// Ladder returns the scenarios that measure uncontended locks with more and more goroutines, a
// key each.
func Ladder() []Scenario {
	var all []Scenario
	for _, n := range rungs {
		all = append(all, Scenario{
			Name:    fmt.Sprintf("ladder-%d", n),
			About:   fmt.Sprintf("goroutines with a key each: %d", n),
			Systems: lockerNames(),
			Measure: uncontended(n),
		})
	}
	return all
}
