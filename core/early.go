package core

import (
	"context"
	"errors"
	"fmt"
)

// ReleaseEarly ends the innermost lease that ctx is under and admits the next holder, and lets the
// work go on. It is for a handler behind a rule that has done what needs the lock, and still has to
// notify others. It does not end the lease's context, which then ends with [Lease.Release], or when
// the function of [Engine.Do] returns. The fencing token stays readable ([LeaseFrom]), [AssertHeld]
// fails, and another acquisition of the key in ctx takes it anew.
//
// Without a lease in ctx, and once it is released, it returns nil. The error of a lost lease matches
// ErrLeaseLost, as at the end of [Engine.Do]: what was done may have overlapped. Other errors are those of
// [Lease.Release]. A nested lease only counts, so its early release admits nobody. With [WithMoveFrom] both leases
// end. In [Engine.Once] the error matches [errors.ErrUnsupported], because the record needs the lease.
func ReleaseEarly(ctx context.Context) error {
	l, ok := LeaseFrom(ctx)
	if !ok {
		return nil
	}
	if l.terms.once {
		return errEarlyInOnce
	}
	err := l.releaseEarly(ctx)
	if old := l.terms.old; old != nil {
		awaitToken(l, old)
		err = errors.Join(err, old.releaseEarly(ctx))
	}
	return err
}

var errEarlyInOnce = fmt.Errorf("keyturn: no early release in Once, whose record needs the lease: %w", errors.ErrUnsupported)

// endEarly ends the context of a lease that was released early, with those that it descends from.
func (l *Lease) endEarly() {
	l.cancel(ErrReleased)
	if l.nest != nil {
		for _, p := range l.nest.owned {
			p.cancel(ErrReleased)
		}
	}
}

func (l *Lease) releaseEarly(ctx context.Context) error {
	l.state.Or(early)
	err := l.free(ctx)
	if errors.Is(err, ErrReleased) {
		return nil
	}
	return err
}
