// Package watchdog keeps leases in force: it renews each one in time, in batches, and declares
// it lost when its time is over. A [Watch] keeps one lease; the comment of type term has a
// table of its states. The package knows the store's contract (core/driver) and nothing of the
// engine: a lease is a grant with a [Holder], which learns of a loss. A [Watchdog] has one
// goroutine, a short-lived one for each batch under way, and one that tells the holders of lost
// leases, after the work under all of them has ended; [Watchdog.Close] ends them. It has
// one mutex per shard. None is held during a call to the store or a holder, except for
// [Holder.Loss].
//
// # Deadlines
//
// The local deadline counts from before the granted request was sent, on the monotonic clock,
// less a margin of 1 % of the TTL + 2 ms. The server decides expiry by its own clock, and its
// term starts later. So the holder's context ends before the server admits the next owner. A
// grant that arrives after its own deadline is given back and reported as an outage. No work
// runs unlocked because of it (WithRunUnlocked): the store is there, and somebody else may
// have the key by now. The same holds for a silence of less than 0.1 s, if the caller's own
// max wait left the store no more than that.
//
// # First terms
//
// A store may keep a lease for less than the TTL until its first renewal, and say so in the
// grant (Grant.Term). Redis does this if the grant came by message. The deadline counts that
// term from Grant.Since, with the margin of a term of that length. The bounds of hand-offs
// count it, too, but a streak's time begins with the grant, because Since may be seconds
// before it. The lease is renewed 10 ms after the grant, or after a third of what is left if
// that is sooner, and then has its whole TTL. It is soon because until then a pause of the
// process that the TTL would survive loses the lease. It is not at once because most sections
// are over by then and should cost no renewal; for the same reason such a lease does not join
// an earlier batch. A renewal that fails is tried again every tenth of the term. One that
// hangs is given up when half of what is left is over.
//
// # Renewals
//
//   - The leases are spread by a hash of their key over 16 shards, each with a mutex and a
//     heap of due times. So callers of different keys rarely meet on one mutex.
//   - One goroutine per engine looks at all shards. A renewal is due at a third of the TTL,
//     so two may fail before the lease is in danger. Leases that are due within the next eighth
//     of a TTL join the same Renew call: so batches stay few, however the leases' beginnings are
//     spread.
//   - Each Renew call has a short-lived goroutine and a timeout of a third of the TTL. So a
//     hanging store delays neither other renewals nor deadlines, and the number of goroutines
//     does not grow with the number of leases.
//   - In one call, no lease has twice another's TTL. Otherwise the shortest would leave the
//     store too little time for all.
//   - A definite "not yours" is a loss at once. After any other error the renewal is tried
//     again every tenth of the TTL until the deadline. A renewal never creates a key anew.
//   - A lease leaves the watchdog before it is released.
//   - Max hold (10 minutes by default) ends the renewals of a handler that hangs: its context
//     ends, and the key is free within the TTL.
//
// # Suspended machines
//
// On most systems the monotonic clock stands still while a machine sleeps. The watchdog
// compares it with the wall clock once a second while there are leases. If the wall clock ran
// ahead past a lease's deadline, the lease is lost. The comparison starts when the request was
// sent that the deadline counts from, so a sleep during the request counts as well. A wall
// clock that is set forward by hand costs leases, too: the standard library cannot tell the
// two apart, and this error is on the safe side. A wall clock that is set back is ignored.
//
// # Another server
//
// A store may be able to name the server that answers (Description.Identity; Redis has a run
// ID, and PostgreSQL with a listener its address and the moment of its start). The watchdog
// asks once a second while it has leases (identity.go). Another name means a failover or a
// restart, so the new server may not know all leases. All leases are then renewed at once, in
// batches as usual, and those that the server does not know are lost. The engine asks, because
// a store does not know whether there are leases. The client library does not report
// failovers.
//
// # Extending
//
// Lease.Extend renews the lease now, with another TTL if the caller wants one, which the
// watchdog keeps. One request for a lease is under way at a time: Extend waits for the
// watchdog's, and the watchdog for it. Otherwise nobody could tell which of two TTLs the store
// took last. For the same reason, after an unanswered extension the earlier of both deadlines
// counts, and the old TTL stays. A release waits for neither. Max hold ends an extended lease
// like any other.
//
// # Downgrading
//
// Lease.Downgrade makes every exclusive claim of a lease shared, with no gap and under the
// same token. For the store it is a renewal in other modes (Store.Downgrade, M5 to M8), so it
// gives a full TTL and never brings back a lease that is gone.
//
//   - From the sending on, the lease says shared, because the holder cannot count on more.
//   - While the downgrade is unanswered, nobody knows the mode at the store. A renewal in the
//     wrong mode would look like a loss (N5). So the watchdog repeats the downgrade instead of
//     renewing, until the store answers or the deadline comes.
//   - There is no upgrade: two readers that both waited for one would deadlock.
package watchdog
