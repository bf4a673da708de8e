package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	sweepEvery = time.Hour
	// keepFor is how long what is over stays. A token is greater than those before although a
	// row is gone, because the clock has gone on.
	keepFor   = 24 * time.Hour
	sweepRows = 500 // by one statement
)

// sweep deletes what has been over for a day, once an hour, until the store closes.
func (s *Store) sweep() {
	// The random part keeps the processes of a fleet from sweeping at the same moment.
	timer := time.NewTimer(rand.N(sweepEvery))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.life.Done():
			return
		}
		_ = s.Sweep(s.life, keepFor) // what is left is for the next time, or for another process
		timer.Reset(sweepEvery/2 + rand.N(sweepEvery))
	}
}

// Sweep deletes leases, places in queues, records, versions and notes that have been over for at
// least that long, and the rows of keys that have been idle for as long. The store does the same
// every hour by itself, with a day; call it to do so at another time. Tokens still increase
// afterwards, because they follow the clock. The error matches driver.ErrUnavailable, or
// driver.ErrClosed.
func (s *Store) Sweep(ctx context.Context, olderThan time.Duration) error {
	if err := s.calls.Enter(); err != nil {
		return err
	}
	defer s.calls.Leave()
	err := s.sweepOver(ctx, fmt.Sprintf("%s - %d", s.d.clock, max(0, toMicros(olderThan))))
	return s.conclude(ctx, "sweep", "", ctx.Err() == nil, false, err)
}

// sweepOver deletes what has ended before the moment that the expression over stands for.
func (s *Store) sweepOver(ctx context.Context, over string) error {
	// Members count in the row of their lock, so they go with it locked.
	for {
		keys, err := s.keysOver(ctx, "SELECT DISTINCT lock_key FROM "+s.q.memberTable+" WHERE until < "+over+" ORDER BY lock_key LIMIT 100")
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			break
		}
		_, err, answered := do(ctx, s, s.room, keys, func(ctx context.Context) (struct{}, error) {
			_, err := s.transact(ctx, keys, creating, func(*tx) error { return nil })
			return struct{}{}, err
		}, nil)
		if err != nil || !answered {
			return err
		}
	}
	idle := fmt.Sprintf("until < %s AND record_until < %s AND last < %s AND members = 0", over, over, over)
	for _, t := range []struct{ table, key, condition string }{
		{s.q.lockTable, "lock_key", idle},
		{s.q.recordTable, "lock_key", "until < " + over},
		{s.q.versionTable, "lock_key", "until < " + over},
		{s.q.forcedTable, "lock_key, owner", "until < " + over},
	} {
		if err := s.deleteOver(ctx, t.table, t.key, t.condition); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) keysOver(ctx context.Context, query string) ([]string, error) {
	keys, err, _ := do(ctx, s, s.room, nil, func(ctx context.Context) (keys []string, err error) {
		err = s.query(ctx, query, nil, func() { keys = nil }, func(rows *sql.Rows) error {
			var key []byte
			err := rows.Scan(&key)
			keys = append(keys, string(key))
			return err
		})
		return keys, err
	}, nil)
	return keys, err
}

// deleteOver deletes the rows for which condition is true, a few at a time.
func (s *Store) deleteOver(ctx context.Context, table, key, condition string) error {
	query := fmt.Sprintf("DELETE FROM %s WHERE (%s) IN (SELECT %s FROM %s WHERE %s LIMIT %d) AND %s", table, key, key, table, condition, sweepRows, condition)
	if s.d == &mysql { // it can't select from the table that it deletes from, but knows LIMIT
		query = fmt.Sprintf("DELETE FROM %s WHERE %s LIMIT %d", table, condition, sweepRows)
	}
	for {
		n, err, answered := do(ctx, s, s.room, nil, func(ctx context.Context) (int64, error) { return s.exec(ctx, query) }, nil)
		if err != nil || !answered || n < sweepRows {
			return err
		}
	}
}
