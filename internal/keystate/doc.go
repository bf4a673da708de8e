// Package keystate decides what a request does to a key: who gets it, who waits, and what a renewal, a
// release, a downgrade, a completion or a forced release changes. It is the one implementation of these
// rules of [driver.Store] in Go. It does no I/O, has no clock and starts no goroutine.
//
// Begin with the example of [State.Acquire]. A [Key] is a lock as it is at one moment: its holders, its
// queue, its last token, its record. A [State] is the keys of one request at that moment. Each method of
// State is one decision, which changes the keys in memory:
//
//	Acquire     grants the claims, joins the queue, or says who is in the way; Seal, for a set in parts
//	Withdraw    ends what an owner holds or waits for
//	Renew, Downgrade, Release, Finish (which keeps a record)
//	Force       ends leases of others
//	Show        is for those who look
//
// Before and after each decision, what is over is taken out, and the waiters whose turn it is become
// holders ([Phase] says whose turn it is). So nobody overtakes a waiter, and a store that finds
// a dead holder needs no other code for it.
//
// A store then does three things:
//
//   - It reads the keys of a request, and adds their members with [Key.Add].
//   - After the decision it writes what has changed, on the condition that nobody else has written
//     meanwhile. Otherwise it reads again and decides anew. It finds out what has changed by comparing.
//   - It wakes [State.Woken], and tells the process of [State.Wanted] that its lease is in the way.
//
// What a backend adds to the decisions is in [Rules], such as how long a lease lasts that is given to a
// waiter who may be dead.
//
// A key in memory may have thousands of members, so there is an index by owner, and a queue may be left at
// any place. A free key is taken and released without an allocation.
//
// The tests compare programs of random requests with the model of package drivertest, which states the
// same contract in another way. Neither is built on the other.
package keystate
