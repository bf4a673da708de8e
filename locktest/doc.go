// Package locktest is for the tests of programs that use keyturn: an engine
// that needs no server, a store that fails on command, and assertions about
// what was locked.
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
// There is no clock to pass around. Leases, timeouts and retention go by package
// time, so inside a bubble of [testing/synctest] they are on its fake clock: a
// test of a lease that runs out after ten minutes takes no time.
//
//	synctest.Test(t, func(t *testing.T) {
//		kit := locktest.New(t) // in the bubble, so that it is closed there too
//		...
//		time.Sleep(10 * time.Minute)
//	})
//
// # Faults
//
// [Store] refuses, hangs, is slow, loses answers or a lease. [Kit.Peer] makes a
// second process on the same locks, with faults of its own: one that is cut off
// while the other goes on.
//
// Run without locks on purpose, on a developer's machine: package
// store/unlocked.
package locktest
