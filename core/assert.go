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
// there was one. Its text has the key as the engine of the innermost lease shows it
// ([WithKeyFilter]), or no key without a lease. Work that runs unlocked in an outage ([WithRunUnlocked]) has no lease, so a
// function that asserts one must not be called by it.
//
// AssertHeld asks no store. It is safe for concurrent use.
func AssertHeld(ctx context.Context, c Claim) error {
	var ended error
	var under *Engine // the innermost lease's, whose filter says how the key is shown
	var half *Lease   // the old store's lease of a move whose other lease has ended
	only := ""
	for n := chainOf(ctx); n != nil; n = n.next {
		if n.lease == nil || n.lease == half {
			continue
		}
		if under == nil {
			under = n.lease.engine
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
				ended, half = err, n.lease.terms.old
			case err == nil && only == "":
				only = fmt.Sprintf(" is held %v only", held.Mode)
			}
		}
	}
	switch {
	case ended != nil:
		return ended
	case under == nil: // and nobody knows whether the key may be shown
		return fmt.Errorf("%w: the context has no lease", ErrNotHeld)
	}
	return fmt.Errorf("%w: %q%s", ErrNotHeld, under.ShowKey(c.Key), only)
}
