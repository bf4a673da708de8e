package driver

import (
	"context"
	"time"
)

// Store keeps leases where every process can see them. The engine does all
// that is the same for every backend (validation, the line within a process,
// watchdog, deadlines, contexts); a store does what only the backend can: grant
// to one at a time, in order, and forget the dead.
//
// core/drivertest turns each numbered sentence below into a test. A store is
// safe for concurrent use.
type Store interface {
	// Acquire grants all claims of req, or none.
	//
	//  A1. At most one exclusive lease per key is in force at any time.
	//  A2. A grant lasts for req.TTL by the backend's clock unless renewed, or for
	//      the grant's Term if it has one, and frees the key then without anybody's
	//      help.
	//  A3. The token is greater than that of every earlier grant of each key,
	//      also after the backend lost its data: max(last+1, clock in µs).
	//  A4. Idempotent by owner: asked again by the owner that holds the claims,
	//      it gives the same token and a full TTL.
	//  A5. Without req.Wait a held key is refused at once with a *HeldError.
	//  A6. With req.Wait it waits until granted or ctx ends. Waiters are served
	//      in order of arrival, also across processes; nobody overtakes them. A
	//      store may let a waiter be overtaken for a bounded time if the backend
	//      can't tell that waiter of its turn.
	//  A7. A waiter that died or gave up does not hold up those behind it.
	//  A8. When ctx ends a wait, the error is a *HeldError if the backend was
	//      answering, and matches ErrUnavailable if it was silent.
	//  A9. After an error nothing is left behind, or what is left expires
	//      within req.TTL. What an owner has had before is its own (req.Held).
	//  A10. A backend out of reach gives an error that matches ErrUnavailable
	//      within ctx's bound, never a *HeldError.
	//  A11. After Close the error matches ErrClosed.
	//  A12. A *HeldError's HeldFor counts from the grant, by the backend's clock,
	//      whatever was renewed since; or it is 0.
	//
	// What a store does with claims that are not exclusive, where it lists them
	// in its Capabilities:
	//
	//  M1. Shared leases are in force together, at most N permits are, and a key
	//      that is held in one mode is held for the other two. In A5 to A8 "held"
	//      means that no further lease of the mode asked for fits in.
	//  M2. Who comes while somebody waits for the key gets behind, also where it
	//      would fit in: neither readers nor holders of permits keep a writer out
	//      by coming one after the other.
	//  M3. Phase-fair: the end of an exclusive lease, or of the last permit, lets
	//      all shared requests in that wait, wherever they stand; the end of the
	//      last shared lease lets the first of the others in. (B. Brandenburg and
	//      J. Anderson, Spin-Based Reader-Writer Synchronization, 2010.)
	//  M4. Every lease has a TTL of its own: one that is not renewed ends alone,
	//      and holds nobody up for longer.
	//  M5. Asked for shared by the owner that has the key exclusively, it turns
	//      the lease into a shared one: at once, with no moment in between in
	//      which the key is free, under the same token, and lets waiting shared
	//      requests in. This is how a lease is downgraded.
	//  M6. A permit is granted while fewer than the request's own N are in force,
	//      in order of arrival: a request with a small N is not overtaken by those
	//      with a greater one.
	//
	// And with several claims in one request:
	//
	//  S1. All or none: a request that is refused, or has ended, holds nothing. One
	//      that waits may hold the claims before the one it waits for, in key
	//      order, and keeps them alive itself; so two sets never wait for each
	//      other for ever.
	//  S2. The grant has one token for all of its claims.
	Acquire(ctx context.Context, req Request) (Grant, error)

	// Renew gives every grant a full TTL again and returns one error per grant,
	// in order.
	//
	//  N1. nil: the lease is in force for another TTL.
	//  N2. An error that matches ErrLeaseLost: it is definitely not this owner's
	//      any more. Anything else is transient: the engine tries again.
	//  N3. A renewal never brings a lease back, and never touches another
	//      owner's.
	//  N4. One grant's failure does not become another's.
	//  N5. A grant with another token, or with a claim in another mode, than was
	//      granted is not this owner's. One with a part of the claims is.
	//  N6. A set of which one claim is lost is lost.
	//  N7. A borrower's renewal (Grant.Borrowed) never brings the lease's end
	//      nearer, and never moves it further than the grant's TTL from now. A TTL
	//      above the one that the owner asked for last, with Acquire or Renew, is
	//      not this lease's: it counts as lost (N2).
	Renew(ctx context.Context, grants []Grant) []error

	// Release ends the lease and lets the first waiter in.
	//
	//  R1. nil: it was this owner's and is free, or the next waiter's, now.
	//  R2. An error that matches ErrLeaseLost: it was not this owner's any more;
	//      nobody else's lease is touched.
	//  R3. Any other error: the outcome is unknown and repeating is safe.
	//  R4. A release wakes those whose turn it is, not all.
	//  R5. A set of which one claim was lost frees the others, and is R2.
	Release(ctx context.Context, grant Grant) error

	// Close ends what the store runs on its own.
	//
	//  C1. Waiting Acquires return an error that matches ErrClosed.
	//  C2. No lease is released: that is the engine's part.
	Close() error
}

