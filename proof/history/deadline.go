package history

import (
	"fmt"
	"slices"
	"time"
)

// readings is how much two readings of a process's clocks may differ.
const readings = int64(time.Millisecond)

// Deadlines checks that no holder counted on its lease after its own deadline, as far as it noted that.
func Deadlines(events []Event) error {
	for _, e := range events {
		if over := e.At - e.Until; e.What == Holding && over > readings {
			return &Violation{
				Key: "deadline", From: e.Until, To: e.At,
				Text: fmt.Sprintf("acquisition %d of process %d counted as held %v after its own deadline", e.Nr, e.Process, time.Duration(over)),
			}
		}
	}
	return nil
}

// Unfounded checks that no holder was told of a loss before its deadline, unless somebody may have
// taken the lease by force, or the store has lost data.
func Unfounded(sections []Section, losses ...Loss) error {
	for _, s := range sections {
		told := s.Noticed
		if s.Outcome == Gone {
			told = min(told, s.Answered)
		}
		if told >= s.Until || s.Taken < Never || slices.ContainsFunc(losses, func(l Loss) bool { return l.hits(s, told) }) {
			continue
		}
		return &Violation{
			Key: s.Claims[0].Key, From: s.Given, To: told,
			Text: fmt.Sprintf("acquisition %d of process %d was told of a loss %v before its deadline", s.Nr, s.Process, time.Duration(s.Until-told)),
		}
	}
	return nil
}
