package fencetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/fence"
)

// increments counts up with read, think and write, under what lock takes.
func increments(t *testing.T, db *database, lock func(tx *transaction) error) (lost int64) {
	const workers, each = 5, 8
	db.run(t, `CREATE TABLE counter (n INT)`, `INSERT INTO counter VALUES (0)`)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range each {
				err := db.in(t, func(tx *transaction) error {
					if err := lock(tx); err != nil {
						return err
					}
					var n int
					if err := tx.QueryRowContext(bounded(t), `SELECT n FROM counter`).Scan(&n); err != nil {
						return err
					}
					time.Sleep(time.Millisecond)
					_, err := tx.ExecContext(bounded(t), fmt.Sprintf(`UPDATE counter SET n = %d`, n+1))
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	return workers*each - db.number(t, `SELECT n FROM counter`)
}

func TestLockExcludes(t *testing.T) {
	onEachLevel(t, func(t *testing.T, db *database) {
		lost := increments(t, db, func(tx *transaction) error { return tx.Lock(bounded(t), "counter") })
		check(t, lost <= 0, "%d updates are lost", lost)
	})
}

func TestWithoutLockUpdatesAreLost(t *testing.T) {
	db := newDatabase(t, fence.Postgres, open(t, fence.Postgres), dialects[1].levels[0])
	if lost := increments(t, db, func(*transaction) error { return nil }); lost == 0 {
		t.Error("the tests of locks could not fail")
	}
}

func TestAdvisoryLock(t *testing.T) {
	onEachLevel(t, func(t *testing.T, db *database) {
		advisory := fence.WithAdvisory()
		if db.dialect != fence.Postgres {
			expect(t, db.begin(t).Lock(bounded(t), "a", advisory), errors.ErrUnsupported)
			return
		}
		first, second := db.begin(t), db.begin(t)
		must(t, first.Lock(bounded(t), "a", advisory))
		expect(t, second.Lock(bounded(t), "a", advisory, fence.NoWait()), fence.ErrLocked)
		must(t, second.Lock(bounded(t), "b", advisory, fence.NoWait()))
		must(t, waits(t, func() error { return second.Lock(bounded(t), "a", advisory) }, func() { must(t, first.Commit()) }))
		n := db.number(t, `SELECT count(*) FROM keyturn_row`)
		check(t, n == 0, "%d rows", n)
	})
}

func TestNoWaitAndWithin(t *testing.T) {
	onEachLevel(t, func(t *testing.T, db *database) {
		db.run(t, `CREATE TABLE effect (n INT)`)
		must(t, db.in(t, func(tx *transaction) error { return tx.Lock(bounded(t), "old") }))
		for _, name := range []string{"old", "new"} { // a name that was never locked is a row that nobody sees yet
			holder := db.begin(t)
			must(t, holder.Lock(bounded(t), name))
			// Again, for longer than PostgreSQL's longest wait.
			must(t, holder.Lock(bounded(t), name, fence.Within(30*24*time.Hour)))
			if db.dialect == fence.SQLite { // which locks the whole database when a transaction begins
				must(t, holder.Rollback())
				continue
			}
			other := db.begin(t)
			expect(t, other.Lock(bounded(t), name, fence.NoWait()), fence.ErrLocked)
			began := time.Now()
			expect(t, other.Lock(bounded(t), name, fence.Within(150*time.Millisecond)), fence.ErrLocked)
			took := time.Since(began)
			check(t, took >= 100*time.Millisecond, "it waited for %v", took)
			if name == "old" {
				err := waits(t, func() error { return other.Lock(bounded(t), name, fence.Within(20*time.Second)) }, func() { must(t, holder.Commit()) })
				if err != nil && !errors.Is(err, fence.ErrRetry) {
					t.Error(err)
				}
				must(t, other.Rollback())
				continue
			}
			// The transaction goes on, and what it does counts.
			must(t, second(other.ExecContext(bounded(t), `INSERT INTO effect VALUES (1)`)))
			must(t, other.Lock(bounded(t), "another", fence.NoWait()))
			must(t, other.Commit())
			db.hasEffects(t, 1)
			must(t, holder.Commit())
		}
	})
}

// SQLite's lock is that of the database.
func TestNoWaitOnSQLite(t *testing.T) {
	db := newDatabase(t, fence.SQLite, open(t, fence.SQLite), 0)
	begin := func() *fence.Guard {
		conn, err := db.Conn(bounded(t))
		must(t, err)
		t.Cleanup(func() {
			_, _ = conn.ExecContext(context.Background(), `ROLLBACK`)
			_ = conn.Close()
		})
		must(t, second(conn.ExecContext(bounded(t), `BEGIN`)))
		return fence.On(conn, fence.SQLite)
	}
	holder, other := begin(), begin()
	must(t, holder.Lock(bounded(t), "a"))
	expect(t, other.Lock(bounded(t), "b", fence.NoWait()), fence.ErrLocked)
	expect(t, other.Lock(bounded(t), "b", fence.Within(20*time.Millisecond)), fence.ErrLocked)
	must(t, holder.Lock(bounded(t), "b", fence.NoWait()))
}

func TestLockAny(t *testing.T) {
	onEachLevel(t, func(t *testing.T, db *database) {
		if db.dialect == fence.SQLite {
			return // one transaction at a time has all locks
		}
		for _, want := range []string{"p1", "p2", ""} { // nobody has locked them before
			got, err := db.begin(t).LockAny(bounded(t), "p1", "p2")
			if got != want || (err == nil) != (want != "") || want == "" && !errors.Is(err, fence.ErrLocked) {
				t.Errorf("%q, %v; want %q", got, err, want)
			}
		}
	})
}
