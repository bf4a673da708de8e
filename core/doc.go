// Package core is keyturn's lock engine: one at a time per key, once per message, across
// every process that shares a store.
//
//	eng, err := core.New(memstore.New())
//	...
//	err = eng.Do(ctx, "user:status:42", func(ctx context.Context) error {
//		// nobody else has user:status:42 now
//	})
//
// A store (package driver) grants leases where all processes see them. An [Engine] does the
// rest for one process. It queues the goroutines that want the same key, renews all leases
// from one goroutine, the watchdog, and ends the context of a lease that is lost.
//
// A [Lease] ends by release, by loss, or after its maximum hold. Its holder may rely on it
// until its context ends, which is before the store admits the next holder. But no lease
// stops a process that is paused between its last check and its write. Against that the
// protected resource can compare the fencing token ([Lease.Token]). The key is held until the
// holder returns: a context that ends does not release it, because the goroutine under it may
// still be writing.
//
// A caller under a lease may acquire its keys again: see [Engine.Acquire].
//
// Contention (ErrHeld, ErrWaitTimeout), overload (ErrTooManyWaiters), loss (ErrLeaseLost),
// outage (ErrUnavailable) and the caller's own deadline or cancel (context.DeadlineExceeded,
// context.Canceled) never look alike to errors.Is. Nothing runs unlocked because of a timeout.
//
// # Modes, sets and nested leases
//
// Readers share a key, at most N permits are in force, and a key that is held in one mode is
// held for the other two. Phases of readers and others alternate, so neither starves the
// other. Every lease has a term of its own, so a dead reader costs a writer at most its TTL. N
// is the request's own: during a deploy that changes it, the greater N counts.
//
// A set is granted as a whole or not at all, with one token. While it waits, it holds the
// claims before the one that it waits for, in key order. So no two sets deadlock.
//
// Re-entrance follows the context, since Go has no thread identity. A caller that acquires
// under a lease that covers the claim gets a nested lease at once, with the token, owner and
// deadline of the outer one, and the store is not asked. An exclusive lease covers all modes, a
// shared lease covers shared, and a permit covers a permit. Any other claim would wait for
// itself, and gets ErrWouldDeadlock at once. [Lease.Attach] puts a lease into a context that
// does not descend from it.
//
// # Release
//
// A release first ends the lease's context and then tells the store, with a time limit and
// detached from the caller's cancellation. An unanswered release is ErrOutcomeUnknown and may
// be repeated; "not yours" then means that the first attempt arrived. The engine keeps it as a
// debt, and sends it until the store answers or the lease has run out. Without debts, a restart
// of the store that lasts a second would leave keys locked for the rest of their TTL.
//
// [Engine.Close] refuses new callers, ends all waits with ErrClosed, and waits for the holders
// as long as its context allows. It then revokes all remaining leases before it tells the store
// of any of them: if the store does not answer, later holders must not go on working while an
// earlier lease's release waits. It closes the store, which the engine owns from [New] on.
//
// # Once
//
// [Engine.Once] claims the key, runs the function and records its result. Looking the record up
// and taking the lease are one step at the store, and so are storing the record and releasing.
// The record is sent again for as long as the lease is good and a release may take, because a
// lost record means a second run. An error or a panic of the function abandons the claim.
//
// The effect is on record whatever happens to its result; otherwise each repeat would have the
// effect again. Three kinds of result leave a record without it: one over the limit (64 KiB by
// default), one that the function says not to keep (ErrSkipResult), and one that finds no room
// at the store. A repeat then gets ErrResultNotKept, which is no failure of the work.
//
// # Operators
//
// [Engine.Inspect] and [Engine.List] show who holds, who waits and what is on record.
// [Engine.ForceRelease] takes a key from the holders that the operator was shown: the store
// compares their owners and tokens in the same step, so a new holder keeps the key. The victim
// learns of it at its next renewal or release. Until then, for at most a third of its TTL, two
// owners may work on the key; the second has the greater token.
//
// # Around it
//
// core/observe has hooks for metrics and traces, core/coverage reports on rules,
// core/driver is for authors of stores, core/experimental has what may still change.
package core
