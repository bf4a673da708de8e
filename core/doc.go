// Package core is keyturn's lock engine: one at a time per key, once per
// message, across every process that shares a store.
//
//	eng, err := core.New(memstore.New())
//	...
//	err = eng.Do(ctx, "user:status:42", func(ctx context.Context) error {
//		// nobody else has user:status:42 now
//	})
//
// # Who does what
//
// A [driver.Store] grants leases where all processes see them. An [Engine] does the
// rest for one process: it lines up the goroutines that want the same key, so
// that a store sees one waiter per key and process, or a few where they share it
// ([WithShared], [WithPermits]); renews what is held, for all
// leases from one goroutine, the watchdog; and ends the context of a lease that
// is lost. The middlewares wrap an engine around gRPC methods, Echo routes and
// asynq tasks.
//
// # What a lease is worth
//
// A [Lease] ends by release, by loss or by max hold. Its holder may believe in
// it until its context ends. That happens before the backend lets the next one
// in: the local deadline counts from before the request was sent, less a margin
// of 1 % of the TTL and 2 ms. But no lease alone gives mutual exclusion: a
// process that was paused at the wrong instruction wakes up after its lease and
// has one write under way already. Against that there is the fencing token
// ([Lease.Token]), greater for every later lease of the key, which the
// protected resource can compare. (M. Kleppmann, "How to do distributed
// locking", 2016; C. Gray and D. Cheriton, "Leases", 1989.)
//
// The key is held until the holder returns. A context that ends does not
// release it, because the goroutine that works under it may still be writing.
//
// # Re-entrance
//
// What is called under a lease may take its keys again: the context tells. See
// [Engine.Acquire] for the rules, [Lease.Attach] for another goroutine's context,
// and package carry for another process's.
//
// A holder can change its lease: [Lease.Extend] gives it another TTL, and
// [Lease.Downgrade] lets others share the key without giving it up.
//
// # For operators
//
// [Engine.Inspect] and [Engine.List] show who holds and who waits, in whatever
// process; [Engine.ForceRelease] and [Engine.Forget] take away, with a reason that
// the holder is told and that is logged.
//
// # Errors
//
// Contention (ErrHeld, ErrWaitTimeout), overload (ErrTooManyWaiters), loss
// (ErrLeaseLost), outage (ErrUnavailable) and the caller's own deadline or
// cancel (context.DeadlineExceeded, context.Canceled) never look alike to
// errors.Is. Nothing runs unlocked because of a timeout.
package core
