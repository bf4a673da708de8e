package core

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
)

// Outcome is what came of a call of [Engine.Once].
type Outcome struct {
	// Duplicate: the function did not run; Result is what it returned the first
	// time.
	Duplicate bool
	Result    []byte
	// ResultNotKept: the execution is on record without its result, which was over
	// [WithResultLimit] or found no room at the store. The call that ran the
	// function has the Result all the same; a duplicate has none, and an error that
	// matches ErrResultNotKept.
	ResultNotKept bool
	trace         string // of the execution on record, for hooks
}

// Once runs fn once per key, as far as that can be had: while one run is under
// way others wait for it (or get ErrHeld, with [WithFailFast]); after it has
// succeeded they get its result, for as long as [WithRetention] says. An error
// or panic of fn is not remembered: the next call runs fn again.
//
// However many calls of one process wait for the run of a key, they ask the store
// a few times between them: what one of them is told to be on record, all have
// that were waiting, each with its own fingerprint compared and a copy of its own.
//
// fn's effect and the record of it are two steps, so a crash between them
// makes fn run again: at least once, once unless something broke. What must
// not happen twice in any case marks the key within the effect's own
// transaction; see docs/guarantees.md.
//
// Errors: those of [Engine.Acquire] and fn's own; one that matches
// ErrFingerprintMismatch, ErrResultNotKept (fn has run before, did not run now, and
// what it returned was not kept), ErrLeaseLost (fn ran, but another may have run it
// too, and nothing was stored), ErrReleased (fn released the lease itself, so nothing was stored)
// or ErrOutcomeUnknown (fn ran; whether it is on record is not known); or
// ErrWouldDeadlock where ctx holds the key already, as within fn itself: then
// nothing runs, whether there is a record or not. The
// Outcome has fn's result where fn succeeded, whatever the error.
func (e *Engine) Once(ctx context.Context, key string, fn func(context.Context) ([]byte, error), opts ...CallOption) (Outcome, error) {
	s, err := e.settle(opts)
	if err != nil {
		return Outcome{}, err
	}
	if err := e.canOnce(s); err != nil {
		return Outcome{}, err
	}
	if fn == nil {
		return Outcome{}, errNoFunction
	}
	if e.hooks == nil {
		return e.once(ctx, key, fn, s)
	}
	x := observe.Execution{Key: key, Rule: s.rule, Store: e.about.Name}
	ctx = e.hooks.onceStart(ctx, x)
	var out Outcome
	err = observe.ErrPanicked // unless fn returns
	defer func() { e.hooks.onceEnd(ctx, x, out, err) }()
	out, err = e.once(ctx, key, fn, s)
	return out, err
}

// ErrSkipResult is returned by a function of [Engine.Once], as its error, to say that
// it succeeded and that its result is not to be kept: because it was streamed, for
// instance, or is too large to be worth it. The execution is on record, and repeats
// get ErrResultNotKept. Only this very value means that, not an error that wraps it.
// Once itself never returns it.
var ErrSkipResult = errors.New("keyturn: skip the result")

func (e *Engine) once(ctx context.Context, key string, fn func(context.Context) ([]byte, error), shared *settings) (Outcome, error) {
	own := *shared
	own.once = true
	s := &own
	claims := []Claim{Exclusive(key)}
	lease, rec, err := e.acquire(ctx, claims, s, e.store.Begin)
	switch {
	case err != nil && e.runsUnlocked(ctx, claims, s, err):
		result, err := fn(ctx)
		if err == ErrSkipResult {
			err = nil
		}
		return Outcome{Result: result}, err
	case err != nil:
		return Outcome{}, err
	case rec != nil:
		return replay(key, rec, s)
	}
	var result []byte
	lease.run(ctx, func(ctx context.Context) { result, err = fn(ctx) })
	if err != nil && err != ErrSkipResult {
		return Outcome{}, lease.done(ctx, err)
	}
	done := driver.Record{Fingerprint: s.fingerprint, Result: result, Trace: e.hooks.trace(lease.ctx)}
	if err == ErrSkipResult || len(result) > s.resultLimit {
		dropResult(&done)
	}
	err = e.complete(ctx, lease, &done)
	return Outcome{Result: result, ResultNotKept: err == nil && done.ResultNotKept}, err
}

// dropResult makes a mark of the record: the effect is on record whatever becomes
// of its result, as a repeat would have the effect again.
func dropResult(r *driver.Record) { r.Result, r.ResultNotKept = nil, true }

// replay answers from the record. An unknown fingerprint on either side is not
// compared: the record may be older than the rule that fingerprints.
func replay(key string, rec *driver.Record, s *settings) (Outcome, error) {
	if !s.anyContent && len(s.fingerprint) > 0 && len(rec.Fingerprint) > 0 && !bytes.Equal(s.fingerprint, rec.Fingerprint) {
		return Outcome{}, fmt.Errorf("%w: %q", ErrFingerprintMismatch, key)
	}
	if rec.ResultNotKept {
		return Outcome{Duplicate: true, ResultNotKept: true, trace: rec.Trace}, &driver.ResultNotKeptError{Key: key}
	}
	return Outcome{Duplicate: true, Result: rec.Result, trace: rec.Trace}, nil
}

// complete records the result and releases the lease. It tries again for as
// long as the lease is good and a release may take: a lost record means that fn
// runs twice. Where the store had no room for rec's result, rec loses it.
func (e *Engine) complete(ctx context.Context, lease *Lease, rec *driver.Record) error {
	bounded := e.detached(ctx)
	defer bounded.Cancel()
	ctx, cancel := context.WithDeadline(bounded, lease.Deadline())
	defer cancel()
	recorded := false
	err := lease.finish(&within{made: ctx}, "complete", func(ctx context.Context) error {
		for pause := 10 * time.Millisecond; ; pause *= 2 {
			asked := time.Now()
			err := e.store.Complete(ctx, lease.current().Grant, *rec, lease.terms.retention)
			if errors.Is(err, ErrResultNotKept) {
				dropResult(rec)
				err = nil
			}
			e.circuit.Learn(lease.grant.Claims, err)
			e.storeCalled("complete", asked, err)
			recorded = err == nil
			if recorded {
				e.lines.Share(lease.Key(), rec, asked)
			}
			if recorded || errors.Is(err, ErrLeaseLost) {
				return err
			}
			select {
			case <-ctx.Done():
				e.undo(ctx, lease.current(), lease.terms.rule) // a key without a record need not stay locked
				return err
			case <-time.After(pause):
			}
		}
	})
	if err == nil && !recorded {
		return fmt.Errorf("keyturn: nothing was stored for %q, which its function released: %w", lease.Key(), ErrReleased)
	}
	return err
}
