package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/keyturn/keyturn/core/driver"
)

// Errors in addition to those of [driver.Store]. ErrReadOnly also matches
// driver.ErrUnavailable.
var (
	// ErrSchema: a table of the store is missing, or lacks a column. [Migrate] makes the tables.
	ErrSchema = errors.New("sqlstore: the tables are not as they should be")
	// ErrNoDatabase: the server has no such database. Make it first, by CREATE DATABASE.
	ErrNoDatabase = errors.New("sqlstore: there is no such database")
	// ErrSettings: with a setting of the server or of the sessions, two owners could hold a key.
	ErrSettings = errors.New("sqlstore: a setting is not as it must be")
	// ErrReplaced: the file of a SQLite database was deleted or replaced while the store was open. Its leases
	// are lost, and it stays of no use: open another one.
	ErrReplaced = errors.New("sqlstore: the file was deleted or replaced")
	// ErrReadOnly: the server is a replica, or was made read-only.
	ErrReadOnly = errors.New("sqlstore: the database is read-only")
)

// errRow says that a row is not as this store writes it: somebody has changed it by hand.
var errRow = fmt.Errorf("%w: a row was not written by this store", driver.ErrForeign)

// trouble is what an error of a driver means for the one that asked.
type trouble int

const (
	refused  trouble = iota // the server answered, and does not carry out the statement
	again                   // the transaction was rolled back because of others: repeat it
	locked                  // the same, and it has waited for a row that another transaction has locked
	broken                  // the connection is of no use, a new one may be
	readOnly                // as broken, and it has led to a server that can't be written
)

// codes says what the codes of servers mean: SQLSTATEs of PostgreSQL, and numbers of MySQL. A
// code that is not here is a refusal.
var codes = map[string]trouble{
	"40001": again, "40P01": again, "55P03": locked, // serialization failure, deadlock, lock timeout
	"57P01": broken, "57P02": broken, "57P03": broken, "57P05": broken, // shut down, crashed, starting up, idle too long
	"25P03": broken, "25P02": again, // ended because idle in a transaction; a transaction that has failed
	"25006": readOnly,

	"1213": again, "1020": again, // deadlock, changed since the snapshot
	"1205": locked, "3572": locked,
	"1053": broken, "1927": broken, "2006": broken, "2013": broken, "4031": broken, // shut down, killed, gone
	"1290": readOnly, "1792": readOnly, "1836": readOnly,
}

// Result codes of SQLite, without the extension in the upper bits.
const (
	sqliteBusy     = 5
	sqliteLocked   = 6
	sqliteReadOnly = 8
)

// judge says what err means. Drivers are not imported, so it asks for what their errors have in
// common.
func judge(err error) trouble {
	var row *lockedError
	switch {
	case errors.As(err, &row):
		return locked
	case errors.Is(err, ErrSchema), errors.Is(err, ErrSettings), errors.Is(err, ErrNoDatabase), errors.Is(err, ErrReplaced), errors.Is(err, errRow):
		return refused
	}
	var code interface{ Code() int } // SQLite
	if errors.As(err, &code) {
		switch code.Code() & 0xff {
		case sqliteBusy, sqliteLocked:
			return again
		case sqliteReadOnly:
			return readOnly
		}
		return refused
	}
	if code := codeOf(err); strings.HasPrefix(code, "08") { // connection exceptions
		return broken
	} else if code != "" {
		return codes[code]
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "database is locked"), strings.Contains(text, "database table is locked"):
		return again // other drivers of SQLite
	case strings.Contains(text, "attempt to write a readonly database"):
		return readOnly
	case strings.Contains(text, "unable to open database file"):
		return refused
	}
	return broken // it has no code of a server, so no server answered
}

// isLocked reports whether err says that another transaction keeps a row locked.
func isLocked(err error) bool { return err != nil && !isOurs(err) && judge(err) == locked }

// isLost reports whether err leaves open whether the database has carried out the statement.
func isLost(err error) bool { return err != nil && !isOurs(err) && judge(err) == broken }

// lockedError says of which keys a row is locked.
type lockedError struct {
	keys []string
	err  error
}

func (e *lockedError) Error() string {
	return fmt.Sprintf("another session keeps the row of %s locked: %v", named(e.keys), e.err)
}

func (e *lockedError) Unwrap() error { return e.err }

// named writes keys into an error, the first few of them.
func named(keys []string) string {
	const most = 3
	text := fmt.Sprintf("%q", keys[:min(len(keys), most)])
	text = text[1 : len(text)-1]
	if len(keys) > most {
		text += fmt.Sprintf(" or %d other keys", len(keys)-most)
	}
	return text
}

// codeOf returns the code that a server has given: the SQLSTATE of PostgreSQL's drivers, or the number in an
// error of go-sql-driver, "Error 1213 (40001): ..."; "": there is none.
func codeOf(err error) string {
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		return state.SQLState()
	}
	_, number, _ := strings.Cut(err.Error(), "Error ")
	number, _, _ = strings.Cut(number, " ")
	number = strings.TrimSuffix(number, ":")
	if _, err := strconv.Atoi(number); err != nil {
		return ""
	}
	return number
}

// failure is the error for a request that was not carried out.
func failure(op, key string, err error) error {
	if out := (*driver.UnavailableError)(nil); errors.As(err, &out) { // of the check before the first request
		return &driver.UnavailableError{Op: op, Key: key, Err: out.Err, Refused: out.Refused}
	}
	if errors.Is(err, errRow) {
		return fmt.Errorf("sqlstore: %s of %q: %w", op, key, err)
	}
	t := judge(err)
	switch silent := (*silentError)(nil); {
	case t == locked:
	case errors.As(err, &silent):
		return &driver.UnavailableError{Op: op, Key: key, Err: err}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &driver.UnavailableError{Op: op, Key: key, Err: &silentError{err}}
	case t == readOnly:
		err = fmt.Errorf("%w: %w", ErrReadOnly, err)
	case hasCode(err, poolerCodes):
		err = fmt.Errorf("a pooler gives each transaction another connection, so the driver must keep no prepared statements there "+
			"(%s): %w", poolerAdvice(err), err)
	}
	return &driver.UnavailableError{Op: op, Key: key, Err: err, Refused: t == refused || t == readOnly || t == locked}
}

// silence says why a request has no answer although its context has ended.
func (s *Store) silence(ctx context.Context, keys []string) error {
	if len(s.stuck.among(keys)) > 0 {
		return &lockedError{keys, context.Cause(ctx)}
	}
	return &silentError{context.Cause(ctx)}
}

// silentError is for a request whose context has ended, with that cause, before the answer came.
type silentError struct{ cause error }

func (e *silentError) Error() string { return fmt.Sprintf("no answer from the database: %v", e.cause) }

func (e *silentError) Unwrap() error { return e.cause }
