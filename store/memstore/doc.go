// Package memstore keeps leases in this process's memory. It is what tests and
// examples run on, and a real choice for a service of one process that wants
// one at a time per key, with the lines, deadlines and records of keyturn.
// Nothing leaves the process and nothing survives it.
//
// It runs no goroutine of its own; a line of waiters has a timer for the case
// that the holder died. It gives memory back: a key without lease and waiters is
// forgotten, and what has expired is swept as new keys come.
package memstore
