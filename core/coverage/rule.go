package coverage

import (
	"strconv"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Rule says what a rule does. The zero value is one at a time per key, exclusively.
type Rule struct {
	// Once: the rule carries out each key once. Otherwise it is one at a time per key.
	Once bool
	// Key is the rule's template, or "func" where a function makes the key.
	Key string
	// Mode is how the key is shared. Permits is how many hold it at a time; 0 except with
	// driver.ModePermit.
	Mode    driver.Mode
	Permits int
	// Hierarchy: the levels above the key are claimed too (core.WithHierarchy).
	Hierarchy bool
	// Skips is why the rule may drop work as if it were done; "": it never does.
	Skips SkipReason
	// RunUnlocked: in an outage of the store the rule's work runs without its lock
	// (core.WithRunUnlocked).
	RunUnlocked bool
	// Shadow: the rule's work runs without its lock, and what the lock would have done is
	// observed (core.WithShadow).
	Shadow bool
	// Partial: some requests pass without the rule, because a function of its author says so.
	Partial bool
	// MinHold is how long the rule keeps its key at least, as its store can keep that
	// (core.WithMinHold).
	MinHold time.Duration
	// ResultLimit is how many bytes of a result Once keeps (core.WithResultLimit).
	ResultLimit int
	// Problem says why the rule can't work on its target, so that it refuses each request:
	// "{path.uid}: the route has no such parameter". "": no problem is known.
	Problem string
}

// SkipReason is why a rule drops work as if it were done.
type SkipReason string

// The reasons. More may be added.
const (
	SkipHeld       SkipReason = "held"       // somebody else was doing it
	SkipSuperseded SkipReason = "superseded" // something newer was there
)

// String returns "once msg:{id}" or "serialize user:{id}". It names an unusual mode:
// "serialize shared group:{id}", "serialize permit of 5 pool:{id}", "serialize hierarchy
// group:{id}/member:{user_id}". A problem follows in brackets.
func (r Rule) String() string {
	s := "serialize " + r.mode() + r.Key
	if r.Once {
		s = "once " + r.Key
	}
	if r.Partial {
		s += " unless skipped"
	}
	if r.Shadow {
		s = "shadow " + s
	}
	if r.Problem != "" {
		s += " (" + r.Problem + ")"
	}
	return s
}

// mode describes the mode, with a space behind it; "" if it is exclusive.
func (r Rule) mode() string {
	var s string
	switch r.Mode {
	case driver.ModeExclusive:
	case driver.ModePermit:
		s = "permit of " + strconv.Itoa(r.Permits) + " "
	default:
		s = r.Mode.String() + " "
	}
	if r.Hierarchy {
		s += "hierarchy "
	}
	return s
}
