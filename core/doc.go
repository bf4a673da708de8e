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
// [WithShared] and [WithPermits] are other modes than the exclusive one. [Engine.AcquireAll] takes sets.
// [Engine.Once] runs a function once per key, [Engine.Lead] while its process leads. Operators have
// [Engine.Inspect] and [Engine.ForceRelease]. [Engine.Close] ends it all.
//
// core/observe has hooks for metrics and traces, core/coverage reports on rules,
// core/driver is for authors of stores, core/experimental has what may still change.
package core
