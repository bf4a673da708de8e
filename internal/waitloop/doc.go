// Package waitloop is the wait of a request for a key at a store: ask, sleep until a
// message or a time calls for another look, ask again, and tidy up if the wait ends
// without a lease. It is the same for every store whose waiters are told of their turn by
// messages that may be lost, or that look by themselves. A store implements [Request], which is
// what only its backend can do, and calls [Run].
//
// The package keeps the sentences of [driver.Store] about the end of a wait. A wait that its context ends
// is a *driver.HeldError only if the backend still answers (A8), the place in the queue and
// whatever came of the request are given back (A7, A9), and a store that closes says so (C1).
package waitloop
