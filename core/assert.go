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
// The error matches ErrNotHeld if there is no such lease, ErrReleased or
// ErrLeaseLost if there was one. Work that a rule runs unlocked in an outage
// ([WithRunUnlocked]) has no lease either, so it fails here: a function that
// asserts should not be behind such a rule.
//
// It asks no store, so it costs next to nothing.
func AssertHeld(ctx context.Context, key string) error {
	var ended error
	for c := chainOf(ctx); c != nil; c = c.next {
		if c.lease == nil {
			continue
		}
		for _, p := range c.lease.parts() {
			if _, has := p.claimOn(key); !has {
				continue
			}
			if ended = c.lease.Err(); ended == nil {
				return nil
			}
		}
	}
	if ended != nil {
		return ended
	}
	return &NotHeldError{Key: key}
}

// NotHeldError says which key a context does not hold. It matches [ErrNotHeld].
type NotHeldError struct {
	Key string
}

func (e *NotHeldError) Error() string {
	return fmt.Sprintf("keyturn: %q is not held here", e.Key)
}

// Is makes errors.Is(err, ErrNotHeld) true.
func (e *NotHeldError) Is(target error) bool { return target == ErrNotHeld }
