package core

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/lazyctx"
)

// Inspect shows who holds key, who waits for it, and what [Engine.Once] remembers of it, in
// whatever process. It is for operators, not for decisions: all may be different by the time it is
// read. A key that the store knows nothing of is no error. [driver.ParseOwner] reads the owners.
// Callers that wait behind another one of their process, in its engine, are not among the waiters.
//
// ctx bounds it or, if that has no deadline, [WithReleaseTimeout]. Errors: ErrUnavailable,
// ErrInvalidKey, [errors.ErrUnsupported] (before any I/O), ErrClosed, and ctx's own if it ended
// first.
func (e *Engine) Inspect(ctx context.Context, key string) (driver.LockInfo, error) {
	if err := e.checkKey(key); err != nil {
		return driver.LockInfo{}, err
	}
	var info driver.LockInfo
	err := e.administer(ctx, "inspect", key, func(ctx context.Context) (err error) {
		info, err = e.backend().store.Inspect(ctx, key)
		return err
	})
	if err != nil {
		return driver.LockInfo{}, err
	}
	return info, nil
}

// listPage is about how many keys one request asks for. It is small, so that the store can
// serve others in between, and Close does not wait for long.
const listPage = 100

// listRemembered is how many keys of a list are remembered, so that none comes twice: 8 MiB at
// most.
const listRemembered = 16 << 10

// List shows the keys that begin with prefix and are held or waited for; all such keys if prefix is
// empty. [Engine.ListAll] also has those that are only on record, of which there may be very many.
//
// It asks the store for a page at a time, as the loop goes on, so it is no snapshot: what comes or
// goes meanwhile may be missing. A key comes once, but a store may repeat keys of a list of more
// than 16 384.
//
// The first error ends the list and comes with a zero LockInfo. The errors are those of
// [Engine.Inspect], whose bound here is that of each page. prefix follows the rules for keys.
//
//	for info, err := range eng.List(ctx, "user:") {
//		if err != nil {
//			return err
//		}
//		fmt.Println(info.Key, len(info.Holders), len(info.Waiters))
//	}
func (e *Engine) List(ctx context.Context, prefix string) iter.Seq2[driver.LockInfo, error] {
	return e.list(ctx, driver.Listing{Prefix: prefix, Limit: listPage})
}

// ListAll is [Engine.List] of the keys that are held, waited for, or on record: what [Engine.Once]
// remembers.
func (e *Engine) ListAll(ctx context.Context, prefix string) iter.Seq2[driver.LockInfo, error] {
	return e.list(ctx, driver.Listing{Prefix: prefix, Limit: listPage, Records: true})
}

func (e *Engine) list(ctx context.Context, q driver.Listing) iter.Seq2[driver.LockInfo, error] {
	return func(yield func(driver.LockInfo, error) bool) {
		if q.Prefix != "" {
			if err := e.checkKey(q.Prefix); err != nil {
				yield(driver.LockInfo{}, err)
				return
			}
		}
		seen := make(map[string]struct{})
		for q := q; ; { // its own cursor, each time that somebody goes through the list
			page, next, err := e.listPage(ctx, q)
			if err != nil {
				yield(driver.LockInfo{}, err)
				return
			}
			for _, info := range page {
				if _, again := seen[info.Key]; again {
					continue
				}
				if len(seen) == listRemembered {
					clear(seen)
				}
				seen[info.Key] = struct{}{}
				if !yield(info, nil) {
					return
				}
			}
			if q.Cursor = next; next == "" {
				return
			}
		}
	}
}

func (e *Engine) listPage(ctx context.Context, q driver.Listing) (page []driver.LockInfo, next string, err error) {
	err = e.administer(ctx, "list", q.Prefix, func(ctx context.Context) (err error) {
		page, next, err = e.backend().store.List(ctx, q)
		return err
	})
	return page, next, err
}

// administer asks the store once, within a timeout if ctx has none, and no longer than the engine lives.
func (e *Engine) administer(ctx context.Context, op, key string, ask func(context.Context) error) error {
	if err := e.backend().canInspect(); err != nil {
		return err
	}
	reg := e.life.register(key)
	if err := reg.enter(); err != nil {
		return err
	}
	defer reg.leave()
	if own := ctx.Err(); own != nil { // the caller has gone, so nothing is sent
		return fmt.Errorf("keyturn: %s %q: %w", op, e.ShowKey(key), own)
	}
	timeout := e.cfg.releaseTimeout
	if _, own := ctx.Deadline(); own {
		timeout = 0
	}
	asked, bounded := time.Now(), lazyctx.Bounded(ctx, e.life.ending, timeout)
	defer bounded.Cancel()
	bounded.Start(asked)
	err := ask(bounded)
	e.storeCalled(op, asked, err)
	switch own := ownEnd(ctx, err, time.Since(asked)); {
	case err == nil:
		return nil
	case e.life.ending.Err() != nil:
		return ErrClosed
	case own != nil:
		return fmt.Errorf("keyturn: %s %q: %w", op, e.ShowKey(key), own)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &UnavailableError{Op: op, Err: err} // the engine's timeout ended it
	}
	return e.showOutage(err)
}
