package proof

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
)

// An exclusive lock with tokens, as an object whose operations seem to happen at
// one moment each. What is known of that moment is that it lies between the
// operation's beginning and its end. (M. Herlihy and J. Wing, Linearizability: A
// Correctness Condition for Concurrent Objects, 1990.)
//
// A lease that nobody gave back ended by itself: at some moment after its holder's
// own deadline, as far as that is known, or after somebody began to take it away. So
// did one of which the release is not known to have come through. A request that got no answer leaves no trace: what
// it may have been granted ran out before anybody else had it.
type operation struct {
	ends  bool // else it is an acquisition
	token uint64
}

// lockState is the lock between two operations.
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

// linearTimeout is far beyond what a check takes.
const linearTimeout = 20 * time.Second

// linear checks that there is an order of all operations on key.
func linear(key string, sections []Section) error {
	var ops []porcupine.Operation
	for _, s := range sections {
		if !s.granted() {
			continue
		}
		ends := porcupine.Operation{Input: operation{ends: true, token: s.Token}, Call: s.Returning, Return: s.Answered}
		if s.Outcome != Returned || s.Taken <= s.Returning { // one may be given back by handing on what is none
			ends.Call, ends.Return = s.End, Never
		}
		// A client does one thing after the other.
		ends.Call = max(ends.Call, s.Given)
		ops = append(ops, porcupine.Operation{Input: operation{token: s.Token}, Call: s.Asked, Return: s.Given}, ends)
	}
	switch porcupine.CheckOperationsTimeout(lockModel, ops, linearTimeout) {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return fmt.Errorf("%s: no order of %d operations was found, or excluded, in %v", key, len(ops), linearTimeout)
	default:
		return fmt.Errorf("%s: no order of the %d operations makes it an exclusive lock with rising tokens", key, len(ops))
	}
}
