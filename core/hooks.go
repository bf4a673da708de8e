package core

import (
	"context"
	"errors"
	"reflect"
	"time"
)

// Hooks are functions that an engine calls to say what it does, for traces, metrics
// and tests. Set those you need: nil ones cost nothing. Give them to an engine with
// [WithHooks].
//
// The engine calls a hook synchronously, on the goroutine that each field names, and
// from many goroutines at a time. A hook should return at once, because the work waits
// for it. It may look at a lease. It must not call the engine, release a lease, or end
// its goroutine (runtime.Goexit, which testing's FailNow calls).
//
// A hook that panics changes nothing: the engine recovers the panic, logs it with its
// stack at level error ([WithLogger], ten lines in ten seconds at most), and goes on as
// if the hook had returned. In place of a context it goes on with the one that the hook
// was given; so it does where a hook returns a nil context.
type Hooks struct {
	// AcquireStart is called on the caller's goroutine when somebody asks for a lease,
	// before any wait. The context is the caller's. The one returned should descend
	// from it: it bounds the wait, and Trace, Blocked and AcquireEnd get it.
	AcquireStart func(context.Context, Acquisition) context.Context

	// Trace is called on the caller's goroutine before the store is asked, with the
	// context from AcquireStart. It returns in which trace the request is, for those
	// that it keeps waiting, in other processes too: short, printable text such as a
	// traceparent of W3C Trace Context, "" for none. The store keeps it with the
	// lease, and it comes back in [HeldError] and [driver.Record]. Of several hooks the
	// first answer that is not empty counts.
	Trace func(context.Context) string

	// Blocked is called on the caller's goroutine, between AcquireStart and AcquireEnd,
	// when the request has to wait or is refused because somebody else holds the key:
	// held says who, as far as that is known. It is called again when somebody else
	// turns out to be in the way, or was and now hands the lease on, and not at all
	// when the key was free. position counts those ahead, in this process and at the
	// store. The context descends from AcquireStart's.
	Blocked func(_ context.Context, _ Acquisition, held HeldError, position int)

	// AcquireEnd is called on the caller's goroutine after every AcquireStart. lease is
	// nil if err is not, and both are nil if Once found a record. err matches
	// [ErrPanicked] if the store panicked. The context is AcquireStart's; it may have
	// ended.
	AcquireEnd func(_ context.Context, _ Acquisition, lease *Lease, err error)

	// HoldStart is called on the caller's goroutine, before AcquireEnd, when a lease
	// was granted. The context descends from the caller's and ends with the lease. The
	// one returned should descend from it: it becomes the lease's ([Lease.Context]), so
	// that the handler's spans lie under one that was started here.
	//
	// A nested lease is none of its own: it has no HoldStart and none of the following
	// calls. One that is borrowed from another process has them, because it is renewed
	// and lost here, too; its Depth is 2.
	HoldStart func(context.Context, *Lease) context.Context

	// Renewed is called on a goroutine of the engine when a renewal of lease was
	// answered. late is how long after it was due it was sent. A nil err is success;
	// otherwise the engine tries again, or the lease is lost. A hook that blocks here
	// delays the renewals of other leases, which may then be lost.
	Renewed func(_ *Lease, late time.Duration, err error)

	// Extended is called on the holder's goroutine at the end of [Lease.Extend] and
	// [Lease.Downgrade].
	Extended func(*Lease, error)

	// HoldEnd is called once after every HoldStart: with nil after a release, with an
	// error that matches ErrLeaseLost after a loss, as soon as that is noticed, which
	// may be before the holder knows, or with what kept the release from being certain.
	// It is called on the goroutine that releases the lease or notices the loss; that
	// may be the one of the engine that watches all leases, so a hook that blocks here
	// may cost other leases. The context is HoldStart's, and has mostly ended.
	HoldEnd func(context.Context, *Lease, error)

	// Owed is called when the store did not answer the release of a lease, so that its
	// key may stay locked (DebtOwed, or DebtDropped if the engine does not send the
	// release again), and once more for each DebtOwed with what became of it. HoldEnd
	// is told of the unanswered release, too, if there was a hold. It is called on the
	// goroutine that releases, with the context of the release, or on one of the
	// engine's, with a context that does not end.
	Owed func(context.Context, Debt)

	// OnceStart is called on the caller's goroutine at the beginning of [Engine.Once],
	// with the caller's context. The one returned should descend from it: Once goes on
	// with it, so AcquireStart and OnceEnd get it.
	OnceStart func(context.Context, Execution) context.Context

	// OnceEnd is called on the caller's goroutine after every OnceStart, with the
	// context from there. The error matches [ErrPanicked] if the function panicked.
	OnceEnd func(context.Context, Execution, Outcome, error)

	// Unlocked is called on the caller's goroutine before work is run without a lock
	// because the store is out, as [WithRunUnlocked] allows. The context is the
	// caller's, and err says what the store did.
	Unlocked func(_ context.Context, _ Acquisition, err error)

	// Forced is called on the caller's goroutine when somebody took a key from its
	// holders, or dropped its record, with the caller's context.
	Forced func(context.Context, Removal)

	// Declared is called on the caller's goroutine when a rule is declared
	// ([Engine.Declare]), before the calls under it. It may be called more than once
	// for a rule.
	Declared func(Declaration)

	// Skipped is called on the caller's goroutine when work was dropped as if it were
	// done, because its rule says so. The context is the caller's.
	Skipped func(context.Context, Skip)

	// StoreCalled is called when the store answered a request, on the goroutine that
	// asked, which for "renew" is one of the engine's (see Renewed). store is its name
	// ([driver.Description]), op is "acquire", "renew", "release", "complete", "raise",
	// "downgrade", "inspect", "list", "force" or "forget". took includes the time that
	// an acquisition waited at the store for a holder.
	StoreCalled func(store, op string, took time.Duration, err error)

	// StoreImpaired is called on a goroutine of the store when it works less well than
	// it should, with the reason ([driver.Description]), and with nil when it works well
	// again.
	StoreImpaired func(store string, err error)
}

// WithHooks has the engine call h. Given several times, each of them is called, in the
// order given; AcquireEnd, HoldEnd and OnceEnd in the reverse order. Each start gets the
// context that the one before it returned, so that their contexts nest, and all ends
// get the last one.
func WithHooks(h Hooks) EngineOption {
	return engineOption{"WithHooks", aboutNothing, func(c *engineConfig) error {
		if !reflect.ValueOf(h).IsZero() { // one without any hook costs nothing
			c.hooks = append(c.hooks, h)
		}
		return nil
	}}
}

// ErrPanicked is what the hooks AcquireEnd, Extended and OnceEnd get when the store or
// the function did not return: it panicked, or called runtime.Goexit. No caller gets
// it, because the panic goes on to the caller.
var ErrPanicked = errors.New("keyturn: panicked")
