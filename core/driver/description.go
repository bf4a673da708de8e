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

	Stays bool // a Release keeps the claims for as long as Grant.Stay says: core.WithMinHold

	Ledger    bool // the methods of [Ledger] work: core's Once and Raise
	Inspector bool // the methods of [Inspector] work

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

// Raise refuses.
func (Unsupported) Raise(context.Context, string, uint64, time.Duration) (uint64, error) {
	return 0, &UnsupportedError{Feature: "versions of keys"}
}

// Inspect refuses.
func (Unsupported) Inspect(context.Context, string) (LockInfo, error) {
	return LockInfo{}, &UnsupportedError{Feature: "inspection"}
}

// List refuses.
func (Unsupported) List(context.Context, string, string, int) ([]LockInfo, string, error) {
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
