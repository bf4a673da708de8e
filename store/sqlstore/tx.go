package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// tx is a transaction that has locked the rows of some keys, in the order of the keys. It reads
// all holders and waiters, changes them in memory, and writes what has changed.
type tx struct {
	s     *Store
	ctx   context.Context
	conn  *sql.Conn
	sent  time.Time // a moment before it began, by this process's clock
	now   micros    // the database's clock, after the rows were locked
	locks []*lock   // in order of their keys

	mode    rowMode
	locked  int             // how many rows are locked; -1: all
	own     map[string]bool // which ones; nil: unknown
	skipped map[string]bool // keys that others have locked
	apart   bool            // BEGIN and the lock are sent apart

	woken  []member // waiters that were let in, or have another reason to ask
	wanted []want   // leases that linger and are in somebody's way
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

// verdict is the end of a transaction that changes nothing, and is not to be repeated.
type verdict struct{ error }

// Unwrap returns the error that the caller gets.
func (v verdict) Unwrap() error { return v.error }

// missing says that some keys have no row to lock.
type missing struct{ keys []string }

func (missing) Error() string { return "sqlstore: no row for a key" }

// errUnlocked says that a row has come between the lock of the others and the reading, so it is not
// locked. Or the driver does not count the rows that were locked together with BEGIN.
var errUnlocked = errors.New("sqlstore: a row is not locked")

// clock is the database's clock.
func (t *tx) clock() time.Time { return time.UnixMicro(t.now) }

// lock returns the lock of one of the transaction's keys.
func (t *tx) lock(key string) *lock {
	i, _ := slices.BinarySearchFunc(t.locks, key, func(l *lock, key string) int {
		switch {
		case l.key < key:
			return -1
		case l.key > key:
			return 1
		}
		return 0
	})
	return t.locks[i]
}

// transact runs decide in a transaction on keys, which are in order, and repeats it if others were
// in the way or the connection broke.
//
// unsure says that an earlier attempt may have been carried out: its COMMIT had no answer. So
// decide must be such that doing it twice does no harm.
func (s *Store) transact(ctx context.Context, keys []string, mode rowMode, decide func(*tx) error) (unsure bool, err error) {
	apart := false
	for r := s.tries(); ; {
		t := &tx{s: s, ctx: ctx, sent: time.Now(), mode: mode, apart: apart}
		committing, err := t.attempt(keys, decide)
		var v verdict
		var none missing
		switch {
		case err == nil:
			s.wake(t.woken)
			s.tell(t.wanted)
			return unsure, nil
		case errors.As(err, &v):
			return unsure, v.error
		case errors.As(err, &none):
			// Within the transaction the rows would be locked out of order.
			if err := s.insert(ctx, none.keys); err != nil {
				return unsure, err
			}
			continue
		case errors.Is(err, errUnlocked):
			apart = true
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
	var v verdict
	var none missing
	return errors.As(err, &v) || errors.As(err, &none) || errors.Is(err, errUnlocked)
}

func (t *tx) body(keys []string, decide func(*tx) error) (committing bool, err error) {
	if err := t.open(keys); err != nil {
		return false, err
	}
	if err := t.load(keys); err != nil {
		return false, err
	}
	if err := t.settle(decide); err != nil {
		return false, err
	}
	if err := t.write(); err != nil {
		return false, err
	}
	return true, t.exec(t.ending("COMMIT"))
}

// settle decides, with everybody let in whose turn it is before and afterwards.
func (t *tx) settle(decide func(*tx) error) error {
	for _, l := range t.locks {
		t.step(l) // a lease may have ended since the last look
	}
	if err := decide(t); err != nil {
		return err
	}
	for _, l := range t.locks {
		t.step(l)
	}
	return nil
}

// exec runs a statement of the transaction.
func (t *tx) exec(query string, args ...any) error {
	query, args = t.s.d.bind(query, args)
	_, err := t.conn.ExecContext(t.ctx, query, args...)
	return inTime(t.ctx, err)
}

// query runs a question of the transaction.
func (t *tx) query(query string, args []any, scan func(*sql.Rows) error) error {
	query, args = t.s.d.bind(query, args)
	return rowsOf(t.ctx, t.conn, query, args, scan)
}

// ending returns the statement that ends the transaction by COMMIT or ROLLBACK.
func (t *tx) ending(how string) string {
	if t.s.mariaDB {
		return endMariaDB(how)
	}
	return how
}

// skips reports whether the transaction leaves out the key of one of claims.
func (t *tx) skips(claims []driver.Claim) bool {
	return len(t.skipped) > 0 && slices.ContainsFunc(claims, func(c driver.Claim) bool { return t.skipped[c.Key] })
}

// peek runs decide on what keys look like at a moment, and locks nothing: a process that is stopped in a
// transaction keeps its rows locked. settled: the decision changes nothing, so it counts.
func (s *Store) peek(ctx context.Context, keys []string, decide func(*tx) error) (settled bool, err error) {
	conn, back, err := s.connect(ctx, false)
	if err != nil {
		return false, nil // a transaction tries again
	}
	t := &tx{s: s, ctx: ctx, conn: conn, sent: time.Now(), locked: -1}
	err = t.load(keys)
	if err == nil {
		err = t.settle(decide)
	}
	var v verdict
	switch {
	case errors.As(err, &v):
		back(nil)
		return true, v.error
	case err != nil:
		back(err)
		return false, nil
	}
	back(nil)
	return len(t.changes())+len(t.woken)+len(t.wanted) == 0, nil
}

// mine returns what g's owner has of all its claims, or the error of a loss.
func (t *tx) mine(g driver.Grant, fits func(*lock, *member, driver.Claim) bool) ([]*member, error) {
	var all []*member
	for _, c := range g.Claims {
		l := t.lock(c.Key)
		m := l.Holding(g.Owner, g.Token)
		if m == nil || !fits(l, m, c) {
			return nil, t.lost(c.Key, g)
		}
		all = append(all, m)
	}
	if len(all) == 0 {
		return nil, verdict{lost("", g)} // no Acquire returned such a grant
	}
	return all, nil
}

// lost returns the error that says how g lost key: as a verdict, unless the question fails.
func (t *tx) lost(key string, g driver.Grant) error {
	loss := &driver.LeaseLostError{Key: key, Token: g.Token, Reason: driver.LossTaken}
	query := fmt.Sprintf("SELECT token, reason FROM %sforced WHERE lock_key = ? AND owner = ? AND until > ?", t.s.prefix)
	err := t.query(query, []any{[]byte(key), g.Owner, t.now}, func(rows *sql.Rows) error {
		var token uint64
		var reason []byte
		if err := rows.Scan(&token, &reason); err != nil {
			return err
		}
		if g.Token == 0 || g.Token == token {
			loss.Reason, loss.Detail = driver.LossForced, string(reason)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return verdict{loss}
}
