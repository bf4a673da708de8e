// Package handoff decides how a lease goes from one caller of this process to the next without
// asking the store: which token the next caller gets, how long a [Streak] of hand-offs may
// last, and when the store has to confirm the lease first. The package knows the grants of
// package driver. It does not know the callers in line, the engine or the store. The owner of a
// streak guards it with a mutex, and carries out what the streak decides.
//
// The method is lock cohorting (D. Dice, V. Marathe and N. Shavit, Lock Cohorting: A General
// Technique for Designing NUMA Locks, 2012).
//
// A plain exclusive lease whose release finds others of its process in line goes to the first
// of them, without a request to the store. The store sees one grant: one owner, one range of
// tokens, one term.
//
// # Tokens
//
// Each hand-off takes the next of the tokens that the grant has reserved. So tokens rise
// through a streak, and the next grant's token is greater than all of them. If the store has
// reserved none, nothing is handed on.
//
// # When a streak ends
//
// The term of the lease goes on from where it was. A lease is not handed on when more than
// half of its term is over (of a first term, see package watchdog, more than three quarters).
//
//   - time: 100 ms, or a third of the term if that is shorter
//   - hand-offs: as many as the grant has tokens for: 1000, or 15 if its caller found nobody
//     in line; fewer on a busy server. Work that takes no time reaches 1000 after some 2 ms
//   - another process waits, as the store said with the grant: the callers that stood in line
//     then, at most 64
//
// A caller that waits longer than the streak, behind a long hold, joins the store's queue.
//
// # Is the lease still there
//
// If the store's last answer about the lease is older than 10 ms, the holder renews the lease
// before it hands it on. In the meantime the store may have lost the lock (DEL, FLUSHALL, a
// failover) and granted the key to another process. The next caller would then begin after that process, with a smaller
// token. With work of a millisecond or less this costs one renewal in many hand-offs. Longer
// work pays one round trip, which its release would have taken anyway. If the store does not
// confirm the lease, the holder releases it there.
//
// # Leases that are not handed on
//
//   - a lease that another process may work under (carried);
//   - a lease whose TTL or mode was changed, or was asked to be changed;
//   - a lost lease;
//   - a lease of a set or of Once;
//   - a lease whose TTL is half or less, or twice or more, what the next caller wants.
//
// # What it costs
//
// The store shows the rule, trace and time of the first holder of a streak. A loss in the last
// 10 ms is told to a later holder of the streak. Without hand-offs the release would have told
// it.
package handoff
