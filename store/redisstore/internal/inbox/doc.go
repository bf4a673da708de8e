// Package inbox tells a waiter that it is its turn. A process subscribes to one channel of its
// own, and one goroutine reads that subscription. A message to an owner wakes the waiter of
// that owner.
//
// The package also tests whether messages arrive at all: the process sends a message to itself.
// It says how often a waiter must ask by itself if no message can reach it.
//
// The package does not know what a waiter asks for or gets. Messages may be lost: a waiter may
// be woken without a grant, or never be woken.
package inbox
