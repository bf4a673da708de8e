// Package model is what a store should do, and a judge that compares a store with it.
//
// The model is a sequential one of a backend: who holds each key, who waits for it, what
// was executed, and which versions are known. It looks at everything each time, and is
// meant to be checked by reading it next to the sentences of [driver.Store],
// [driver.Ledger] and [driver.Inspector] that the comments name. Where the contract leaves
// open what happens, such as in which order two sets go on that are let in at the same
// moment, there are several models, and the store has to agree with one of them all the
// time.
//
// A program is a list of steps, made by [Random]. [Rig.Run] takes each step on the stores and on
// the model. After each step the answers, the waiters that were let in, and all that Inspect
// shows must be the model's. Any part of a program is a program, so one that fails can be made
// shorter.
//
// Not compared: RetryAfter and Ahead of a refusal, Since of holders and waiters, and the
// notes, which package drivertest looks at; and the tokens except for their order. Not
// tried: stores that are closed or cut off, owners that ask for something else while
// they hold or wait for something, and a forced release of what a set has that waits for
// the rest.
package model
