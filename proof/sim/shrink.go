package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Shrink makes a history that is wrong again and again, with fewer and fewer faults, as long as one
// stays wrong. (A. Zeller and R. Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002.)
func Shrink(t *testing.T, r Run, wrong *History) *History {
	for part := len(wrong.Faults); part > 0; part = min(part/2, len(wrong.Faults)) {
		for from := 0; from < len(wrong.Faults); {
			rest := slices.Delete(slices.Clone(wrong.Faults), from, min(from+part, len(wrong.Faults)))
			r.Only = []int{} // not nil: none
			for _, x := range rest {
				r.Only = append(r.Only, x.Nr)
			}
			if h := Make(t, r); h.Wrong != nil {
				wrong = h
			} else {
				from += part
			}
		}
	}
	return wrong
}

// mostLines is how much is shown of what is wrong.
const mostLines = 6

// String says what is wrong with a history, and how to make it again.
func (h *History) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d operations, %d of them with an unknown outcome, %d grants, %d faults\n", h.Seed, h.Operations, h.Unknown, h.Grants, len(h.Faults))
	if h.Wrong == nil {
		return b.String()
	}
	lines := strings.Split(h.Wrong.Error(), "\n")
	for _, l := range lines[:min(len(lines), mostLines)] {
		fmt.Fprintln(&b, "  WRONG", l)
	}
	for _, x := range h.Faults {
		fmt.Fprintln(&b, "  fault", x)
	}
	fmt.Fprintf(&b, "  again, in proof: ../scripts/reproducible go test ./sim -run TestFleet/%s -operations 1 -seed %d", h.Store, h.Seed)
	if h.Only != nil {
		fmt.Fprintf(&b, " -faults 0,%s", strings.ReplaceAll(strings.Trim(fmt.Sprint(h.Only), "[]"), " ", ","))
	}
	return b.String()
}
