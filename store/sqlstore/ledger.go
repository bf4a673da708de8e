package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
)

// Begin implements [driver.Ledger]. An execution has one exclusive claim; anything else gets an
// error that matches [errors.ErrUnsupported].
func (s *Store) Begin(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
	return s.ops.Begin(ctx, req)
}

// loadRecord reads the record of a lock, which seems to have one.
func (t *tx) loadRecord(l *lock) error {
	l.Record = nil
	query := fmt.Sprintf("SELECT owner, until, fingerprint, result, not_kept, trace FROM %s WHERE lock_key = ? AND until > ?", t.s.q.recordTable)
	err := t.query(query, []any{[]byte(l.Name), t.now}, func(rows *sql.Rows) error {
		r := new(keystate.Record)
		var until micros
		var notKept int
		var trace []byte
		err := rows.Scan(&r.Owner, &until, &r.Fingerprint, &r.Result, &notKept, &trace)
		r.Until, r.ResultNotKept, r.Trace = time.UnixMicro(until), notKept != 0, string(trace)
		l.Record = r
		return err
	})
	l.record = l.Record
	return err
}

// Complete implements [driver.Ledger].
func (s *Store) Complete(ctx context.Context, g driver.Grant, rec driver.Record, retention time.Duration) error {
	return s.ops.Complete(ctx, g, rec, retention, nil)
}

// Forget implements [driver.Inspector].
func (s *Store) Forget(ctx context.Context, key string) (bool, error) {
	return s.ops.Forget(ctx, key, func(ctx context.Context) (had bool, err error) {
		_, err = s.transact(ctx, casstore.Aim{Keys: []string{key}}, existing, func(t *tx) error {
			here, err := t.forget(t.locks[0])
			had = had || here // an attempt that was carried out without an answer has dropped it already
			return err
		})
		return had, err
	})
}

// forget deletes the record and the version of a lock, and reports whether there was either.
func (t *tx) forget(l *lock) (had bool, err error) {
	if err := t.Settle(); err != nil {
		return false, err
	}
	had, l.Record = l.Record != nil, nil
	for _, table := range []string{t.s.q.recordTable, t.s.q.versionTable} {
		err := t.query(fmt.Sprintf("SELECT 1 FROM %s WHERE lock_key = ? AND until > ?", table), []any{[]byte(l.Name), t.now}, func(*sql.Rows) error {
			had = true
			return nil
		})
		if err != nil {
			return false, err
		}
		if err := t.exec(fmt.Sprintf("DELETE FROM %s WHERE lock_key = ?", table), []byte(l.Name)); err != nil {
			return false, err
		}
	}
	return had, nil
}
