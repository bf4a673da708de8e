package fence

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Optimistic calls try until it succeeds, for work whose conflicts are rare: try reads a row with
// its version, and writes it only if the version is still the same.
//
//	err := fence.Optimistic(ctx, func(ctx context.Context) error {
//		... // read balance and version
//		return fence.Written(db.ExecContext(ctx,
//			`UPDATE account SET balance = $1, version = version+1 WHERE id = $2 AND version = $3`, balance, id, version))
//	})
//
// It repeats try after [ErrStale] and after errors that are [Retryable], with a pause that grows
// from 5 ms to 0.5 s and is random within that. Any other error is returned at once, also a
// *[StaleError]: a token does not become greater. After [WithAttempts], it returns the last error.
// If ctx ends first, the error matches the last error and ctx's own. A nil try and an option out of
// range are core.ErrInvalidOption.
func Optimistic(ctx context.Context, try func(context.Context) error, opts ...RetryOption) error {
	c, err := configure(opts)
	if err := errors.Join(err, driver.CheckOption(try != nil, "Optimistic", nil, "a function")); err != nil {
		return err
	}
	for n := 1; ; n++ {
		err := try(ctx)
		var token *StaleError
		if err == nil || errors.As(err, &token) || !errors.Is(err, ErrStale) && !Retryable(err) {
			return err
		}
		if n == c.attempts {
			return explain(err)
		}
		if end := pause(ctx, n); end != nil {
			return fmt.Errorf("%w, after: %w", end, explain(err))
		}
	}
}

// pause waits before try n+1. The random part keeps transactions apart that were refused because
// of each other.
func pause(ctx context.Context, n int) error {
	longest := min(5*time.Millisecond<<min(n, 10), 500*time.Millisecond)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Millisecond + rand.N(longest)):
		return nil
	}
}

// again tries until the lock is there or d is over. It is for databases on which the bound of a wait
// is a setting of the connection, or a word that only MariaDB has.
func again(ctx context.Context, d time.Duration, try func(context.Context) error) error {
	deadline := time.Now().Add(d)
	for n := 1; ; n++ {
		err := try(ctx)
		left := time.Until(deadline)
		if !errors.Is(err, ErrLocked) || left <= 0 {
			return err
		}
		bound, cancel := context.WithTimeout(ctx, left)
		_ = pause(bound, min(n, 4)) // the end of the time is noticed after one more try
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}
