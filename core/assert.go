package core

import (
	"context"
	"fmt"
)

// AssertHeld returns nil if ctx descends from a lease on key that is in force:
// for a function that must never run unlocked, however it came to be called.
//
//	if err := core.AssertHeld(ctx, "group:"+id); err != nil {
//		return err
//	}
//
// Any lease will do, also a shared one or a permit: that somebody holds the key does
// not say that nobody else does. A function that must be alone with the key asks
// [AssertClaim].
//
// The error matches ErrNotHeld if there is no such lease, ErrReleased or
// ErrLeaseLost if there was one. Work that a rule runs unlocked in an outage
// ([WithRunUnlocked]) has no lease either, so it fails here: a function that
// asserts should not be behind such a rule.
//
// It asks no store, so it costs next to nothing.
func AssertHeld(ctx context.Context, key string) error {
	return assert(ctx, key, func(Claim) bool { return true })
}

// AssertClaim is AssertHeld for a lease that covers c: one that is exclusive covers
// any claim on its key, a shared one a shared claim, a permit another permit,
// whatever the number that each is one of.
//
//	if err := core.AssertClaim(ctx, core.Exclusive("group:"+id)); err != nil {
//		return err // also where the group is held to be read
//	}
//
// Leases in other modes count as none; the error then says which there is.
// After [Lease.Downgrade] an exclusive lease is a shared one here, too.
func AssertClaim(ctx context.Context, c Claim) error {
	return assert(ctx, c.Key, func(held Claim) bool { return covers(held.Mode, c) })
}

func assert(ctx context.Context, key string, enough func(Claim) bool) error {
	var ended error
	var other *Claim
	for c := chainOf(ctx); c != nil; c = c.next {
		if c.lease == nil {
			continue
		}
		for _, p := range c.lease.parts() {
			held, has := p.claimOn(key)
			if !has {
				continue
			}
			err := c.lease.Err()
			switch {
			case enough(held) && err == nil:
				return nil
			case enough(held):
				ended = err
			case err == nil && other == nil:
				other = &held
			}
		}
	}
	if ended != nil {
		return ended
	}
	if other != nil {
		return fmt.Errorf("%w: %q is held %v only", ErrNotHeld, key, other.Mode)
	}
	return fmt.Errorf("%w: %q", ErrNotHeld, key)
}
