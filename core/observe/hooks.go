package observe

import (
	"context"
	"errors"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Hooks are functions that an engine calls to say what it does. Set those that you need:
// nil ones cost nothing. The zero value observes nothing. Give them to an engine with
// core.WithHooks.
//
// The engine calls a hook synchronously, on the goroutine that each field names, and from
// many goroutines at a time. A hook should return at once, because the work waits for it. It
// may look at a lease. It must not call the engine, release a lease, or end its goroutine
// (runtime.Goexit, which testing's FailNow calls).
//
// A hook that panics changes nothing. The engine recovers the panic, logs it with its stack at
// level error (core.WithLogger; at most ten lines in ten seconds), and goes on as if the hook
// had returned. If a hook that returns a context panics or returns nil, the engine goes on with
// the context that the hook was given.
type Hooks struct {
	// AcquireStart is called on the caller's goroutine when somebody asks for a lease, before
	// any wait. The context is the caller's. The returned context should descend from it. It
	// bounds the wait, and Trace, Blocked and AcquireEnd get it.
	AcquireStart func(context.Context, Acquisition) context.Context

	// Trace is called on the caller's goroutine before the store is asked, with the context
	// from AcquireStart. It returns the trace that the request belongs to, for those that it
	// keeps waiting, also in other processes: short, printable text such as a traceparent of
	// W3C Trace Context; "" for none. A text over driver.MaxNoteBytes, or with control
	// characters, counts as none. The store keeps it with the lease. It comes back in
	// driver.HeldError and driver.Record. Of several hooks, the first answer that is not empty
	// counts.
	Trace func(context.Context) string

	// Blocked is called on the caller's goroutine, between AcquireStart and AcquireEnd, when
	// the request has to wait or is refused because somebody else holds the key. held says
	// who, as far as that is known. position counts those ahead, in this process and at the
	// store. Blocked is called again when another holder turns out to be in the way. It is not
	// called if the key was free. The context descends from AcquireStart's.
	Blocked func(_ context.Context, _ Acquisition, held driver.HeldError, position int)

	// AcquireEnd is called on the caller's goroutine after every AcquireStart. lease is nil if
	// err is not. Both are nil if Once found a record. err matches [ErrPanicked] if the store
	// panicked, and [ErrNotRehearsed] for some shadows. The context is AcquireStart's; it may have
	// ended.
	AcquireEnd func(_ context.Context, _ Acquisition, lease Lease, err error)

	// HoldStart is called on the caller's goroutine, before AcquireEnd, when a lease was
	// granted. The context descends from the caller's and ends with the lease. The returned
	// context should descend from it. It becomes the lease's context (core.Lease.Context), so
	// that the handler's spans are below one that the hook started.
	//
	// A nested lease has no HoldStart and none of the following calls. A lease that was
	// borrowed from another process has them, because it is renewed and lost here, too; its
	// Depth is 2.
	HoldStart func(context.Context, Lease) context.Context

	// Renewed is called on a goroutine of the engine when the store answered a renewal. late
	// is how long after its due time the renewal was sent. A nil err is success. Otherwise the
	// engine tries again, or the lease is lost.
	Renewed func(_ Lease, late time.Duration, err error)

	// Extended is called on the holder's goroutine at the end of Lease.Extend and
	// Lease.Downgrade, with the error that the holder gets.
	Extended func(Lease, error)

	// HoldEnd is called once after every HoldStart. The error is nil after a release. It
	// matches core.ErrLeaseLost after a loss; the call comes when the loss is noticed, which
	// may be before the holder knows. It matches core.ErrOutcomeUnknown if the store did not
	// answer the release in time. If the grant came too late to be used, the error matches
	// core.ErrUnavailable, or core.ErrClosed after Engine.Close. HoldEnd is called on the
	// goroutine that releases the lease or notices the loss, or on one of the engine. The context
	// is HoldStart's; it has usually ended.
	HoldEnd func(context.Context, Lease, error)

	// Owed is called when the store did not answer a release, so that the key may stay locked:
	// with DebtOwed, or with DebtDropped if the engine does not send the release again. It is
	// called once more for each DebtOwed, with what became of it. If there was a hold, HoldEnd
	// is told of the unanswered release, too. Owed is called on the goroutine that releases,
	// with the context of the release, or on a goroutine of the engine, with a context that
	// does not end.
	Owed func(context.Context, Debt)

	// Lingered is called when a lease begins to linger after its release (core.WithLinger), with
	// LingerBegun, and once more when it ends or is taken. It is called on the goroutine that
	// releases or takes the lease, or on one of the engine or the store. In between, its renewals
	// are not told to Renewed.
	Lingered func(Linger)

	// OnceStart is called on the caller's goroutine at the beginning of Engine.Once, with the
	// caller's context. The returned context should descend from it: Once goes on with it, so
	// AcquireStart and OnceEnd get it.
	OnceStart func(context.Context, Execution) context.Context

	// OnceEnd is called on the caller's goroutine after every OnceStart, with the context from
	// there. The error is the caller's; it matches [ErrPanicked] if the function panicked.
	OnceEnd func(context.Context, Execution, Outcome, error)

	// Unlocked is called on the caller's goroutine before work runs without a lock because the
	// store is out, as core.WithRunUnlocked allows. The context is the caller's. err says what
	// the store did.
	Unlocked func(_ context.Context, _ Acquisition, err error)

	// Forced is called on the caller's goroutine, with the caller's context, when somebody
	// took a key from its holders, or dropped its record.
	Forced func(context.Context, Removal)

	// Declared is called on the caller's goroutine when a rule is declared (author.Declare),
	// before the calls under it. It may be called more than once for a rule.
	Declared func(Declaration)

	// Skipped is called on the caller's goroutine, with the caller's context, when a rule
	// dropped work as if it were done.
	Skipped func(context.Context, Skip)

	// StoreCalled is called when the store answered a request, on the goroutine that asked;
	// for "renew" that is one of the engine's (see Renewed). store is the store's name, "" if
	// it has none. op is "acquire", "renew", "release", "complete", "advance_version", "downgrade",
	// "inspect", "list", "force" or "forget". took includes the time that an acquisition
	// waited at the store for a holder. err is the store's own: it may name the key also where
	// core.WithKeyFilter hides it.
	StoreCalled func(store, op string, took time.Duration, err error)

	// StoreImpaired is called on a goroutine of the store when the store works less well than
	// it should, with the reason, and with nil when it works well again.
	StoreImpaired func(store string, err error)
}

// ErrPanicked is the error of the hooks AcquireEnd, Extended and OnceEnd if the store or the
// function did not return, because it panicked or called runtime.Goexit. No caller gets it:
// the panic goes on to the caller.
var ErrPanicked = errors.New("keyturn: panicked")

// ErrNotRehearsed is the error of the hook AcquireEnd for a call of a shadow (core.WithShadow) that
// was not rehearsed, because too many rehearsals were under way. The call itself ran.
var ErrNotRehearsed = errors.New("keyturn: not rehearsed")
