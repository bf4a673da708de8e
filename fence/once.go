package fence

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// Once runs fn in a transaction that also marks id, so fn's effect on this database happens once,
// whatever is delivered twice or crashes. A duplicate gets the result of the first execution. fn
// must write with the transaction it gets ([TxFrom] finds it in its context, too), and neither
// commit it nor roll it back: on MySQL and MariaDB, that excludes statements that change a table's
// definition. It must return the errors of its statements: after a deadlock, MySQL has rolled back,
// and what fn writes then is in no transaction.
//
//	out, err := fence.Once(ctx, db, fence.Postgres, "msg:"+id, func(ctx context.Context, tx *sql.Tx) ([]byte, error) {
//		_, err := tx.ExecContext(ctx, `INSERT INTO inbox ...`)
//		return nil, err
//	})
//
// If fn returns an error or panics, the transaction is rolled back, and the next call runs fn.
// After core.ErrSkipResult it is committed, without a result. fn runs again, in a new transaction,
// if the database asks for it ([ErrRetry]) or if the answer to COMMIT was lost and the mark is not
// there; [WithAttempts] bounds that. So effects outside of this database may happen more than once.
//
// Calls for one id wait for each other in the database, each with a connection. [core.Engine.Once]
// in front of it lets them wait without one, and [WithDatabase] joins the two.
//
// Errors besides fn's own:
//
//   - core.ErrFingerprintMismatch: id is marked for other content ([WithFingerprint]).
//   - core.ErrResultNotKept: a duplicate, and the first execution has kept no result.
//   - core.ErrOutcomeUnknown: no answer to COMMIT came, and for 5 s none to the question whether
//     id is marked. A repeat is safe.
//   - [ErrTransactionEnded]: fn has ended its transaction.
//   - [ErrRetry]: all attempts were refused because of others.
//   - The database's own, if it can't be reached, or refuses a statement or the COMMIT: nothing was
//     committed. [WithDatabase] makes core.ErrUnavailable of the first.
//   - core.ErrInvalidKey, core.ErrInvalidOption, before any I/O.
func Once(ctx context.Context, db *sql.DB, d Dialect, id string, fn func(context.Context, *sql.Tx) ([]byte, error), opts ...OnceOption) (core.Outcome, error) {
	if fn == nil {
		return OnceThrough(ctx, poolOf(db), d, id, nil, opts...)
	}
	return OnceThrough(ctx, poolOf(db), d, id, func(ctx context.Context) ([]byte, error) {
		tx, _ := TxFrom(ctx)
		return fn(ctx, tx)
	}, opts...)
}

// OnceThrough is [Once] for a pool that is none of database/sql's. fn finds its transaction in its
// context, where [Transaction] has put it.
func OnceThrough(ctx context.Context, p Pool, d Dialect, id string, fn func(context.Context) ([]byte, error), opts ...OnceOption) (core.Outcome, error) {
	x, err := newExecution(p, d, opts)
	if err := errors.Join(err, driver.CheckOption(fn != nil, "Once", nil, "a function"), validID(id)); err != nil {
		return core.Outcome{}, err
	}
	var result []byte
	rec, first, err := x.run(ctx, id, func(ctx context.Context) (rec driver.Record, err error) {
		result, err = fn(ctx)
		rec = driver.Record{Fingerprint: x.fingerprint, Result: result}
		if err == core.ErrSkipResult {
			rec.Result, rec.ResultNotKept, err = nil, true, nil
		}
		return rec, err
	})
	switch {
	case err != nil:
		return core.Outcome{}, err
	case first:
		return core.Outcome{Result: result, ResultNotKept: rec.ResultNotKept}, nil
	}
	if err := sameContent(id, x.fingerprint, rec.Fingerprint); err != nil {
		return core.Outcome{}, err
	}
	if rec.ResultNotKept {
		return core.Outcome{Duplicate: true, ResultNotKept: true}, &driver.ResultNotKeptError{Key: id}
	}
	return core.Outcome{Duplicate: true, Result: rec.Result}, nil
}

// execution runs functions in transactions that mark their ids.
type execution struct {
	pool    Pool
	dialect Dialect
	config
	runsOnce bool // no function runs again
}

