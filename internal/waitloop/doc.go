// Package waitloop makes a request wait for a key at a store. Its loop asks and sleeps until a
// message or a time calls for another question. If the wait ends without a lease, it gives back
// what the request has.
//
// The loop is the same for every store whose waiters learn by messages that it is their turn,
// where messages may be lost, or whose waiters poll. A store implements [Request], the part
// that only its backend can do, and calls [Run].
//
// [Bell], [Await] and [Insist] are for the request's own part: its messages, the questions of a client
// whose calls outlast their contexts, and what it takes back when its caller has gone.
//
// The package fulfils these sentences of [driver.Store], about the end of a wait:
//
//   - If the wait's context ends, the error is a *driver.HeldError only if the backend still
//     answers (A8).
//   - The place in the queue, and all that the request may have, are given back (A7, A9).
//   - If the store closes, the error says so (C1).
package waitloop
