// Package memstore keeps leases in this process's memory. Tests and examples run on it. It is
// also a real choice for a service of one process that wants one at a time per key, with the
// lines, deadlines and records of keyturn. Other processes do not see its leases, and nothing
// survives the process.
//
// It supports everything in package driver: exclusive, shared and permit claims, sets of them,
// records of executions, inspection and forced release.
//
// It runs no goroutine of its own. A key with waiters has a timer, in case its holders have
// died. A waiting set extends what it holds so far on its caller's goroutine.
//
// It gives memory back: a key without leases and waiters is forgotten, and expired entries are
// swept as new keys come. After a forced release it keeps the reason for the victims, in at
// most 65 536 notes, for an hour.
//
// Importing the package registers mem: with package storeurl, for an empty store, and mem:NAME, for
// the one of that name in this process.
package memstore
