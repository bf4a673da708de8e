package fence

import (
	"database/sql"
	"errors"
	"strings"

	"github.com/keyturn/keyturn/core"
)

// ownError is fn's own error on its way through run.
type ownError struct{ error }

func (e *ownError) Unwrap() error { return e.error }

// unknownError is the error of a COMMIT that may have happened.
type unknownError struct{ error }

func (e *unknownError) Unwrap() error { return e.error }

// beginError is why no transaction began.
type beginError struct{ error }

func (e *beginError) Unwrap() error { return e.error }

// earlyError is the error of a statement before fn, in a transaction that began well.
type earlyError struct{ error }

func (e *earlyError) Unwrap() error { return e.error }

// rolledBack reports whether err, of a COMMIT, proves that nothing is committed. It is the one place
// that decides so, for all dialects. Every other error leaves the outcome open: no answer came, or it
// came from somebody who does not know, such as a pooler that has lost the server's answer.
//
// Whether a repeat makes sense after a proof is a question of its own: [Retryable].
func rolledBack(err error) bool {
	if errors.Is(err, sql.ErrTxDone) || Retryable(err) {
		return true
	}
	switch code := codeIn(err); {
	case code == "":
		return refusedBySQLite(err)
	case strings.HasPrefix(code, mysqlCode):
		return readOnly[code] || code == mysqlCode+"1197" // ER_TRANS_CACHE_FULL
	default:
		return !doubtful(code)
	}
}

// doubtful reports whether a SQLSTATE does not tell what became of a COMMIT. Many codes prove a
// rollback, because a trigger that the COMMIT fires may fail in any way. These do not:
func doubtful(state string) bool {
	if state == "40003" { // statement_completion_unknown
		return true
	}
	for _, class := range []string{
		"08", // connection exceptions: 08P01 is also what pgbouncer says if its server is gone
		"57", // operator intervention: PostgreSQL may go down after it has committed
		"58", // system errors
		"XX", // internal errors
		"F0", // errors of the configuration files
	} {
		if strings.HasPrefix(state, class) {
			return true
		}
	}
	return unreachable(state)
}

// refusedBySQLite reports whether SQLite says why it has not committed. The texts are those of the
// library itself. "disk I/O error" is none of them: what reached the disk may count after a crash.
func refusedBySQLite(err error) bool {
	text := err.Error()
	for _, refusal := range []string{"constraint failed", "database or disk is full", "attempt to write a readonly database"} {
		if strings.Contains(text, refusal) {
			return true
		}
	}
	return false
}

// lost reports whether the database did not answer, let nobody in, or answered that it cannot serve
// now. Other errors that it answers with, such as a missing table, are the program's; on SQLite,
// which is a part of the program, all are that come after the transaction began.
func (x *execution) lost(err error) bool {
	for _, known := range []error{core.ErrOutcomeUnknown, core.ErrInvalidKey, sql.ErrTxDone, ErrTransactionEnded} {
		if errors.Is(err, known) {
			return false
		}
	}
	if begin := (*beginError)(nil); errors.As(err, &begin) {
		return true
	}
	code := codeIn(err)
	return x.dialect != SQLite && (code == "" || unreachable(code))
}

// unreachable reports whether the code says that the server cannot serve now, or that the connection
// to it is gone.
func unreachable(code string) bool {
	switch code {
	case "53300", // too_many_connections
		mysqlCode + "1040", // ER_CON_COUNT_ERROR
		mysqlCode + "1053", // ER_SERVER_SHUTDOWN
		mysqlCode + "1927": // ER_CONNECTION_KILLED
		return true
	}
	return strings.HasPrefix(code, "08") || strings.HasPrefix(code, "57P")
}

// readOnly are the codes of a server on which nothing can be written.
var readOnly = map[string]bool{
	"25006":            true, // read_only_sql_transaction: a replica, or a primary that no longer is one
	mysqlCode + "1290": true, // ER_OPTION_PREVENTS_STATEMENT: --read-only
	mysqlCode + "1792": true, // ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION
	mysqlCode + "1836": true, // ER_READ_ONLY_MODE
}