func newExecution(p Pool, d Dialect, opts []OnceOption) (*execution, error) {
	c, err := configure(opts)
	known := d == SQLite || slices.Contains(levels, c.isolation) // a driver of SQLite has levels of its own
	return &execution{pool: p, dialect: d, config: c}, errors.Join(d.validate(), err,
		driver.CheckOption(p != nil, "fence", nil, "a database"), driver.CheckOption(known, "WithIsolation", c.isolation, "a level of the database"))
}

// levels are those of PostgreSQL, MySQL and MariaDB.
var levels = []sql.IsolationLevel{
	sql.LevelDefault, sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable,
}

// work is what a transaction is for. It returns what the mark keeps of it.
type work func(context.Context) (driver.Record, error)

// run runs fn in a transaction that marks id, and tries again as Once says. If another call has
// marked id, first is false and rec is the mark's record.
func (x *execution) run(ctx context.Context, id string, fn work) (rec driver.Record, first bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	call := rand.Text()
	var unknown *unknownError // the last COMMIT without an answer
	var asking *time.Timer    // ends ctx unless somebody says what became of it
	n := 1
	answered := func(ctx context.Context) (driver.Record, error) {
		switch {
		case unknown == nil:
		case !asking.Stop(): // the mark is not there, but the answer came too late
			return driver.Record{}, errNoAnswer
		case n > x.attempts: // this try was there to ask
			return driver.Record{}, errRanBefore
		}
		rec, err := fn(ctx)
		rec.Trace = sign(rec.Trace, call)
		return rec, err
	}
	for ; ; n++ {
		before := err
		rec, first, err = x.try(ctx, id, answered)
		if err == nil {
			var by string
			rec.Trace, by = signed(rec.Trace)
			return rec, first || by == call, nil
		}
		var own *ownError
		switch {
		case !errors.As(err, &own):
		case own.error == errRanBefore: //nolint:errorlint // the very error
			return rec, false, fmt.Errorf("keyturn: once %q: %w, after: %w", id, errRanBefore, before)
		case x.runsOnce || !Retryable(own):
			return rec, false, own.error
		}
		var now *unknownError
		if errors.As(err, &now) || first { // first: no earlier COMMIT was carried out
			unknown = now
		}
		if now != nil {
			asking = time.AfterFunc(endTimeout, func() { cancel(errNoAnswer) })
			defer asking.Stop()
		}
		var early *earlyError
		again := Retryable(err) || errors.As(err, &early) && x.lost(err)
		// As long as the outcome is unknown, another try is the way to find out, however many there
		// were, and also if it fails because the database can't be reached. The end of asking ends ctx.
		if unknown == nil && (!again || n == x.attempts) {
			break
		}
		if end := pause(ctx, n); end != nil {
			err = fmt.Errorf("%w, after: %w", end, err)
			break
		}
	}
	if unknown != nil {
		if context.Cause(ctx) == errNoAnswer { // the caller has cancelled nothing
			err = errNoAnswer
		}
		return rec, false, fmt.Errorf("keyturn: once %q: %w", id, errors.Join(core.ErrOutcomeUnknown, unknown, err))
	}
	return rec, false, explain(err)
}

// try is one transaction.
func (x *execution) try(ctx context.Context, id string, fn work) (rec driver.Record, first bool, err error) {
	t, err := x.pool.Begin(ctx, x.isolation)
	if err != nil {
		return rec, false, &beginError{fmt.Errorf("keyturn: once %q: %w", id, err)}
	}
	committing := false
	defer func() {
		if !committing {
			end(ctx, t, err)
		}
	}()
	g := &Guard{tx: t, dialect: x.dialect, config: x.config}
	if first, err = g.mark(ctx, id, nothingYet, nil); err == nil && !first {
		rec, err = g.record(ctx, id)
	}
	if err != nil {
		return rec, false, &earlyError{err}
	}
	if !first {
		return rec, false, nil
	}
	if rec, err = fn(t.In(ctx)); err != nil {
		return rec, true, &ownError{err}
	}
	if err := g.keep(ctx, id, rec); err != nil {
		return rec, true, err
	}
	committing = true // from here on, commit ends it
	return rec, true, commit(ctx, t)
}
