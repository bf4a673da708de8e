// Package memstore keeps leases in this process's memory. It is what tests and
// examples run on, and a real choice for a service of one process that wants
// one at a time per key, with the lines, deadlines and records of keyturn.
// Nothing leaves the process and nothing survives it.
//
// It does all that there is: exclusive, shared and permit claims, sets of them,
// records of executions, inspection and forced release.
//
// It runs no goroutine of its own; a key that is waited for has a timer for the
// case that its holders died, and a set that waits extends on its caller's
// goroutine what it has so far. It gives memory back: a key without lease and
// waiters is forgotten, and what has expired is swept as new keys come. What a
// forced release leaves behind, so that its victims can be told the reason, is
// bounded, too: at most 65 536 notes, for an hour.
package memstore
