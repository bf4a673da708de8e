package sqlstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/waitloop"
)

const (
	sweepEvery = time.Hour
	// keepFor is how long what is over stays. A token is greater than those before although a
	// row is gone, because the clock has gone on.
	keepFor   = 24 * time.Hour
	sweepRows = 500 // by one statement
	// nearRows is how many rows of each table a process looks at when it has got its first lock. A process adds
	// a few rows for each lock, so even processes that take a single lock delete more than they leave behind.
	nearRows = 100
	// closeGrace is how long Close waits for a statement of a sweep. It is longer than one takes, because to
	// cancel a statement takes a new connection on PostgreSQL.
	closeGrace = 100 * time.Millisecond
)

// sweep deletes what has been over for a day, once an hour, until the store closes.
func (s *Store) sweep() {
	// The random part keeps the processes of a fleet from sweeping at the same moment.
	for pause := rand.N(sweepEvery); waitloop.Sleep(s.life, pause); pause = sweepEvery/2 + rand.N(sweepEvery) {
		_ = s.Sweep(s.life, keepFor) // what is left is for the next time, or for another process
	}
}

// sweepOnce sweeps the rows near key, for the first lock of this process. A process that lives for seconds
// would otherwise never sweep.
func (s *Store) sweepOnce(key string) {
	if s.swept.Load() || s.swept.Swap(true) {
		return
	}
	s.calls.Go(func() {
		ctx, cancel := context.WithTimeout(s.life, opTimeout)
		defer cancel()
		_ = s.sweepOver(ctx, s.ago(keepFor), near(key)) // what is left is for the next process
	})
}

// Sweep deletes leases, places in queues, records, versions and notes that have been over for at
// least that long, and the rows of keys that have been idle for as long. The store does the same
// every hour by itself, and for the rows near the key of its first lock at once, with a day; call it to do so at
// another time. Tokens still increase
// afterwards, because they follow the clock. The error matches driver.ErrUnavailable, or
// driver.ErrClosed.
func (s *Store) Sweep(ctx context.Context, olderThan time.Duration) error {
	if err := s.calls.Enter(); err != nil {
		return err
	}
	defer s.calls.Leave()
	err := s.checked.at(ctx)
	if err == nil {
		err = s.sweepOver(ctx, s.ago(olderThan), everywhere)
	}
	if err == nil {
		return nil
	}
	return failure("sweep", "", err)
}

// ago is an expression for a moment by the database's clock.
func (s *Store) ago(d time.Duration) string {
	return fmt.Sprintf("%s - %d", s.d.clock, max(0, toMicros(d)))
}

// part is the part of a table that a sweep looks at. sweep sweeps some rows behind a key, and returns the key
// behind which the next ones begin; nil: there are none.
type part func(sweep func(after []byte, looks int) (next []byte, err error)) error

// everywhere is the whole table.
func everywhere(sweep func([]byte, int) ([]byte, error)) error {
	for after := []byte{}; after != nil; {
		next, err := sweep(after, pageRows)
		if err != nil {
			return err
		}
		after = next
	}
	return nil
}

// near is a few rows behind key, and at the end of the table those at its beginning. So if keys are random, or
// come in order, each row has its turn.
func near(key string) part {
	return func(sweep func([]byte, int) ([]byte, error)) error {
		next, err := sweep([]byte(key), nearRows)
		if next == nil && err == nil {
			_, err = sweep([]byte{}, nearRows)
		}
		return err
	}
}

// sweepOver deletes what has ended before the moment that the expression over stands for.
func (s *Store) sweepOver(ctx context.Context, over string, of part) error {
	ended := "until < " + over
	// Members count in the row of their lock, so they go with it locked.
	err := s.sweepTable(ctx, s.q.memberTable, ended, of, func(ctx context.Context, keys []string) error {
		_, err := s.transact(ctx, casstore.Aim{Keys: keys}, creating, func(t *tx) error { return t.Settle() })
		return err
	})
	for _, t := range []struct{ table, condition string }{
		{s.q.lockTable, fmt.Sprintf("until < %s AND record_until < %s AND last < %s AND members = 0", over, over, over)},
		{s.q.recordTable, ended},
		{s.q.versionTable, ended},
		{s.q.forcedTable, ended},
	} {
		if err != nil {
			break
		}
		err = s.sweepTable(ctx, t.table, t.condition, of, func(ctx context.Context, keys []string) error {
			in, args := list(keys)
			return s.exec(ctx, s.d.deleteThese(t.table, in, t.condition), args...)
		})
	}
	return err
}

// sweepTable calls remove for those keys of a part of a table whose rows fit condition, a few at a time.
func (s *Store) sweepTable(ctx context.Context, table, condition string, of part, remove func(context.Context, []string) error) error {
	return of(func(after []byte, looks int) ([]byte, error) {
		var next []byte
		err, answered := s.do(ctx, s.workers, nil, func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(s.life, func() { time.AfterFunc(closeGrace, cancel) })()
			keys, behind, err := s.page(ctx, table, "lock_key > ?", []any{after}, condition, looks, sweepRows)
			if len(keys) > 0 && err == nil {
				err = remove(ctx, keys)
			}
			next = behind
			return err
		}, nil)
		switch {
		case !answered:
			return nil, err
		case isLocked(err):
			err = nil // whoever has the row uses it
		}
		return next, err
	})
}

// deleteThese deletes those rows of some keys that fit condition, except rows that others have locked.
func (d *dialect) deleteThese(table, in, condition string) string {
	if d == &postgres {
		in = fmt.Sprintf("(SELECT lock_key FROM %s WHERE lock_key IN %s AND %s FOR UPDATE SKIP LOCKED)", table, in, condition)
		return fmt.Sprintf("DELETE FROM %s WHERE lock_key = ANY (ARRAY%s) AND %s", table, in, condition)
	}
	return fmt.Sprintf("%sDELETE FROM %s WHERE lock_key IN %s AND %s", d.bounded, table, in, condition)
}
