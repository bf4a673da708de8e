// Package redisstore keeps leases in Redis or Valkey, 6.2 or later, where every
// process of a fleet sees them.
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	store, err := redisstore.New(client)
//	...
//	eng, err := core.New(store)
//
// # What is in Redis
//
// The lock on "a" is the string "lock:a", which holds "owner:token:..." and
// expires with the lease. A client of any make that does SET lock:a <uuid> NX PX
// <ms>, and compares before it deletes, takes its turn with keyturn's: each finds
// the key taken while the other has it. Only foreign clients are not in line.
// While shared leases or permits are in force the string is a marker, which no
// owner can be equal to, and lasts as long as the last of them.
//
// Beside it, in the same slot of a cluster and each with an expiry of its own:
//
//	{lock:a}:h     sorted set of the holders of shared leases or permits
//	{lock:a}:i     hash of the same: token, since when, rule and trace
//	{lock:a}:q     list of the waiting owners, in order of arrival
//	{lock:a}:s     list of the owners that wait for a shared lease
//	{lock:a}:w     hash of both: until when, for what, and how to be reached
//	{lock:a}:f     hash of the owners that were robbed, and why
//	{lock:a}:r     what Once remembers: the owner, fingerprint and result
//	{lock:a}:t     the last token (Cluster and Ring)
//	{lock:}:token  the last token of all locks (one server); it never expires
//
// Every step is one script, so it happens as a whole or not at all.
//
// # Taking turns
//
// At most one goroutine per process and key waits here, or a few where they share
// it; the engine lines up the others. A release does not free the key but passes it to the first in line
// that can be told, in the same step: the key is set to the waiter's name for a
// claim time (half the waiter lease, so 3 s, or its TTL if that is shorter) and
// a message goes to the inbox of its process. One release, one message, one
// process that wakes up. The message is the grant, if it was sent to what the
// waiter asked last; the first renewal makes the claim time the full TTL, as does
// asking once more, which a waiter does whenever it is not sure. A waiter that died
// unseen costs the others half the waiter lease at most.
//
// Messages get lost, and holders die without one. So a waiter
// also looks when the holder's time runs out, when its subscription is made
// anew, and every third of the waiter lease, which is what keeps its place.
//
// Foreign clients send no messages, and a process may be unable to send or to get
// them: its user has no channels, or its connection is dead. While a foreign client
// has the lock, the head of the queue looks every 1 to 4 ms; where a process without
// messages is concerned, every 20 ms. Both slow down when the lock stays where it is.
// A process sends itself a message per second while anybody waits, and makes its
// subscription anew when that does not arrive. docs/operations.md, Messages, says
// what this costs.
//
// Shared requests wait in a queue of their own, because they are let in
// together: when an exclusive lease ends, or the last permit. The end of the last
// shared lease is the turn of the others' first. Who comes while somebody waits
// gets behind.
//
// # Sets
//
// On one server a set is one script: it takes the claims in key order, and where
// one has to be waited for it keeps those before that and gets in line there. The
// step that takes the last gives all of them one token. A set that waits asks
// again at least every third of its TTL, which extends what it has.
//
// On a Cluster or Ring, or with more than 256 claims, the store does the same
// claim by claim, or 256 by 256, and the last step is a round of its own, in
// which every claim gets the highest of the tokens, and a full TTL once more. So
// there the claims become visible one after the other, and a set that is refused
// has held some for a moment.
//
// # Tokens
//
// token = max(last + 1, the server's clock in microseconds), taken in the step
// that grants. The count covers a clock that is set back; the clock covers data
// that was lost, by FLUSHALL, a restart without persistence or a failover to a
// replica that lags. Only both at once could make a token go back.
//
// # What can go wrong
//
// A reply that is lost: the client asks again, and as the owner is the same, it
// gets the same lease; a repeated release knows that it was repeated.
//
// A server that does not answer: every call returns when its context ends, with
// an error that matches driver.ErrUnavailable. One that stood in line first asks
// once more, for half a second at most: a holder in the way or a server that has
// fallen silent, that is the difference between contention and an outage. What
// it had asked for is undone as soon as the server can be reached, or runs out
// with its TTL.
//
// A server that forgets, because it was restarted without its data or because a
// replica without the last writes took over: the key may be granted to another
// while its holder still works. The holder is told about a second after its client
// reaches the new server, or the old one that has started anew: the store asks for
// the run ID once a second while there are leases, and all are renewed when that
// changes. On a Cluster, or where INFO is not permitted, it is told at its next
// renewal, at most a third of the TTL later. What must be safe compares tokens.
// [WithReplicas] has grants and renewals wait for replicas; a master that is cut off
// from those keeps no lease in force beyond its TTL.
//
// Memory that runs out: acquiring fails with ErrOutOfMemory, renewing and
// releasing go on. A server that evicts keys to make room may evict locks; a
// store warns when it sees that setting.
//
// docs/operations.md has the settings and permissions that this needs.
package redisstore