// Request asks a store for a lease.
type Request struct {
	// Owner names the acquisition; unique, without colon or white space.
	Owner string
	// Claims are validated and in key order.
	Claims []Claim
	// TTL is how long the grant lasts unless renewed; whole milliseconds.
	TTL time.Duration
	// Wait says to wait in line until ctx ends instead of being refused.
	Wait bool
	// Held says that the owner has the claims, as far as the engine knows, and asks
	// for them in other modes (M5). A9 is then about what it has got in addition: what
	// it had must not be taken from it because an answer stayed out.
	Held bool
	// OnHeld, if set, is called on the caller's goroutine each time the backend
	// answers that the request has to wait, with who is in the way; the request
	// has its place in line by then. It is how a wait behind a holder is told
	// from a wait for a silent backend. It must not panic: a store need not guard
	// against that.
	OnHeld func(HeldError)
	// Rule and Trace are shown to those who inspect the lock or wait for it: the
	// rule that asks, and the trace it asks in, in whatever form the hook that
	// gave it can read (core.Hooks.Trace). Both may be empty and neither is ever compared.
	// At most [MaxNoteBytes] each, without control characters.
	Rule, Trace string
}

// MaxNoteBytes is how long the notes that a request carries may be.
const MaxNoteBytes = 256

// Grant is a lease as the store knows it.
type Grant struct {
	Owner  string
	Claims []Claim
	TTL    time.Duration
	// Token makes the fencing token: the engine adds bits, in which it
	// counts how often the lease was handed on. Below 1<<53.
	Token uint64
	// Since is a moment, on this process's monotonic clock, not later than the
	// sending of the request that was granted. The local deadline counts from
	// it, so that the holder's time is over before the backend's. Zero: the
	// engine takes the moment before it called Acquire, which is right for a
	// store that did not wait.
	Since time.Time
	// Term is how long the backend keeps the lease, from Since on, until the first
	// renewal, which makes that TTL: for a store whose waiters are told of their
	// grant and need not come back for it, when nobody knows yet whether they are
	// alive. Zero: TTL. The engine renews a lease that has one soon after the grant.
	Term time.Duration
	// Contended says that others wait for the key at the store: a hint, for how
	// often the lease may go from hand to hand within its process before they get
	// their turn.
	Contended bool
	// Borrowed says that the grant is what another process told of its lease
	// (core.WithCarried): the TTL is only a claim, which N7 has the store check.
	Borrowed bool
}

// Capabilities says what a store can do beyond one exclusive claim at a time.
type Capabilities struct {
	Shared  bool // ModeShared
	Permits bool // ModePermit
	Sets    bool // several claims in one request
}

// Capable is implemented by stores that can do more than exclusive claims,
// one at a time. The engine refuses, before any I/O, what the store does not
// list, with an error that matches [errors.ErrUnsupported].
type Capable interface {
	Capabilities() Capabilities
}

// Named is implemented by stores that say what they are, such as "redis": a
// short name that never changes, for hooks, which make it a label of what they
// measure (core.Acquisition, Lease.Store).
type Named interface {
	Name() string
}

// Impairable is implemented by stores that find out while they work that they do it
// less well than they should: slower, say, because a connection is missing. It is no
// outage, and keeps nobody from asking. Hooks are told (core.Hooks.StoreImpaired).
type Impairable interface {
	// OnImpaired has f called with the reason when that begins, also if it has begun
	// before, and with nil when it ends; never from two goroutines at once. The
	// engine calls it once, when it is made.
	OnImpaired(f func(reason error))
}

// Partitioned is implemented by stores whose keys are kept in several places that
// fail each by itself, such as the masters of a Cluster. An outage of one is then
// none of the others: the engine refuses only the keys of a part that is out
// (core.WithCircuit). An *UnavailableError for several claims has to have its Key.
type Partitioned interface {
	// Partition names the place where key is at present; "" if there is only one, or
	// it is not known. It does no I/O. Keys in the same place have the same name.
	Partition(key string) string
}

// Identified is implemented by stores that can tell when another server has taken the
// place of the one that granted the leases, or the same one has started anew: it may
// not know all of them. The engine asks once a second while it has leases, and renews
// them at once when the name has changed.
type Identified interface {
	// Identity names the server that answers at present; "" if that can't be told. It
	// returns when ctx ends.
	Identity(ctx context.Context) (string, error)
}
