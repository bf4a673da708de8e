package fence

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrStale: somebody with a greater token, or a newer version, has written already. The
	// caller must not write. [Guard.Check] and [Guard.Claim] return it as a *[StaleError].
	ErrStale = errors.New("keyturn: stale: a newer holder has written")
	// ErrRetry: the database refused a statement because of another transaction: a deadlock, a
	// serialization failure, or the end of its own wait for a lock. Roll the transaction back and
	// repeat all of it. [Once] and [Optimistic] do so.
	ErrRetry = errors.New("keyturn: the transaction has to be repeated")
	// ErrLocked: another transaction has the lock, and [NoWait] or [Within] says not to wait any
	// longer. The transaction can go on.
	ErrLocked = errors.New("keyturn: another transaction has the lock")
	// ErrTransactionEnded: the function of [Once] or [WithDatabase] has committed its transaction,
	// which it must not do. On MySQL and MariaDB, CREATE, ALTER, TRUNCATE and their like do that. A
	// part of its effect may be missing, so no delivery of the id runs the function or counts as a
	// duplicate, until somebody has looked and deleted the mark: DELETE FROM keyturn_mark WHERE id = ...
	ErrTransactionEnded = errors.New("keyturn: the function has ended its transaction")
	// ErrNoTransaction: the value given to [On] is a pool of connections. Each statement would be
	// a transaction of its own, so a check would protect nothing.
	ErrNoTransaction = errors.New("keyturn: not a transaction")
)

// StaleError says which token was too small. It matches [ErrStale]. No repeat helps: only a new
// lease has a greater token.
type StaleError struct {
	Resource string // what Check was called with; for Claim, table and id
	Token    uint64 // the caller's
	Seen     uint64 // the greatest that the resource has seen
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("keyturn: stale: %q has seen token %d, which is greater than %d", e.Resource, e.Seen, e.Token)
}

// Is makes errors.Is(err, ErrStale) true.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// Retryable reports whether err says that its transaction has to be repeated: [ErrRetry], or a
// driver's own error of that kind. It is for the errors of the caller's own statements.
func Retryable(err error) bool { return errors.Is(err, ErrRetry) || kindOf(err) == kindRetry }

// kind is what a driver's error means here.
type kind int

const (
	kindOther     kind = iota
	kindRetry          // the transaction has to be repeated
	kindDuplicate      // a unique index has the value already
)

// kinds sorts SQLSTATEs and MySQL's numbers. MySQL's SQLSTATEs say less than its numbers: 40001
// stands for deadlocks, and HY000 for a hundred other errors.
var kinds = map[string]kind{
	"40001": kindRetry, // serialization_failure
	"40P01": kindRetry, // deadlock_detected
	"55P03": kindRetry, // lock_not_available: NOWAIT, or lock_timeout
	"23505": kindDuplicate,

	mysqlCode + "1213": kindRetry, // ER_LOCK_DEADLOCK; InnoDB has rolled the transaction back
	mysqlCode + "1205": kindRetry, // ER_LOCK_WAIT_TIMEOUT; InnoDB has rolled back only the statement
	mysqlCode + "1020": kindRetry, // ER_CHECKREAD, with MariaDB's innodb_snapshot_isolation
	mysqlCode + "3101": kindRetry, // ER_TRANSACTION_ROLLBACK_DURING_COMMIT, of a group of servers
	mysqlCode + "3572": kindRetry, // ER_LOCK_NOWAIT
	mysqlCode + "1062": kindDuplicate,
}

// kindOf looks at err and at all errors that it wraps.
func kindOf(err error) kind {
	if err == nil {
		return kindOther
	}
	if k := kinds[codeOf(err)]; k != kindOther {
		return k
	}
	switch wrapper := err.(type) {
	case interface{ Unwrap() error }:
		return kindOf(wrapper.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range wrapper.Unwrap() {
			if k := kindOf(err); k != kindOther {
				return k
			}
		}
	case interface{ SQLState() string }: // PostgreSQL's texts are translated, and may quote a user's
	default:
		if text := err.Error(); strings.Contains(text, "database is locked") || strings.Contains(text, "database table is locked") {
			return kindRetry
		}
	}
	return kindOther
}

// mysqlCode is what the text of a MySQL driver's error begins with, before the number.
const mysqlCode = "Error "

// codeOf returns the SQLSTATE of a PostgreSQL driver's error, or the beginning of a MySQL driver's up
// to the number: "Error 1213" of "Error 1213 (40001): Deadlock found", or, in older versions, of
// "Error 1213: Deadlock found". "" if err itself has neither.
func codeOf(err error) string {
	if state, ok := err.(interface{ SQLState() string }); ok {
		return state.SQLState()
	}
	text := err.Error()
	rest, ok := strings.CutPrefix(text, mysqlCode)
	if !ok {
		return ""
	}
	if end := strings.IndexAny(rest, " :"); end > 0 && strings.Trim(rest[:end], "0123456789") == "" {
		return text[:len(mysqlCode)+end]
	}
	return ""
}

// codeIn is codeOf of the first error in err's chain that has a code.
func codeIn(err error) string {
	for ; err != nil; err = unwrapOne(err) {
		if code := codeOf(err); code != "" {
			return code
		}
	}
	return ""
}

// unwrapOne returns what err wraps; of several errors the last, which is the driver's in explain.
func unwrapOne(err error) error {
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return errors.Unwrap(err)
	}
	if all := several.Unwrap(); len(all) > 0 {
		return all[len(all)-1]
	}
	return nil
}

// explain makes ErrRetry of a driver's error of that kind, and leaves other errors as they are.
func explain(err error) error {
	if kindOf(err) == kindRetry && !errors.Is(err, ErrRetry) {
		return fmt.Errorf("%w: %w", ErrRetry, err)
	}
	return err
}
