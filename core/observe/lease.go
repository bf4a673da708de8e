package observe

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Lease is a lease as hooks see it. All calls about one lease get the same value, so it can
// be the key of a map. It is safe for concurrent use. Only engines implement it: methods may
// be added.
type Lease interface {
	// Context is what HoldStart made of the lease's context. It ends with the lease.
	Context() context.Context
	// Claims are what is held, in key order and in the present modes. Not to be changed.
	Claims() []driver.Claim
	// Owner is the value that the store keeps for the lease; see driver.ParseOwner.
	Owner() string
	// Token is the lease's fencing token.
	Token() uint64
	// Rule is the name given with core.WithRule; "" for none.
	Rule() string
	// Store is the name of the store; "" if it has none.
	Store() string
	// TTL is how long the store keeps the lease after a renewal.
	TTL() time.Duration
	// Deadline is when the lease counts as lost unless it is renewed.
	Deadline() time.Time
	// Depth is how many times over the context holds the keys: 1 for an outermost lease, 2
	// for one that is nested in that, and 2 for one that was borrowed from another process,
	// because nobody here knows how deep it was there.
	Depth() int
	// HandedOff reports whether the lease came from another one of this process, without a
	// request to the store: at the release of that one, or after it had lingered
	// (core.WithLinger). Both have the same owner. It is false for a lease that is nested or
	// borrowed.
	HandedOff() bool
	// Lingered reports whether the lease had lingered before it was handed on: nobody of this
	// process had held it for a while.
	Lingered() bool
	// Shadow reports whether nobody works under the lease: it shows what a call with
	// core.WithShadow would have done.
	Shadow() bool
	// Early reports whether the holder released the lease before its work was over
	// (core.ReleaseEarly).
	Early() bool
	// Err is nil while the lease is in force, ErrLeaseLost or ErrReleased after it.
	Err() error
}
