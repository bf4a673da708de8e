package core

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
)

// Close ends the engine and closes its store. New acquisitions and all waiters get ErrClosed; only
// holders may still nest, because their work would fail in the middle otherwise. Close waits for the
// holders as long as ctx allows. Then it takes the remaining leases away: their contexts end with a
// cause that matches ErrLeaseLost and ErrClosed. All of them are taken away before the store is told
// of any: if it does not answer, later holders must not go on working meanwhile. Finally it sends
// again the releases that the store has not answered ([Lease.Release]), and ends the engine's
// goroutines. If the store does not answer, Close returns up to [WithReleaseTimeout] after ctx has
// ended, plus the time of the store's own Close.
//
// The error joins up to four errors:
//
//   - ctx's, with the number of leases that were taken away;
//   - one that matches ErrUnavailable, if a call to the store did not return although its context had
//     ended, for example because a hook of the store's client hangs;
//   - one that matches ErrOutcomeUnknown, if a lease may be left whose release the store did not answer;
//   - the error of the store's Close.
//
// A second Close waits for the first, as long as its own ctx allows, and returns the same.
func (e *Engine) Close(ctx context.Context) error {
	lc := &e.life
	if !lc.close() {
		return lc.await(ctx)
	}
	b := e.settle()
	lc.cancelWaits()
	e.lines.Close()
	lc.tidying.Go(func() {
		for _, left := range b.lingers.Close() {
			e.returnLeft(left, observe.LingerClosed)
		}
	})
	select {
	case <-lc.idle:
	case <-ctx.Done():
	}
	// From here on nothing is bounded by ctx, because ctx may have ended.
	defer time.AfterFunc(e.cfg.releaseTimeout, e.debts.cancel).Stop()
	var cut error
	if n := e.revokeAll(); n > 0 {
		what := "leases"
		if n == 1 {
			what = "lease"
		}
		cut = fmt.Errorf("keyturn: closed with %d %s still held: %w", n, what, ctx.Err())
	}
	stuck := lc.awaitIdle(e.cfg.releaseTimeout)
	b.watchdog.Close()
	lc.tidying.Wait()
	owed := e.debts.close()
	lc.err = errors.Join(cut, stuck, owed, b.store.Close())
	close(lc.done)
	return lc.err
}

// awaitIdle waits for the acquisitions under way. Their contexts have ended, so they end at once,
// unless the store does not keep its contract: then Close must not hang with it.
func (lc *lifecycle) awaitIdle(most time.Duration) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-lc.idle:
		return nil
	case <-timer.C:
		return &driver.UnavailableError{Op: "close", Err: errStuck}
	}
}

var errStuck = errors.New("a call that the engine has ended does not return")

// await is a second call of Close.
func (lc *lifecycle) await(ctx context.Context) error {
	select {
	case <-lc.done:
		return lc.err
	case <-ctx.Done():
	}
	select {
	case <-lc.done: // if both are ready, the answer counts
		return lc.err
	default:
		return fmt.Errorf("keyturn: closing, not closed yet: %w", ctx.Err())
	}
}

// revokeAll takes away all leases that are still held, and returns their number. The store is told
// only when nobody relies on any of them.
func (e *Engine) revokeAll() int {
	left := e.life.held()
	for _, l := range left {
		l.lose(driver.LossClosed)
	}
	for _, l := range left {
		l.revoke()
	}
	return len(left)
}
