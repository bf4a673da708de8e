package history

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
)

// operation is an operation on an exclusive lock with tokens. It seems to happen at one moment
// between its beginning and its end. (M. Herlihy and J. Wing, Linearizability: A Correctness
// Condition for Concurrent Objects, 1990.)
//
// A lease that nobody released ended by itself: at some moment after its holder's own deadline,
// as far as that is known, which may be before the holder, who was stopped, heard of it; or after
// somebody began to take it away. The same holds for a lease
// whose release may not have arrived. A request that got no answer leaves no trace: what it may
// have been granted ran out before anybody else had the key.
type operation struct {
	ends  bool // false: it is an acquisition
	token uint64
}

// lockState is the state of the lock between two operations.
type lockState struct {
	held bool
	last uint64 // token
}

var lockModel = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, op := state.(lockState), input.(operation)
		if op.ends {
			return s.held && s.last == op.token, lockState{last: s.last}
		}
		return !s.held && op.token > s.last, lockState{held: true, last: op.token}
	},
	DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", input) },
}

// linearTimeout is much longer than any check takes.
const linearTimeout = 20 * time.Second

// linear checks that all operations on key have a valid order.
func linear(key string, sections []Section, losses []Loss) error {
	var ops []porcupine.Operation
	for _, s := range sections {
		if !s.granted() || late(s, losses) { // a token from before a loss says nothing of the order after it
			continue
		}
		ends := porcupine.Operation{Input: operation{ends: true, token: s.Token}, Call: s.Returning, Return: s.Answered}
		if s.Outcome != Returned || s.Taken <= s.Returning { // a hand-off of a lease that was taken away does not count
			ends.Call, ends.Return = s.End, Never
		}
		if at := gone(s, losses); at < Never {
			ends.Call, ends.Return = min(ends.Call, at), Never
		}
		ops = append(ops, porcupine.Operation{Input: operation{token: s.Token}, Call: s.Asked, Return: s.Given}, ends)
	}
	switch porcupine.CheckOperationsTimeout(lockModel, ops, linearTimeout) {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return &Violation{Key: key, Text: fmt.Sprintf("no order of %d operations was found, or excluded, in %v", len(ops), linearTimeout)}
	default:
		return &Violation{Key: key, Text: fmt.Sprintf("no order of the %d operations makes it an exclusive lock with rising tokens", len(ops))}
	}
}
