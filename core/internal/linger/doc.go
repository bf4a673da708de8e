// Package linger keeps leases that nobody uses any more, for the next caller of this process
// (core.WithLinger). A lease that lingers is renewed as any other. It ends when a caller takes
// it, when another process wants it, when its time is over, and when it is lost.
//
// The package knows the watchdog and the grants of package handoff. It does not know the engine
// or the store: the caller that takes a lease out uses it or gives it back.
//
// Distributed lock managers cache their locks in this way, and give them back when they are asked
// to (C. Gray and D. Cheriton, Leases, 1989).
//
// Where requests are routed by key, one process asks for the same key again and again, and
// pays two round trips each time for a lock that nobody else wants. With WithLinger(d) a plain
// exclusive lease that is released while nobody waits stays with the engine. The next caller
// of the process takes it, as in a hand-off: with the next reserved token, and without a
// request to the store.
//
// core/linger.go decides what becomes of such leases:
//
//   - a caller of this process wants it: it takes the lease, if its TTL suits (as in a
//     hand-off) and a token is left
//   - a caller of this process wants the key otherwise: shared, in a set, with Once: the lease
//     goes back first, and then that caller asks
//   - another process asks for the key: the store tells this process (W2 of
//     driver.Description), and the lease goes back: at once, or after the present section
//   - nobody wants it for d: it goes back
//   - ten times d have passed since the grant: it goes back after the present section. A
//     client that cannot send messages waits no longer than that
//   - messages may have been missed (W4), or the circuit is open: leases that linger go back,
//     and no other begins to
//   - Close: it goes back
//   - it is lost, or an operator takes it by force: it is over, as any lease. After a forced
//     release the process is told at once (W3), and not only at its next renewal
//
// # No message is needed for safety
//
// The store keeps the lock until the lease is released or runs out, whatever the engine does
// with it. A message that is lost costs time: the waiter asks again and repeats it, for
// redisstore after 2 s.
//
// # No message comes too early
//
// It may arrive before the grant that it is about. The table remembers the owners of leases
// that are wanted and do not linger, 128 for each of its 32 shards, and does not keep theirs.
// After W4 the epoch of the table is another one. A lease lingers only if the epoch is still
// that of the moment before its request was sent. So a lease that names a dead inbox never
// lingers.
//
// # A release meets a new caller
//
// The release first looks for callers in line, and then puts the lease into the table. A
// caller that came between the two may have looked into the table too early. So the release
// looks at the line again, and takes the lease out if anybody is there.
//
// # What it costs
//
// A crash leaves more keys locked, for a TTL each: also those that the process had used last.
// After a loss of data, the process may take a lease that the store has forgotten, until its
// next renewal (a third of the TTL). In a hand-off the engine asks the store first if its last
// answer is older than 10 ms. Here that would be a round trip for each use, and half of what
// lingering saves. Inspection shows the first holder's rule and trace, and
// driver.Holder.Lingers: only the process itself knows whether anybody works.
package linger
