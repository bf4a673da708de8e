package core

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Inspect shows who holds key, who waits for it and what [Engine.Once] remembers
// of it: for operators, not for decisions, as it may all be over by the time it
// is read. A key that nothing is known of is no error. [driver.ParseOwner] reads the
// owners.
//
// It is bounded by ctx or, where that has no deadline, by [WithReleaseTimeout].
// Errors: one that matches ErrUnavailable, ErrInvalidKey, errors.ErrUnsupported
// (before any I/O), ErrClosed; ctx's own when ctx ended first.
func (e *Engine) Inspect(ctx context.Context, key string) (driver.LockInfo, error) {
	if err := driver.ValidateKey(key); err != nil {
		return driver.LockInfo{}, err
	}
	var info driver.LockInfo
	err := e.administer(ctx, "inspect", key, func(ctx context.Context) (err error) {
		info, err = e.store.Inspect(ctx, key)
		return err
	})
	if err != nil {
		return driver.LockInfo{}, err
	}
	return info, nil
}

// listPage is about how many keys are asked for at a time: few enough that the
// store goes on serving others, and that Close does not wait for long.
const listPage = 100

// listRemembered is of how many keys in a list it is known that they came before:
// at most 8 MiB.
const listRemembered = 16 << 10

// List shows all keys that begin with prefix (all there are, if it is empty) and
// are held, waited for, or on record. It asks the store for a page at a time, as
// the loop goes on, so it is no snapshot: what comes or goes meanwhile may be in
// it or not. A key comes once, but in a list of more than 16 384 keys a store
// may repeat some.
//
// The first error ends it, and comes with a zero LockInfo; they are those of
// [Engine.Inspect], whose bound here is that of each page. The prefix follows
// the rules for keys, so it can't end within a letter.
//
//	for info, err := range eng.List(ctx, "user:") {
//		if err != nil {
//			return err
//		}
//		fmt.Println(info.Key, len(info.Holders), len(info.Waiters))
//	}
func (e *Engine) List(ctx context.Context, prefix string) iter.Seq2[driver.LockInfo, error] {
	return func(yield func(driver.LockInfo, error) bool) {
		if prefix != "" {
			if err := driver.ValidateKey(prefix); err != nil {
				yield(driver.LockInfo{}, err)
				return
			}
		}
		seen := make(map[string]struct{})
		for cursor := ""; ; {
			page, next, err := e.listPage(ctx, prefix, cursor)
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
			if cursor = next; cursor == "" {
				return
			}
		}
	}
}

func (e *Engine) listPage(ctx context.Context, prefix, cursor string) (page []driver.LockInfo, next string, err error) {
	err = e.administer(ctx, "list", prefix, func(ctx context.Context) (err error) {
		page, next, err = e.store.List(ctx, prefix, cursor, listPage)
		return err
	})
	return page, next, err
}

// administer has the store asked once, within a bound, and tells the
// caller's own end from the store's silence, as refusal does.
func (e *Engine) administer(ctx context.Context, op, key string, ask func(context.Context) error) error {
	if err := e.canInspect(); err != nil {
		return err
	}
	reg := e.life.register(key)
	if err := reg.enter(); err != nil {
		return err
	}
	defer reg.leave()
	if own := ctx.Err(); own != nil { // no request for somebody who has gone
		return fmt.Errorf("keyturn: %s %q: %w", op, key, own)
	}
	bounded, cancel := e.administrative(ctx)
	defer cancel()
	asked := time.Now()
	err := ask(bounded)
	e.storeCalled(op, asked, err)
	switch own := ctx.Err(); {
	case err == nil:
		return nil
	case e.life.ending.Err() != nil:
		return ErrClosed
	case own != nil && (errors.Is(own, context.Canceled) || !errors.Is(err, ErrUnavailable)):
		return fmt.Errorf("keyturn: %s %q: %w", op, key, own)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &UnavailableError{Op: op, Err: err} // the bound was the engine's
	}
	return err
}

// administrative bounds ctx, where it is not, and has it end with the engine.
func (e *Engine) administrative(ctx context.Context) (context.Context, context.CancelFunc) {
	cancel := context.CancelFunc(func() {})
	if _, bounded := ctx.Deadline(); !bounded {
		ctx, cancel = context.WithTimeout(ctx, e.releaseTimeout)
	}
	ctx, end := context.WithCancel(ctx)
	stop := context.AfterFunc(e.life.ending, end)
	return ctx, func() { stop(); end(); cancel() }
}
