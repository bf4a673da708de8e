// Package model says what a store should do, and compares a store with that.
//
// The model of a backend is sequential: who holds each key, who waits for it, what was
// executed, and which versions are known. It looks at everything each time. To check it, read
// it beside the sentences of [driver.Store], [driver.Ledger] and [driver.Inspector] that the
// comments name. If the contract leaves a choice, there are several models, and the store has
// to agree with one of them all the time. For example, two sets that are admitted at the same
// moment may go on in either order.
//
// A program is a list of steps, made by [Random]. [Rig.Run] takes each step on the stores and on the
// model. After each step the answers, the waiters that were admitted, everything that Inspect shows,
// and whose leases the stores call wanted must agree with the model. Any part of a program is a
// program, so one that fails can be made shorter.
//
// These are not compared: RetryAfter and Ahead of a refusal, Since of holders and waiters, and
// the notes (package drivertest tests them), and the values of tokens, except their order.
// These are not tried: stores that are closed or cut off, owners that ask for something else
// while they hold or wait for something, and a forced release of what a waiting set holds.
package model
