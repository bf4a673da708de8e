package core

import (
	"context"
	"errors"
	"time"
)

// ErrPanicked is what AcquireEnd and OnceEnd are told when the store or the
// function did not return: a panic, or runtime.Goexit. Only observers see it;
// the panic goes on to the caller.
var ErrPanicked = errors.New("keyturn: panicked")

// Observer is told what an engine does, for traces and metrics. Its methods
// are called from many goroutines, on the path of the work itself: they must
// be quick, must not panic, and must not call the engine or release a lease;
// they may look at one. Embed [NopObserver], so that a method
// added here later does not break yours.
//
// The contexts returned are passed on: what AcquireStart returns reaches
// AcquireEnd, and what HoldStart returns becomes the lease's context, so that
// the handler's own spans come to lie under it.
type Observer interface {
	// AcquireStart: somebody asks, and may have to wait.
	AcquireStart(ctx context.Context, a Acquisition) context.Context
	// AcquireEnd follows every AcquireStart, also when the store panics
	// (ErrPanicked): lease is nil when err is not, and both are nil when Once
	// found a record.
	AcquireEnd(ctx context.Context, a Acquisition, lease *Lease, err error)
	// Blocked: somebody who asked has to wait, or is refused, and for whom, as far
	// as that is known. It comes between AcquireStart and AcquireEnd, not at all
	// where the key was free, and again when somebody else turns out to be in the
	// way, or to have been, who now hands the lease on. position counts those
	// ahead, in this process and at the store.
	Blocked(ctx context.Context, a Acquisition, held HeldError, position int)
	// HoldStart: a lease was granted. Nested ones are no leases of their own, and
	// have none of the following. One that is borrowed from another process has,
	// as it is renewed and lost here, too; its Depth is 2.
	HoldStart(ctx context.Context, lease *Lease) context.Context
	// Renewed: a renewal of lease was answered, late by so much after it was
	// due. A nil err is success; otherwise it is tried again or a loss.
	Renewed(lease *Lease, late time.Duration, err error)
	// Extended: the holder asked for more time, for another TTL, or to share the
	// key from now on.
	Extended(lease *Lease, err error)
	// HoldEnd follows every HoldStart, once: nil after a release, an error that
	// matches ErrLeaseLost on a loss (as soon as it is noticed, which may be
	// before the holder knows), or what kept the release from being certain.
	HoldEnd(ctx context.Context, lease *Lease, err error)
	// Owed: the store did not answer the release of a lease, so that its key may
	// stay locked (DebtOwed, or DebtDropped where the engine does not send it again); and
	// once more for each DebtOwed what became of it. HoldEnd is told the first, too,
	// where there was a hold. The context is that of the release, or the background.
	Owed(ctx context.Context, d Debt)
	// OnceStart and OnceEnd frame a call of Engine.Once. OnceEnd follows also
	// when the function panics (ErrPanicked).
	OnceStart(ctx context.Context, x Execution) context.Context
	OnceEnd(ctx context.Context, x Execution, out Outcome, err error)
	// Unlocked: the store was out and the work is run without a lock, as
	// WithRunUnlocked allows.
	Unlocked(ctx context.Context, a Acquisition, err error)
	// Forced: somebody took a key from its holders, or dropped its record.
	Forced(ctx context.Context, r Removal)
	// Declared: there is a rule ([Engine.Declare]), and calls under it may follow. It
	// may come more than once.
	Declared(d Declaration)
	// Skipped: work was dropped, as if it were done, because its rule says so.
	Skipped(ctx context.Context, s Skip)
	// StoreCalled: the store of that name ([driver.Named]) answered op ("acquire", "renew", "release", "complete", "raise",
	// "downgrade", "inspect", "list", "force" or "forget") after so long. What an
	// acquisition waited for a holder is in it.
	StoreCalled(store, op string, took time.Duration, err error)
	// StoreImpaired: the store of that name works, but less well than it should, for
	// the reason err ([driver.Impairable]); nil: it works well again.
	StoreImpaired(store string, err error)
}

