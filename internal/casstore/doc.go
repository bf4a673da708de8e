// Package casstore is what the stores have in common whose backend can be read, and written on the
// condition that nobody else has written meanwhile (compare and swap). Package keystate decides what a
// request does to a key, package waitloop how a request waits. This package has the calls around that: a
// call is checked, registered until it is over, decided, and if it has no answer it is undone.
//
// A store of this kind implements [Backend], the few things that only its backend can do, and embeds
// [Store] for the calls of [driver.Store] that are one decision. It writes Acquire and Renew itself, with
// [Acquisition] for the first, because quick ways are different for each backend.
package casstore
