package driver

import (
	"context"
	"time"
)

// Store keeps leases where every process can see them. A store does what only the backend can
// do: grant a key to one owner at a time, in order, and free the keys of dead owners. The
// engine does everything that is the same for all backends: validation, the line of callers
// within a process, renewal, deadlines and contexts.
//
// Each numbered sentence below has a test in core/drivertest. A store is safe for concurrent
// use. It need not do operations that its [Description] does not list; it embeds [Unsupported] then.
type Store interface {
	// Describe says what the store can do. It does no I/O. The engine calls it once,
	// when it is made.
	Describe() Description

	// Acquire grants all claims of req, or none.
	//
	//  A1. At most one exclusive lease per key is in force at any time.
	//  A2. Unless it is renewed, a grant lasts for req.TTL, or for the grant's Term if it has
	//      one, by the backend's clock. Then the key is free without any further request.
	//  A3. The token is greater than every token of every earlier grant of each key (A13),
	//      even if the backend has lost its data: max(last+1, clock in µs). Until the year
	//      2200 at least it is below 1<<53, so a client that reads doubles can compare it.
	//  A4. Acquire is idempotent by owner: an owner that holds the claims and asks again gets
	//      the same token and a full TTL. If the request is refused because the owner holds a
	//      claim in another mode, no lease of the owner ends sooner, and its TTL (N7) stays.
	//  A5. Without req.Wait, a held key is refused at once with a *HeldError.
	//  A6. With req.Wait, the request waits until it is granted or ctx ends. Waiters are served
	//      in order of arrival, also across processes; nobody overtakes them. (Not so if the
	//      Description says Unordered.) A store may let a
	//      waiter be overtaken for a bounded time if the backend cannot tell that waiter of its
	//      turn.
	//  A7. A waiter that died or gave up does not hold up those behind it.
	//  A8. If ctx ends a wait, the error is a *HeldError if the backend was answering, and
	//      matches ErrUnavailable if it was silent.
	//  A9. After an error, nothing is left behind, or what is left expires within req.TTL.
	//  A10. If the backend cannot be reached, the error matches ErrUnavailable and comes within
	//      ctx's bound. It is never a *HeldError.
	//  A11. After Close the error matches ErrClosed.
	//  A12. A *HeldError's HeldFor counts from the grant, by the backend's clock, whatever was
	//      renewed since; or it is 0. It is 0 for a lease that may linger: nobody but its engine
	//      knows since when the present holder has had it.
	//  A13. A grant may reserve the tokens that follow its own, up to req.HandOffs of them.
	//      The engine gives them to the callers that it hands the lease on to. They belong to
	//      the grant whether they are used or not, and however it ends. An owner that asks
	//      again (A4) gets as many. A store whose tokens follow a clock reserves none that is
	//      more than MaxLead ahead of the clock, because after a loss of data the clock alone
	//      makes the next token. A grant without reserved tokens is not handed on.
	//  A14. req.OnHeld is called before Acquire returns, or not at all. Afterwards the engine
	//      uses what it refers to for another request.
	//
	// The following sentences concern claims that are not exclusive, if the store lists them in
	// its Description:
	//
	//  M1. Shared leases are in force together, and so are at most N permits. A key that is
	//      held in one mode is held for the other two. In A5 to A8, "held" means that there is
	//      no room for one more lease of the requested mode.
	//  M2. A request that arrives while others wait for the key queues behind them, even if
	//      there is room for it. Otherwise a stream of readers or of permit holders would keep
	//      a writer out.
	//  M3. Phase-fair: the end of an exclusive lease, or of the last permit, admits all waiting
	//      shared requests, wherever they stand in the queue. The end of the last shared lease
	//      admits the first of the other requests. A store may admit many requests in several
	//      steps: a request that came meanwhile is behind them. (B. Brandenburg and J. Anderson, Spin-Based
	//      Reader-Writer Synchronization, 2010.)
	//  M4. Every lease has a TTL of its own. A lease that is not renewed ends alone, and delays
	//      nobody for longer.
	//  M6. A permit is granted while fewer than the request's own N are in force, in order of
	//      arrival: a request with a greater N does not overtake one with a smaller N.
	//
	// The following sentences concern several claims in one request:
	//
	//  S1. All or none: a request that was refused or has ended holds nothing. A waiting
	//      request may hold the claims before the one it waits for, in key order, and keeps
	//      them alive itself. So two sets never deadlock with each other.
	//  S2. The grant has one token for all of its claims.
	Acquire(ctx context.Context, req Request) (Grant, error)

	// Renew gives every grant a full TTL again and returns one error per grant, in order.
	//
	//  N1. nil: the lease is in force for another TTL.
	//  N2. An error that matches ErrLeaseLost: this owner definitely no longer has the lease.
	//      Any other error is transient: the engine tries again.
	//  N3. A renewal never brings a lease back, and never touches another owner's lease.
	//  N4. The failure of one grant does not affect the others.
	//  N5. A grant is not this owner's if its token, or the mode of one of its claims, differs
	//      from what was granted. A grant with a part of the claims is still this owner's.
	//  N6. If one claim of a set is lost, the set is lost.
	//  N7. A borrower's renewal (Grant.Borrowed) never brings the lease's end nearer, and never
	//      moves it further than the grant's TTL from now. A borrowed grant whose TTL is above
	//      the one that the owner last asked for, with Acquire or Renew, does not belong to
	//      this lease: it counts as lost (N2). So does one that was handed on more often than
	//      the grant has tokens for (A13).
	Renew(ctx context.Context, grants []Grant) []error

	// Downgrade is Renew of one grant whose claims may be shared where they are exclusive at the
	// backend: those become shared. A store whose Description lists Shared implements it.
	//
	//  M5. nil: all claims are in force for another TTL, in the modes of grant.Claims and under
	//      grant.Token. At no moment in between was a key free. Waiting shared requests are
	//      admitted, as after the end of an exclusive lease (M3).
	//  M7. An error that matches ErrLeaseLost: N2, N3, N5 and N6 hold. No claim of another
	//      mode than exclusive changes its mode: the grant is not this owner's then.
	//  M8. Any other error: each claim has its old mode or its new one, and stays this owner's.
	//      Repeating is safe, also after success.
	Downgrade(ctx context.Context, grant Grant) error

	// Release ends the lease and admits the first waiter.
	//
	//  R1. nil: the lease was this owner's. The key is now free, or the next waiter's.
	//  R2. An error that matches ErrLeaseLost: this owner no longer had the lease. Nobody
	//      else's lease is touched. A store that had no answer and sent the release again can't
	//      always tell this from what its first attempt did, and may return nil (RepeatedRelease).
	//  R3. Any other error: the outcome is unknown, and repeating is safe.
	//  R4. A release wakes only the waiters whose turn it is.
	//  R5. If one claim of a set was lost, Release frees the others and returns the error of
	//      R2.
	//  R6. With grant.MinHold, the claims do not become free now, but stay held for that long by
	//      the backend's clock, and nobody gets them before. A waiter knows another end, that of
	//      the lease, so it is told. The owner has released the claims: a renewal or a downgrade
	//      is lost (N2, M7). It may release them again, with another MinHold or without (R1). A
	//      store does this only if its Description lists MinHold.
	Release(ctx context.Context, grant Grant) error

	// Close ends the store's own goroutines and connections.
	//
	//  C1. Waiting calls of Acquire return an error that matches ErrClosed.
	//  C2. Close releases no lease: the engine does that.
	Close() error

	Ledger
	Inspector
}

