package core

import (
	"context"
	"errors"
	"fmt"

	"github.com/keyturn/keyturn/core/driver"
)

// Executor runs the function of an execution ([Engine.Once]) such that its effect and its record
// are one step, in a database's transaction. fence.WithDatabase makes one.
type Executor interface {
	// Execute calls fn, unless key is on record, and keeps the record that fn returns together
	// with what fn did. first is false, and rec the kept record, if key was on record before.
	//
	// If Execute returns an error, nothing of this call is on record, and what fn did is undone;
	// unless the error matches ErrOutcomeUnknown. If fn returns an error, Execute returns that
	// very error, or one that wraps it. An error that matches ErrRolledBack says that only others,
	// or the way to the database, were in the way, and one that matches ErrUnavailable that the
	// database was. ctx ends with the lease; if Execute gives up for that, the caller gets
	// ErrLeaseLost, or ErrRolledBack if fn was not called. Execute calls fn at most once.
	Execute(ctx context.Context, key string, fn func(context.Context) (driver.Record, error)) (rec driver.Record, first bool, err error)
	// Validate says what is wrong with the executor, without I/O.
	Validate() error
}

// WithExecutor has [Engine.Once] run its function by x, whose record has the last word. The
// engine's lease then saves work, and lets callers wait without a transaction: a crash at any
// moment, a lost lease, or a store that loses its data runs nothing twice. The record at the
// store spares the next caller the database. If it cannot be written, the execution has succeeded
// all the same. A store without records (driver.Description) will do, too.
//
// Fingerprints and the result's limit are those of the call. With [WithRunUnlocked], the function
// runs by x without a lease while the store is out.
//
// A nil or invalid x is an [*OptionError]. Calls other than Once refuse the option, because their
// work would run without the transaction that it counts on.
func WithExecutor(x Executor) CallOption {
	return callOption(func(s *settings) error {
		if x == nil {
			return &OptionError{Option: "WithExecutor", Value: nil, Want: "an executor"}
		}
		s.executor = x
		return x.Validate()
	})
}

// onlyOnce refuses options that only an execution can keep.
func (s *settings) onlyOnce() error {
	return driver.CheckOption(s.executor == nil || s.once, "WithExecutor", true, "no such option except for Once")
}

// performed is the function of an execution, done.
type performed struct {
	result []byte // what the function returned, also if rec does not have it
	rec    driver.Record
	first  bool // otherwise the executor had rec before, and the function did not run
	ran    bool
	failed error // what the function returned
}

// perform runs fn, by the executor if there is one.
func (e *Engine) perform(ctx context.Context, key string, fn func(context.Context) ([]byte, error), s *settings) (p performed, err error) {
	run := func(ctx context.Context) (driver.Record, error) {
		var err error
		p.ran = true
		p.result, err = fn(ctx)
		if err != nil && err != ErrSkipResult {
			p.failed = err
			return driver.Record{}, err
		}
		rec := driver.Record{Fingerprint: s.fingerprint, Result: p.result, Trace: e.hooks.trace(ctx)}
		if err == ErrSkipResult || len(p.result) > s.resultLimit {
			dropResult(&rec)
		}
		return rec, nil
	}
	if s.executor == nil {
		p.first = true
		p.rec, err = run(ctx)
		return p, err
	}
	p.rec, p.first, err = s.executor.Execute(ctx, key, run)
	if !errors.Is(p.failed, err) { // fn's own error is not for the engine to change
		err = e.hideKeys(err, Exclusive(key))
	}
	if err != nil && p.failed == nil {
		err = p.undone(ctx, e.ShowKey(key), err)
	}
	return p, err
}

// undone is what the caller gets for an executor's own error. If the executor gave up because the
// lease had ended, that is no cancel of the caller's.
func (p performed) undone(ctx context.Context, key string, err error) error {
	end := context.Cause(ctx)
	switch {
	case ctx.Err() == nil, !errors.Is(end, ErrLeaseLost) && !errors.Is(end, ErrReleased):
		return err
	case errors.Is(err, ErrOutcomeUnknown):
		return fmt.Errorf("%w: %q: %v, after: %v", ErrOutcomeUnknown, key, err, end)
	case errors.Is(end, ErrReleased):
		return releasedBy(key)
	case p.ran: // its effects elsewhere may overlap with another call's
		return end
	}
	return fmt.Errorf("%w: %q: %v", ErrRolledBack, key, end)
}

// outcome is what the caller of Once gets for p.
func (p performed) outcome(key string, s *settings) (Outcome, error) {
	if !p.first {
		return replay(key, &p.rec, s)
	}
	return Outcome{Result: p.result, ResultNotKept: p.rec.ResultNotKept}, nil
}
