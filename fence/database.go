package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// WithDatabase runs what is executed once in a transaction of db that also marks its key. So it
// has exactly one effect on this database, whatever crashes, is lost or is delivered again. It is
// an option of [core.Engine.Once], and of the rules for Once of every middleware:
//
//	lockasynq.Once("message:deliver", "msg:{payload.id}", fence.WithDatabase(db, fence.Postgres))
//	lockgrpc.Once(pb.Payments_Charge_FullMethodName, "charge:{request_id}", fence.WithDatabase(db, fence.Postgres))
//	lockhttp.Idempotency("POST /payments", user, fence.WithDatabase(db, fence.Postgres)) // Echo, gin, net/http
//
// The handler gets the transaction from its context ([TxFrom]), and must write with it. It must
// neither commit it nor roll it back, and must return the errors of its statements (see [Once]). An
// error of the handler rolls it back, and so does a response that is not stored, such as HTTP's 500.
// Otherwise it is committed before the response is sent; but a part of a response that was flushed
// cannot be taken back.
//
// The mark is the record: it has the fingerprint and the result. The store's record answers
// repeats sooner, and its lease lets them wait without a connection to the database.
//
// The handler runs at most once per call. If the database rolls its transaction back because of
// others, it could not be reached for the COMMIT, or the lease was lost before the handler ran, the error
// matches core.ErrRolledBack, which asks the caller to come again. So it does if the handler returns such an
// error of a statement of its own ([Retryable]); any other error of the handler comes back as it is,
// also that of a broken connection. If the database refuses the COMMIT for another reason, such as a
// deferred constraint, the error is the database's. If it cannot be reached before the handler runs, the
// error matches core.ErrUnavailable.
//
// Before the handler runs, a transaction that others or a broken connection have ended is tried again
// ([WithAttempts]). One that could not begin is not: in an outage, each try may take as long as the first.
//
// A nil db, a wrong dialect, and [WithFingerprint], which the engine has its own option for, are
// errors of the rule or the call that match core.ErrInvalidOption.
func WithDatabase(db *sql.DB, d Dialect, opts ...OnceOption) core.CallOption {
	return WithDatabaseThrough(poolOf(db), d, opts...)
}

// WithDatabaseThrough is [WithDatabase] for a pool that is none of database/sql's. The handler finds
// its transaction in its context, where [Transaction] has put it.
func WithDatabaseThrough(p Pool, d Dialect, opts ...OnceOption) core.CallOption {
	x, err := newExecution(p, d, opts)
	if x.fingerprint != nil {
		err = errors.Join(err, &core.OptionError{Option: "WithFingerprint", Value: "...", Want: "core.WithFingerprint"})
	}
	x.runsOnce = true
	return core.WithExecutor(&executor{x, err})
}

// executor is the [core.Executor] of a database.
type executor struct {
	*execution
	wrong error
}

func (e *executor) Validate() error { return e.wrong }

// errRanBefore is what a function returns instead of running again. Its mark was not there, so
// its first transaction was rolled back.
var errRanBefore = errors.New("the function does not run again")

func (e *executor) Execute(ctx context.Context, key string, fn func(context.Context) (driver.Record, error)) (rec driver.Record, first bool, err error) {
	ran := false
	var own error
	rec, first, err = e.run(ctx, key, func(ctx context.Context) (driver.Record, error) {
		if ran {
			return driver.Record{}, errRanBefore
		}
		ran = true
		var rec driver.Record
		rec, own = fn(ctx)
		return rec, own
	})
	out := own == nil && ctx.Err() == nil && (e.lost(err) || readOnly[codeIn(err)])
	switch {
	case err == nil || errors.Is(err, core.ErrOutcomeUnknown):
		return rec, first, err
	case errors.Is(err, errRanBefore) || Retryable(err) || out && ran: // an outage says that nothing ran
		return rec, false, fmt.Errorf("%w: %q: %w", core.ErrRolledBack, key, err)
	case out:
		return rec, false, &core.UnavailableError{Op: "transaction", Err: err}
	}
	return rec, false, err
}
