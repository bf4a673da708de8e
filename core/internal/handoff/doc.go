// Package handoff decides how a lease goes from one caller of this process to the next without
// asking the store: which token the next caller gets, how long a [Streak] of hand-offs may
// last, and when the store has to confirm the lease first. The package knows the grants of
// package driver. It does not know the callers in line, the engine or the store. The owner of a
// streak guards it with a mutex, and carries out what the streak decides.
//
// The method is lock cohorting (D. Dice, V. Marathe and N. Shavit, Lock Cohorting: A General
// Technique for Designing NUMA Locks, 2012).
package handoff
