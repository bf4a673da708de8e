// Package inbox is how a waiter learns that it is its turn. A process has one
// subscription, to a channel of its own, and one goroutine that reads it; a message to an
// owner wakes the waiter of that owner. The package finds out whether messages arrive at
// all, by a message of the process to itself, and says how often a waiter must look for
// itself if nobody can tell it.
//
// It does not know what a waiter asks or gets. Messages may be lost, so a wake-up without
// a grant in it, and no wake-up at all, must both be expected.
package inbox
