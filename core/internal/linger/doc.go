// Package linger keeps leases that nobody uses any more, for the next caller of this process
// (core.WithLinger). A lease that lingers is renewed as any other. It ends when a caller takes
// it, when another process wants it, when its time is over, and when it is lost.
//
// The package knows the watchdog and the grants of package handoff. It does not know the engine
// or the store: the caller that takes a lease out uses it or gives it back.
//
// Distributed lock managers cache their locks in this way, and give them back when they are asked
// to (C. Gray and D. Cheriton, Leases, 1989).
package linger
