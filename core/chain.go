package core

import (
	"context"
	"slices"

	"github.com/keyturn/keyturn/core/internal/carried"
)

// chain lists the leases that a context is under, innermost first: leases of this process, and
// leases that came with a request from another process. It follows contexts, not leases, so
// that [Lease.Attach] can put a lease in front of those that another context has already. The
// chain itself is the context that carries it.
type chain struct {
	context.Context                 // the context below it
	lease           *Lease          // nil if carried is set
	carried         []carried.Lease // leases that another process says its caller holds; not verified
	next            *chain
}

type chainKey struct{}

// Value implements context.Context.
func (c *chain) Value(key any) any {
	if key == (chainKey{}) {
		return c
	}
	return c.Context.Value(key)
}

func chainOf(ctx context.Context) *chain {
	c, _ := ctx.Value(chainKey{}).(*chain)
	return c
}

// LeaseFrom returns the innermost lease that ctx descends from; false if there is none. It is for a
// handler behind a middleware, which did not acquire the lease itself. The lease may have ended:
// see [Lease.Err].
func LeaseFrom(ctx context.Context) (*Lease, bool) {
	for c := chainOf(ctx); c != nil; c = c.next {
		if c.lease != nil {
			return c.lease, true
		}
	}
	return nil, false
}

// Attach returns a context under parent that is also under the lease. It is for a context
// that does not descend from the lease's: that of another goroutine, or of another request.
// [LeaseFrom] finds the lease there, [AssertHeld] accepts it, and an acquisition of its keys is
// nested ([Engine.Acquire]). Leases that parent descends from stay in force.
//
// The context ends with parent, and with the lease: then its cause is ErrReleased, or matches
// ErrLeaseLost (but not with [WithoutCancelOnLoss]: there it ends with the release). It does
// not end with the request that the lease was acquired in. Call cancel when the work is done.
//
// The holder must not release the lease before that work is done. Otherwise the next holder
// starts while this goroutine still writes.
//
// With [WithMoveFrom] the context is also under the old store's lease, and ends with it.
func (l *Lease) Attach(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	detach := func() {}
	if l.terms.old != nil {
		parent, detach = l.terms.old.Attach(parent)
	}
	ctx, end := context.WithCancelCause(&chain{Context: parent, lease: l, next: chainOf(parent)})
	forget := []func(){detach, l.own.onEnd(end)}
	if l.nest != nil { // the new context also ends with the lease's outer leases
		for _, p := range l.nest.outer {
			forget = append(forget, p.own.onEnd(end))
		}
	}
	return ctx, func() {
		for _, f := range forget {
			f()
		}
		end(nil)
	}
}

// parts returns the leases with a grant of their own: l, or those that l is nested in.
func (l *Lease) parts() []*Lease {
	if l.nest != nil {
		return l.nest.outer
	}
	return []*Lease{l}
}

// claimOn returns the claim with which l holds key.
func (l *Lease) claimOn(key string) (Claim, bool) {
	claims := l.Claims()
	i := slices.IndexFunc(claims, func(c Claim) bool { return c.Key == key })
	if i < 0 {
		return Claim{}, false
	}
	return claims[i], true
}