// Request asks a store for a lease.
type Request struct {
	// Owner names the acquisition. It is unique, and [CheckLease] says what it may look like.
	Owner string
	// Claims are valid and in key order.
	Claims []Claim
	// TTL is how long the grant lasts unless it is renewed, a value that the
	// store can keep ([TTLs]).
	TTL time.Duration
	// Wait: the request waits in the queue until ctx ends, instead of being refused.
	Wait bool
	// HandOffs is how many times the engine may want to hand the lease on, so how many tokens
	// the grant may reserve (A13). Zero for anything except one exclusive claim.
	HandOffs uint64
	// Linger: the engine may keep the lease after its holder has released it, until somebody wants
	// the key (core.WithLinger). So the store should let the backend know where to tell this
	// process ([Description].OnWanted). Only for one exclusive claim.
	Linger bool
	// OnHeld, if set, is called on the caller's goroutine each time the backend answers that
	// the request has to wait, with the holder in the way. By then the request has its place in
	// the queue. The engine uses it to tell a wait for a holder from a wait for a silent
	// backend. It must not panic: a store need not guard against that.
	OnHeld func(HeldError)
	// Rule and Trace are shown to those who inspect the lock or wait for it: the rule that
	// asks, and its trace, in the form that the hook wrote (observe.Hooks.Trace). Both may be
	// empty. Neither is ever compared. Each has at most [MaxNoteBytes] bytes and no control
	// characters.
	Rule, Trace string
}

// MaxNoteBytes is the maximum length of Request.Rule and of Request.Trace, in bytes.
const MaxNoteBytes = 256

// Grant is a lease as the store knows it.
type Grant struct {
	Owner  string
	Claims []Claim
	TTL    time.Duration
	// Token is the fencing token. Each time the engine hands the lease on, the lease's token
	// becomes one greater.
	Token uint64
	// HandOffs is how many tokens after Token the grant has reserved (A13), so how many times
	// the lease can be handed on.
	HandOffs uint64
	// HandedOn is how many times the engine has handed the lease on, or the lender's engine in a
	// borrowed grant. A store looks at it only there (N7).
	HandedOn uint64
	// Since is a moment on this process's monotonic clock, not later than the sending of the
	// request that was granted. The local deadline counts from it, so the holder's time ends
	// before the backend's. Zero: the engine uses the moment before it called Acquire, which is
	// right for a store that did not wait.
	Since time.Time
	// Term is how long the backend keeps the lease, counted from Since, until the first renewal
	// extends it to TTL. A store sets it if it told a waiter of its grant without knowing
	// whether that waiter is still alive. Zero: TTL. The engine renews a lease with a Term soon
	// after the grant.
	Term time.Duration
	// Contended: others wait for the key at the store. This hint limits how often the lease is
	// handed on within its process before the others get their turn. The engine does not keep such
	// a lease after its release, so nobody has to tell it that the lease is wanted (W2).
	Contended bool
	// Resent: the store has sent the request more than once, and one copy of it has no answer. It
	// may still be under way, and take the key again after the release. The store gets this back
	// with the release, so that it can look for such a copy.
	Resent bool
	// Lingers: the backend knows where to tell this process that the lease is wanted (W1). Without
	// it the engine does not keep the lease after its release.
	Lingers bool
	// Borrowed: another process described this grant, of a lease of its own
	// (core/experimental/carry). The store must check the TTL (N7).
	Borrowed bool
	// MinHold, in a release, is how much longer the claims stay held (R6), one of the TTLs that
	// the store can keep. Zero everywhere else, and in most releases.
	MinHold time.Duration
}