// Tracer is implemented by observers that can say in which trace a request is,
// for those who are kept waiting by it, in other processes too. What Trace
// returns is stored with the lease and comes back in [HeldError] and
// [driver.Record]: short, printable text, such as a traceparent of W3C Trace Context.
type Tracer interface {
	Trace(ctx context.Context) string
}

// Acquisition is what was asked for.
type Acquisition struct {
	Claims []Claim // not to be changed
	Rule   string  // from WithRule
	Wait   bool    // false: refused at once when held
	Store  string  // what the engine's store says that it is ([driver.Named]); "" if it does not

	// Attempts is known to AcquireEnd alone: how often the store was asked. 0 where
	// there was no need to, or no way: a nested lease, one that was handed on in this
	// process, a wait that ended in line. 1 where it answered at once, or not at all.
	// Where it said to wait, its answers: each time that it looked again and said so,
	// and the grant.
	Attempts int
}

// Execution is a call of [Engine.Once].
type Execution struct {
	Key   string
	Rule  string // from WithRule
	Store string // as in Acquisition
}

// Removal is what was done by force: [Engine.ForceRelease] took Key from Holders,
// or, where there are none, [Engine.Forget] dropped its record.
type Removal struct {
	Key     string
	Reason  string // as given
	Store   string // as in Acquisition
	Holders []Holder
}

// Debt is a release that the store has not answered, which the engine therefore
// owes it, and sends again.
type Debt struct {
	Claims []Claim // not to be changed
	Owner  string
	Rule   string // from WithRule
	Store  string // as in Acquisition
	State  DebtState
}

// DebtState is what became of a [Debt].
type DebtState string

// The states of a debt. Owed is followed by one of those after it, but for Dropped.
const (
	DebtOwed    DebtState = "owed"    // the engine goes on sending it
	DebtPaid    DebtState = "paid"    // the store has answered
	DebtExpired DebtState = "expired" // the lease ran out before the store answered
	DebtClosed  DebtState = "closed"  // the engine was closed before
	DebtDropped DebtState = "dropped" // not kept: there were 10 000 already, or the engine had closed
)

// NopObserver does nothing. Embed it in an observer.
type NopObserver struct{}

// AcquireStart returns ctx.
func (NopObserver) AcquireStart(ctx context.Context, _ Acquisition) context.Context { return ctx }

// AcquireEnd does nothing.
func (NopObserver) AcquireEnd(context.Context, Acquisition, *Lease, error) {}

// HoldStart returns ctx.
func (NopObserver) HoldStart(ctx context.Context, _ *Lease) context.Context { return ctx }

// Blocked does nothing.
func (NopObserver) Blocked(context.Context, Acquisition, HeldError, int) {}

// Extended does nothing.
func (NopObserver) Extended(*Lease, error) {}

// Forced does nothing.
func (NopObserver) Forced(context.Context, Removal) {}

// Declared does nothing.
func (NopObserver) Declared(Declaration) {}

// Skipped does nothing.
func (NopObserver) Skipped(context.Context, Skip) {}

// StoreImpaired does nothing.
func (NopObserver) StoreImpaired(string, error) {}

// StoreCalled does nothing.
func (NopObserver) StoreCalled(string, string, time.Duration, error) {}

// Renewed does nothing.
func (NopObserver) Renewed(*Lease, time.Duration, error) {}

// HoldEnd does nothing.
func (NopObserver) HoldEnd(context.Context, *Lease, error) {}

// Owed does nothing.
func (NopObserver) Owed(context.Context, Debt) {}

// OnceStart returns ctx.
func (NopObserver) OnceStart(ctx context.Context, _ Execution) context.Context { return ctx }

// OnceEnd does nothing.
func (NopObserver) OnceEnd(context.Context, Execution, Outcome, error) {}

// Unlocked does nothing.
func (NopObserver) Unlocked(context.Context, Acquisition, error) {}
