// Package handoff decides how a lease goes from one caller of this process to the next
// without asking the store: which token the next one has, how long a [Streak] of
// hand-offs may last, and when the store has to confirm the lease first. It knows the
// grants of package driver. It does not know the callers in line, the engine or the
// store: its owner guards a streak with a mutex, and carries out what it decides.
//
// The method is lock cohorting (D. Dice, V. Marathe and N. Shavit, Lock Cohorting: A
// General Technique for Designing NUMA Locks, 2012).
package handoff
