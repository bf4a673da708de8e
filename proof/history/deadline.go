package history

import (
	"fmt"
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
