// Package drivertest is what every [driver.Store] has to pass: one test per
// numbered sentence of the contract, under the sentence's number, and the
// benchmarks that make stores comparable.
//
// A store's own test gives it a [Harness], which opens stores on one backend and
// breaks that backend as far as it can be broken:
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
// What a backend can't be made to do is skipped by name, with the reason, so
// that a look at the output tells what has not been proved.
//
// Tests order events by what the store says, never by sleeping: a request is in
// line once its OnHeld has been called. Where the contract speaks of time, a
// lower bound is exact but for [Harness.Early], and an upper one has
// [Harness.Late] to spare.
//
// The suite has the cases that somebody has thought of. Those that nobody has are
// for the module proof, which runs random programs on a store and on a model.
package drivertest
