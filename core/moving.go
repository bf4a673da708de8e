package core

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// maxClockGap is how much the clocks of two stores may differ during a move.
const maxClockGap = time.Second

// errBehind: the token of the store that the fleet moves to is not greater than the old store's.
var errBehind = errors.New("keyturn: the clocks of the two stores differ")

// errHalfHeld: the caller's context holds the key on the new store alone, since before this call took it
// on the old one. Its token may be smaller than that of an old holder in between.
var errHalfHeld = errors.New("keyturn: an outer call holds the key without the old store's lease")

// moving calls fn under a lease of the old store. fn takes the lease of the other store by s and calls
// check under it. around is the lease that the caller's context is under; nil: none. moving keeps the
// tokens of both in one order. A token is the store's clock in microseconds when it granted the lease,
// so time is all it takes:
//
//   - If the other store's token is not greater, fn takes its lease again, later.
//   - If it is greater, the old lease is held until the old store's clock is past it, too.
func (s *settings) moving(ctx context.Context, around *Lease, fn func(_ context.Context, check func(context.Context) error) error) error {
	before, _ := LeaseFrom(ctx)
	if before == around {
		before = nil // the store is out, and the work runs unlocked
	}
	s.old = before
	var gap time.Duration // how much the other token is ahead
	var other *Lease      // whose token is in order; nil: there is none
	check := func(ctx context.Context) error {
		l, ok := LeaseFrom(ctx)
		if !ok || before == nil || l == before {
			return nil
		}
		if gap = microseconds(l, before); gap <= 0 {
			if l.nest != nil && !l.nest.obtained(l.Key()) { // another try would find the same token
				return &UnavailableError{Op: "acquire", Err: errHalfHeld}
			}
			return errBehind
		}
		if gap = untilPast(l, before); gap > maxClockGap {
			return errBehind
		}
		other = l
		return nil
	}
	defer func() { // also after a panic, or the end of the goroutine
		if other != nil {
			awaitToken(other, before)
		}
	}()
	for {
		err := fn(ctx, check)
		switch {
		case !errors.Is(err, errBehind): // which the function itself cannot return
			return err
		case gap.Abs() > maxClockGap:
			return &UnavailableError{Op: "acquire", Err: fmt.Errorf("%v by %v", errBehind, gap.Abs())}
		}
		if err := pause(ctx, time.Millisecond-gap); err != nil {
			return err
		}
	}
}

// awaitToken waits until the clock of old's store is past l's token, so that its next lease has a greater one.
func awaitToken(l, old *Lease) { time.Sleep(untilPast(l, old) + time.Microsecond) }

// untilPast is how long it takes until the clock of old's store is past l's token.
func untilPast(l, old *Lease) time.Duration {
	return microseconds(l, old) - time.Since(old.base().grant.Heard)
}

// microseconds is the time between the grants of two leases by the clocks of their stores.
func microseconds(l, before *Lease) time.Duration {
	return time.Duration(int64(l.Token())-int64(before.Token())) * time.Microsecond
}

// pause sleeps for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
