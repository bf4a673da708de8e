// Package waitline lines up the callers of one process that want the same key. The first in
// line asks the store. The others wait until they are admitted, until another caller
// hands them its lease or a record, or until they give up. So the store's own queue for a key
// stays short, however many goroutines want the key. The package knows the claims, records and
// errors of package driver, the hand-offs of package handoff, and how long a silence is an outage
// (package circuit). It does not know the engine, and it never asks a store: the engine tells it the
// store's answers.
//
// Each line has parts that know nothing of each other: the [queue] of places, the [admission]
// that says which callers may ask the store now, the [alarm] that makes callers give up, the
// [evidence] of what the store last said, and the [handoff.Streak]. The lines are spread over
// shards by a hash of their key. A shard's mutex guards everything in its lines, and nobody
// holds two of them at a time.
//
// Where a caller gives up, and with what error: [Lines.Enter] in enter.go waits, and alarm.go
// has the timer of the maximum wait. evidence.go says whether the caller waited for a holder or
// for a silent store. Engine.refusal in core/refusal.go makes the caller's error of that.
//
// When the head gets the lease, the next caller waits for a hand-off. If there is none to
// expect, the next caller waits at the store, behind its own process's lease. So other
// processes, which are in the same queue, get their turns.
//
// # Caps
//
// At most 1000 callers wait in a line (WithMaxWaiters). One more caller is refused as
// overload, not as contention. At most 20 000 callers wait in all lines together
// (WithMaxWaitersTotal), but this cap refuses only a caller with others in front of it. So a
// flood on some keys never shuts out a caller that finds nobody in line for its own key.
//
// # Cost
//
// A waiter takes 2.4 KiB of heap and stack, besides its goroutine and its request. To keep it
// small, what an acquisition needs only before and after the wait is in functions that are not
// on the stack during the wait. One timer per line tells its waiters that their max wait is
// over (it counts from the call), and Close tells them that the engine closes (alarm.go). A
// timer and a registration for each waiter would cost more than a hand-off.
//
// # Shards
//
// The lines are spread over 32 shards by a hash of their key, each with a mutex, so callers of
// different keys rarely meet. A set takes the mutexes of its keys' shards one after the other,
// never two at a time. Under such a mutex no other lock is taken and no hook is called. All
// keys share only an atomic count of the waiters, and a caller that need not wait does not
// touch it.
//
// # Shared claims and sets
//
// Callers that can hold a key together need not ask one after the other. When the store has
// granted the key to a reader, the readers right behind it ask together, 64 at a time, and
// each grant admits the next one. For permits, as many ask as there are permits. As soon as
// the store makes one of them wait, nobody else is admitted until the next grant. So even ten
// thousand readers leave at most 64 requests in the store's queue. An exclusive request asks
// alone, and no caller of its process overtakes it, so that a stream of readers cannot keep a
// writer out.
//
// A set has a place in the line of each of its keys, and takes the places in key order. While
// it waits for one key, it does not hold up callers that share its other keys. Otherwise two
// members of a group would deadlock in the group's line. The store may then have as many
// requests as members are wanted, up to the line's cap. They wait for different keys, so plain
// requests for those keys would be as many.
//
// # The error of a caller that gives up
//
// A caller that times out in the line has not asked the store itself. So the line keeps what
// the store last told a head, and when: that a holder is in the way, or that nothing answers.
// (A store that blocks in Acquire tells it with Request.OnHeld.) Otherwise an outage would
// look like contention to every caller except the head. A request counts as an outage for a
// caller only if it has been unanswered for 100 ms while that caller stood in line. Only a
// store that was asked can be silent. If the head has not asked yet, because it waits in
// another line of its set, the callers behind it have waited for a holder.
//
// # Shared records
//
// Callers that wait for the same execution of Once stand in the same line. When the store
// tells one of them that the execution is on record, or one of them records it, each caller
// that joined before the store was asked gets a copy at once. Callers that joined later ask
// the store, because the record may have been forgotten in between.
package waitline
