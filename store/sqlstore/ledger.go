package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Begin implements [driver.Ledger]. An execution has one exclusive claim; anything else gets an
// error that matches [errors.ErrUnsupported].
func (s *Store) Begin(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
	if err := driver.CheckOnce(req.Claims); err != nil {
		return driver.Grant{}, nil, err
	}
	a, err := s.acquire(ctx, req, true)
	return a.grant, a.record, err
}

// record returns the record in force of a key, or nil.
func (t *tx) record(l *lock) (rec *driver.Record, err error) {
	if l.recordUntil <= t.now {
		return nil, nil
	}
	query := fmt.Sprintf("SELECT fingerprint, result, not_kept, trace FROM %s WHERE lock_key = ? AND until > ?", t.s.q.recordTable)
	err = t.query(query, []any{[]byte(l.key), t.now}, func(rows *sql.Rows) error {
		rec = new(driver.Record)
		var notKept int
		var trace []byte
		err := rows.Scan(&rec.Fingerprint, &rec.Result, &notKept, &trace)
		rec.ResultNotKept, rec.Trace = notKept != 0, string(trace)
		return err
	})
	return rec, err
}

// Complete implements [driver.Ledger].
func (s *Store) Complete(ctx context.Context, g driver.Grant, rec driver.Record, retention time.Duration) error {
	if err := driver.CheckOnce(g.Claims); err != nil {
		return err
	}
	if retention < time.Millisecond {
		return &driver.OptionError{Option: "retention", Value: retention, Want: "1ms or more"}
	}
	return s.about(ctx, "complete", g, s.room, func(t *tx) error { return t.complete(g, rec, retention) })
}

// complete stores rec and releases the lease.
func (t *tx) complete(g driver.Grant, rec driver.Record, retention time.Duration) error {
	l := t.locks[0]
	m := l.Holding(g.Owner, g.Token)
	if m == nil || m.mode != driver.ModeExclusive {
		if again, err := t.completed(l, g.Owner); again || err != nil {
			return err
		}
		return t.lost(l.key, g)
	}
	l.recordUntil = t.now + toMicros(retention)
	notKept := int64(0)
	if rec.ResultNotKept {
		notKept = 1
	}
	upsert := t.s.d.upsertInto(t.s.prefix, tableNamed("record"))
	err := t.exec(upsert.of(1), []byte(l.key), g.Owner, l.recordUntil, rec.Fingerprint, rec.Result, notKept, []byte(rec.Trace))
	if err != nil {
		return err
	}
	l.Remove(m)
	for _, w := range l.Waiters() { // they get the record (L2)
		if w.is(once) {
			l.Remove(w)
			t.woken = append(t.woken, *w)
		}
	}
	return nil
}

// completed reports whether owner's record is in force: the call is a repetition (L5).
func (t *tx) completed(l *lock, owner string) (yes bool, err error) {
	if l.recordUntil <= t.now {
		return false, nil
	}
	query := fmt.Sprintf("SELECT 1 FROM %s WHERE lock_key = ? AND owner = ? AND until > ?", t.s.q.recordTable)
	err = t.query(query, []any{[]byte(l.key), owner, t.now}, func(rows *sql.Rows) error {
		yes = true
		return nil
	})
	return yes, err
}

// Forget implements [driver.Inspector].
func (s *Store) Forget(ctx context.Context, key string) (bool, error) {
	if err := driver.ValidateKey(key); err != nil {
		return false, err
	}
	if err := s.calls.Enter(); err != nil {
		return false, err
	}
	defer s.calls.Leave()
	had, err, answered := do(ctx, s, s.room, []string{key}, func(ctx context.Context) (had bool, err error) {
		_, err = s.transact(ctx, []string{key}, existing, func(t *tx) error {
			l := t.locks[0]
			had = l.recordUntil > t.now
			l.recordUntil = 0
			for _, table := range []string{s.q.recordTable, s.q.versionTable} {
				err := t.query(fmt.Sprintf("SELECT 1 FROM %s WHERE lock_key = ? AND until > ?", table), []any{[]byte(key), t.now}, func(*sql.Rows) error {
					had = true
					return nil
				})
				if err != nil {
					return err
				}
				if err := t.exec(fmt.Sprintf("DELETE FROM %s WHERE lock_key = ?", table), []byte(key)); err != nil {
					return err
				}
			}
			return nil
		})
		return had, err
	}, nil)
	return had, s.conclude(ctx, "forget", key, answered, false, err)
}
