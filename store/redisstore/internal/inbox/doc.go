// Package inbox tells a waiter that it is its turn. A process subscribes to one channel of its
// own, and one goroutine reads that subscription. A message to an owner wakes the waiter of
// that owner.
//
// The package also tests whether messages arrive at all: the process sends a message to itself.
// It says how often a waiter must ask by itself if no message can reach it.
//
// The package does not know what a waiter asks for or gets. Messages may be lost: a waiter may
// be woken without a grant, or never be woken.
//
// # Without messages
//
// A process finds out whether its subscription works by a message to itself, sent along the
// way that locks take. Nothing else tells a broken subscription from an idle one: the
// connection may be half open, or may have stayed at a dead master.
//
//   - Without a subscription, a process's waiters have no address in the queue and poll often.
//     A lock that is passed to such a waiter is idle until its next poll, about as long as a
//     hundred hand-overs take. So the others pass it over until it has waited for as long as
//     the lock would be kept for it. Each waiter without an inbox thus leaves the others at
//     least the time that it may cost them. The rule needs no state: the waiter's entry has
//     its time of arrival and its claim time.
//   - The holder may be unable to tell anybody of its release, because a user without channels
//     can neither listen nor publish. It then marks the lock's value (a "!" before the rule),
//     and the next waiter polls, as behind a foreign client. When the lock goes to a process
//     without an inbox, the next in the queue is told to look, so that it knows.
//   - All polls of a process share one budget.
package inbox
