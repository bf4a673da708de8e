package core

import (
	"context"
	"fmt"
)

// AssertHeld returns nil if ctx descends from a lease in force that covers c. It is for a
// function that must never run without its lock, however it came to be called:
//
//	if err := core.AssertHeld(ctx, core.Exclusive("group:"+keytmpl.Escape(id))); err != nil {
//		return err // also if the group is only held for reading
//	}
//
// The key has to be the rule's, byte for byte: templates escape values, as package keytmpl does.
//
// An exclusive lease covers any claim on its key, a shared one a shared claim, and a permit
// any permit of the key, whatever the number. After [Lease.Downgrade] an exclusive lease is a
// shared one.
//
// The error matches ErrNotHeld if there is no such lease, and ErrReleased or ErrLeaseLost if
// there was one. Work that runs unlocked in an outage ([WithRunUnlocked]) has no lease, so a
// function that asserts one must not be called by it.
//
// AssertHeld asks no store. It is safe for concurrent use.
func AssertHeld(ctx context.Context, c Claim) error {
	var ended error
	var other *Claim
	for n := chainOf(ctx); n != nil; n = n.next {
		if n.lease == nil {
			continue
		}
		for _, p := range n.lease.parts() {
			held, has := p.claimOn(c.Key)
			if !has {
				continue
			}
			err := n.lease.Err()
			switch {
			case covers(held.Mode, c) && err == nil:
				return nil
			case covers(held.Mode, c):
				ended = err
			case err == nil && other == nil:
				other = &held
			}
		}
	}
	switch {
	case ended != nil:
		return ended
	case other != nil:
		return fmt.Errorf("%w: %q is held %v only", ErrNotHeld, c.Key, other.Mode)
	}
	return fmt.Errorf("%w: %q", ErrNotHeld, c.Key)
}
