// Package locktest is for the tests of programs that use keyturn. It has an engine that needs
// no server, a store that fails on command, and assertions about what was locked.
//
//	func TestTransfer(t *testing.T) {
//		kit := locktest.New(t)
//		bank := NewBank(kit.Engine)
//		...
//		kit.Locks.AssertLocked(t, "account:42")
//	}
//
// # Time
//
// There is no clock to pass around. Leases, timeouts and retention use package time, so inside
// a bubble of [testing/synctest] they run on its fake clock. A test of a lease that runs out
// after ten minutes then takes no time.
//
//	synctest.Test(t, func(t *testing.T) {
//		kit := locktest.New(t) // in the bubble, so that it is closed there too
//		...
//		time.Sleep(10 * time.Minute)
//	})
//
// # Faults
//
// [Store] refuses, hangs, is slow, or loses answers or a lease. [Kit.Peer] makes a second
// process on the same locks, with faults of its own. So one process can be cut off while the
// other goes on.
//
// To run a program without locks on a developer's machine, see package store/unlocked.
package locktest
