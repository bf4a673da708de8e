package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
)

// tx is a transaction that has locked the rows of some keys, in the order of the keys. It reads all
// holders and waiters, has package keystate decide, and writes what has changed.
type tx struct {
	keystate.State
	s     *Store
	ctx   context.Context
	conn  *sql.Conn
	sent  time.Time // a moment before it began, by this process's clock
	now   micros    // the database's clock, after the rows were locked
	locks []*lock   // in order of their keys

	mode     rowMode
	records  bool            // records are read, too
	locked   int             // how many rows are locked; -1: all
	own      map[string]bool // which ones; nil: unknown
	separate bool            // BEGIN and the lock are two requests
}

// rowMode says what a transaction does about the rows of its keys.
type rowMode int

const (
	existing rowMode = iota // it locks those that exist
	creating                // it makes those that don't exist
	skipping                // it locks those that nobody else has locked, and leaves the others out
)

// errSkipped says that another transaction has locked the row of a key.
var errSkipped = errors.New("sqlstore: another transaction has locked the row")

// missing says that some keys have no row to lock.
type missing struct{ keys []string }

func (missing) Error() string { return "sqlstore: no row for a key" }

// errUnlocked says that a row has come between the lock of the others and the reading, so it is not
// locked. Or the driver does not count the rows that were locked together with BEGIN.
var errUnlocked = errors.New("sqlstore: a row is not locked")

// lock returns the lock of one of the transaction's keys; nil: it was left out.
func (t *tx) lock(key string) *lock {
	i, ok := slices.BinarySearchFunc(t.locks, key, func(l *lock, key string) int { return cmp.Compare(l.Name, key) })
	if !ok {
		return nil
	}
	return t.locks[i]
}

// transact runs decide in a transaction on the keys of a, and repeats it if others were in the way or the
// connection broke. What decide returns as an answer is returned as it is, and nothing is written.
//
// unsure says that an earlier attempt may have been carried out: its COMMIT had no answer. So
// decide must be such that doing it twice does no harm.
func (s *Store) transact(ctx context.Context, a casstore.Aim, mode rowMode, decide func(*tx) error) (unsure bool, err error) {
	separate := false
	for r := s.tries(); ; {
		t := &tx{s: s, ctx: ctx, sent: time.Now(), mode: mode, records: a.Records, separate: separate}
		committing, err := t.attempt(a.Keys, decide)
		var none missing
		switch {
		case err == nil:
			s.tell(&t.State)
			return unsure, nil
		case casstore.IsAnswer(err):
			return unsure, err
		case errors.As(err, &none):
			// Within the transaction the rows would be locked out of order.
			if err := s.insert(ctx, none.keys); err != nil {
				return unsure, err
			}
			continue
		case errors.Is(err, errUnlocked):
			separate = true
			continue
		}
		unsure = unsure || committing && judge(err) == broken
		if !r.again(ctx, err) {
			return unsure, err
		}
	}
}

// attempt is one try. committing: its COMMIT was sent.
func (t *tx) attempt(keys []string, decide func(*tx) error) (committing bool, err error) {
	conn, back, err := t.s.connect(t.ctx, true)
	if err != nil {
		return false, err
	}
	t.conn = conn
	committing, err = t.body(keys, decide)
	if err == nil {
		back(nil)
		return true, nil
	}
	// A statement that failed may have left the transaction open (1205 of MySQL does).
	_, undone := conn.ExecContext(t.ctx, t.ending("ROLLBACK"))
	if undone != nil && t.s.d != &sqlite || t.ctx.Err() != nil {
		drop(conn)
	}
	if isOurs(err) {
		back(nil)
	} else {
		back(err)
	}
	return committing, err
}

// isOurs reports whether err is not the database's.
func isOurs(err error) bool {
	var none missing
	return casstore.IsAnswer(err) || errors.As(err, &none) || errors.Is(err, errUnlocked)
}

func (t *tx) body(keys []string, decide func(*tx) error) (committing bool, err error) {
	if err := t.open(keys); err != nil {
		return false, err
	}
	if err := t.load(keys); err != nil {
		return false, err
	}
	if err := decide(t); err != nil {
		return false, err
	}
	if err := t.write(); err != nil {
		return false, err
	}
	return true, t.exec(t.ending("COMMIT"))
}

// exec runs a statement of the transaction.
func (t *tx) exec(query string, args ...any) error {
	query, args = t.s.d.bind(query, args)
	_, err := t.conn.ExecContext(t.ctx, query, args...)
	return t.s.certain(t.ctx, t.conn, err)
}

// query runs a question of the transaction.
func (t *tx) query(query string, args []any, scan func(*sql.Rows) error) error {
	query, args = t.s.d.bind(query, args)
	return rowsOf(t.ctx, t.conn, query, args, scan)
}

// peek runs decide on what the keys of a look like at a moment, and locks nothing: a process that is
// stopped in a transaction keeps its rows locked. settled: the decision changes nothing, so it counts.
func (s *Store) peek(ctx context.Context, a casstore.Aim, decide func(*tx) error) (settled bool, err error) {
	conn, back, err := s.connect(ctx, false)
	if err != nil {
		return false, nil // a transaction tries again
	}
	t := &tx{s: s, ctx: ctx, conn: conn, sent: time.Now(), records: a.Records, locked: -1}
	err = t.load(a.Keys)
	if err == nil {
		err = decide(t)
	}
	switch {
	case casstore.IsAnswer(err):
		back(nil)
		return true, err
	case err != nil:
		back(err)
		return false, nil
	}
	back(nil)
	return len(t.changes()) == 0 && len(t.Woken) == 0 && t.Wanted == nil, nil
}
