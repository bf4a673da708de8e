package history

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/anishathalye/porcupine"
)

// Increment is an increment of a register in the history. Its process read Old and then wrote
// Old+1, while it held a lock.
type Increment struct {
	Process, Nr  int
	Key          string
	Token        uint64 // 0: the register compared no tokens
	Old          uint64
	Call, Return int64 // Return is Never if nobody knows whether it was written
	known        bool
}

// Increments returns the increments that were written, or may have been, by register. Without an
// answer to its write, an increment may take effect at any later time.
func Increments(events []Event) map[string][]Increment {
	type id struct{ process, nr int }
	begun := map[id]*Increment{}
	for _, e := range events {
		at := id{e.Process, e.Nr}
		inc := begun[at]
		switch {
		case e.What == Adding:
			begun[at] = &Increment{Process: e.Process, Nr: e.Nr, Key: e.Key, Token: e.Token, Call: e.At, Return: Never}
		case inc == nil:
		case e.What == Writing:
			inc.Old, inc.known = e.Value, true
		case e.What == Added:
			inc.Return = e.At
		case e.What == Stale || e.What == Denied:
			delete(begun, at)
		}
	}
	all := map[string][]Increment{}
	for inc := range maps.Values(begun) {
		if inc.known { // otherwise it never wrote
			all[inc.Key] = append(all[inc.Key], *inc)
		}
	}
	return all
}

// registerModel is a counter. An increment whose write has no answer may have no effect.
var registerModel = porcupine.Model{
	Init: func() any { return uint64(0) },
	Step: func(state, input, output any) (bool, any) {
		value, old := state.(uint64), input.(uint64)
		switch output.(What) {
		case Added:
			return value == old, value + 1
		case Unsure:
			if value == old {
				return true, value + 1
			}
			return value > old, value
		default: // a last look
			return value == old, value
		}
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprint(input, output) },
}

// Registers checks that no increment of a register was lost. final has the registers' values at
// the end.
func Registers(increments map[string][]Increment, final map[string]uint64) error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(increments)) {
		var ops []porcupine.Operation
		for _, inc := range increments[key] {
			outcome := Added
			if inc.Return == Never {
				outcome = Unsure
			}
			ops = append(ops, porcupine.Operation{Input: inc.Old, Output: outcome, Call: inc.Call, Return: inc.Return})
		}
		if last, ok := final[key]; ok {
			ops = append(ops, porcupine.Operation{Input: last, Output: What(""), Call: Never - 1, Return: Never})
		}
		if result := porcupine.CheckOperationsTimeout(registerModel, ops, linearTimeout); result != porcupine.Ok {
			v := lostIncrement(increments[key])
			v.Key = key
			v.Text += fmt.Sprintf("; no order of the %d increments explains them all (%s)", len(increments[key]), result)
			errs = append(errs, v)
		}
	}
	return errors.Join(errs...)
}

// lostIncrement finds two increments of one value, which shows where one was lost.
func lostIncrement(increments []Increment) *Violation {
	by := map[uint64]Increment{}
	for _, inc := range increments {
		other, ok := by[inc.Old]
		switch {
		case inc.Return == Never:
		case ok:
			return &Violation{
				From: min(inc.Call, other.Call), To: max(inc.Return, other.Return),
				Text: fmt.Sprintf("processes %d and %d both made %d of %d", other.Process, inc.Process, inc.Old+1, inc.Old),
			}
		default:
			by[inc.Old] = inc
		}
	}
	return &Violation{Text: "an increment is lost"}
}

// Lost counts the increments that are answered and lost: those of a value that another one had
// already, as nobody knows which of both is in the register.
func Lost(increments []Increment) int {
	seen, lost := map[uint64]bool{}, 0
	for _, inc := range increments {
		if inc.Return == Never {
			continue
		}
		if seen[inc.Old] {
			lost++
		}
		seen[inc.Old] = true
	}
	return lost
}
