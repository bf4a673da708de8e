package driver

import (
	"context"
	"time"
)

// Description says what a store is and what it can do. The zero value is a store that
// grants exclusive claims, one at a time, and does nothing else. The engine refuses,
// before any I/O, the modes, sets and methods that the description does not list, with an
// error that matches [errors.ErrUnsupported].
//
// A store that wraps another one and embeds it ([Store] or a concrete type) keeps the
// other's description. If it changes what the other does, it overrides Describe, too.
type Description struct {
	// Name is short and never changes, such as "redis". Hooks make it a label of what
	// they measure (observe.Acquisition, observe.Lease). "": the store has no name.
	Name string

	Shared  bool // ModeShared, and Downgrade
	Permits bool // ModePermit
	Sets    bool // several claims in one request

	// Unordered says that waiters are served in any order, as with Redlock. Of A6, only this
	// then holds: a waiting request waits until it is granted or ctx ends. These need not hold:
	// I3, M2, M3, M6, R4, and what M5 and I8 say about waiters.
	Unordered bool

	// TTLs are the TTLs that the store can keep. The engine asks for no other: it rounds a
	// TTL up to a whole step, and refuses one that is out of bounds with an
	// [*OptionError].
	TTLs TTLs

	MinHold bool // a Release keeps the claims for as long as Grant.MinHold says: core.WithMinHold

	Ledger    bool // the methods of [Ledger] work: core's Once and AdvanceVersion
	Inspector bool // the methods of [Inspector] work

	// Local says that only this process uses the store. Then there are no renewals of other processes
	// that those of an engine should keep away from, and it renews at exact times.
	Local bool

	// Examine looks at the settings of the backend, and at what its account may do, for an operator
	// (the command keyturn doctor). It may take and release a lock on a key of its own. It is bounded
	// by ctx. Nil: there is nothing to look at.
	Examine func(ctx context.Context) []Finding

	// Partition is for a store whose keys are kept in several places that fail each by itself,
	// such as the masters of a Cluster. It names the place where key is at present, without
	// I/O; "" if it is not known. Keys in the same place have the same name. The engine then
	// refuses only the keys of a place that is out (core.WithCircuit). In an
	// [*UnavailableError] for several claims, the store must set Key. Nil: there is only one
	// place.
	Partition func(key string) string

	// Identity names the server that answers at present, so that the engine notices when
	// another server has taken the place of the one that granted the leases, or the same
	// one has started anew: it may not know all of them. "": not known now. The
	// engine asks once a second while it has leases, and renews all of them at once when
	// the name has changed. Identity returns when ctx ends. Nil: the store can't tell.
	Identity func(ctx context.Context) (string, error)

	// OnImpaired is for a store that can find out that it works worse than it should:
	// slower, say, because a connection is missing. That is no outage, and keeps nobody
	// from asking. The engine calls OnImpaired once, when it is made. The store then
	// calls f with the reason when the impairment begins, also if it has begun before,
	// and with nil when it ends; never from two goroutines at once. Hooks are told
	// (observe.Hooks.StoreImpaired). Nil: the store can't tell.
	OnImpaired func(f func(reason error))

	// OnWanted is for a store that can tell a process that a lease of its own is in somebody's way.
	// The engine may then keep a lease that nobody uses, and give it back when it is wanted
	// (core.WithLinger). The engine calls OnWanted once, when it is made. From then on the store
	// calls f with the key and the owner of such a lease. Nil: the store can't tell, and the engine
	// refuses WithLinger.
	//
	//  W1. Grant.Lingers is set only for a request with Linger, if f is going to be called as W2
	//      says. A store may leave it out for a while, as long as messages do not reach it.
	//  W2. When a request of another owner is refused because of such a lease, or has to wait for it,
	//      in any process, f is called in the process that was granted the lease. For a set this is
	//      the lease on the first claim, in key order, that it can't have (M2). A request that waits
	//      behind others need not tell: the first of them has, or the grant was Contended. A message
	//      may get lost; a waiting request repeats it when it asks again. f may be called more than
	//      once, and also for a lease that has ended, or whose grant has not returned yet.
	//  W3. f is also called when such a lease was ended by ForceRelease.
	//  W4. As soon as the store finds out that messages may have been missed, or will be, it calls f
	//      with no key and no owner. This concerns all leases of requests that were sent before.
	//  W5. f is called from any goroutine, also from several at a time, and never while a mutex of
	//      the store is held. It returns at once.
	OnWanted func(f func(key, owner string))
}

// Unsupported refuses everything that a store need not do. A store embeds it and
// implements the rest of [Store]: then a method that the contract gets later does not
// break the store. What it refuses has an [*UnsupportedError].
type Unsupported struct{}

// Describe returns the zero Description.
func (Unsupported) Describe() Description { return Description{} }

// Downgrade refuses.
func (Unsupported) Downgrade(context.Context, Grant) error {
	return &UnsupportedError{Feature: "shared claims"}
}

// Begin refuses.
func (Unsupported) Begin(context.Context, Request) (Grant, *Record, error) {
	return Grant{}, nil, &UnsupportedError{Feature: "records of executions"}
}

// Complete refuses.
func (Unsupported) Complete(context.Context, Grant, Record, time.Duration) error {
	return &UnsupportedError{Feature: "records of executions"}
}

// AdvanceVersion refuses.
func (Unsupported) AdvanceVersion(context.Context, string, uint64, time.Duration) (uint64, error) {
	return 0, &UnsupportedError{Feature: "versions of keys"}
}

// Inspect refuses.
func (Unsupported) Inspect(context.Context, string) (LockInfo, error) {
	return LockInfo{}, &UnsupportedError{Feature: "inspection"}
}

// List refuses.
func (Unsupported) List(context.Context, Listing) ([]LockInfo, string, error) {
	return nil, "", &UnsupportedError{Feature: "inspection"}
}

// ForceRelease refuses.
func (Unsupported) ForceRelease(context.Context, string, string, ...Holder) ([]Holder, error) {
	return nil, &UnsupportedError{Feature: "forced release"}
}

// Forget refuses.
func (Unsupported) Forget(context.Context, string) (bool, error) {
	return false, &UnsupportedError{Feature: "forgetting records"}
}
