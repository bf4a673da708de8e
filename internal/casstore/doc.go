// Package casstore is what the stores have in common whose backend can be read, and written on the
// condition that nobody else has written meanwhile (compare and swap). Package keystate decides what a
// request does to a key, package waitloop how a request waits. This package has the calls around that: a
// call is checked, registered until it is over, decided, and if it has no answer it is undone.
//
// A store of this kind fills in a [Backend], the few things that only its backend can do, and passes the
// calls of [driver.Store] on to a [Store]. It carries out Acquire by an [Acquisition], and may have quicker
// ways before that. AdvanceVersion, Forget and List get a function for what they do in the backend. [Wanted] tells the
// engine of leases that are in somebody's way, [Names] writes keys as names that the backend allows.
package casstore
