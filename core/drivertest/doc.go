// Package drivertest tests whether a [driver.Store] keeps the contract. It has one test per
// numbered sentence, under the sentence's number, and benchmarks that make stores comparable.
//
// A store's own test gives it a [Harness], which opens stores on one backend and breaks that
// backend as far as it can be broken:
//
//	func TestContract(t *testing.T) {
//		server := startServer(t)
//		drivertest.Run(t, drivertest.Harness{
//			New:    func(t testing.TB) driver.Store { return open(t, server) },
//			Pause:  func(testing.TB) { server.Stop() },
//			Resume: func(testing.TB) { server.Continue() },
//		})
//	}
//
// If a harness cannot make its backend fail in some way, the tests that need it are skipped by
// name, with the reason. So the output shows what has not been proved.
//
// Tests order events by the store's answers, never by sleeping: a request is in the queue once
// its OnHeld has been called. If the contract speaks of time, a lower bound is exact except for
// [Harness.Early], and an upper bound has [Harness.Late] to spare.
//
// These tests are the cases that somebody has thought of. For all others, the suite runs some
// random programs on the store and on a model of it (package model), and compares. The module
// proof runs many.
package drivertest
