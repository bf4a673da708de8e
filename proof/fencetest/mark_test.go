package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/fence"
)

func TestMark(t *testing.T) {
	onEachLevel(t, func(t *testing.T, db *database) {
		mark := func(id string, opts ...fence.MarkOption) (first bool, err error) {
			err = db.in(t, func(tx *transaction) (err error) {
				first, err = tx.Mark(bounded(t), id, opts...)
				return err
			})
			return first, err
		}
		tx := db.begin(t)
		if first, err := tx.Mark(bounded(t), "a"); !first || err != nil {
			t.Error(first, err)
		}
		must(t, tx.Rollback()) // as if it had never been
		for i, want := range []bool{true, false} {
			for _, id := range []string{"a", "A", "a ", "a\x00", "{ä}"} { // no collation makes two of them one
				if first, err := mark(id); first != want || err != nil {
					t.Errorf("%q, time %d: %v, %v", id, i+1, first, err)
				}
			}
		}
		one, two := fence.WithFingerprint([]byte("one")), fence.WithFingerprint([]byte("two"))
		for i, c := range []struct {
			id    string
			opts  []fence.MarkOption
			first bool
			want  error
		}{
			{"b", []fence.MarkOption{one}, true, nil},
			{"b", []fence.MarkOption{one}, false, nil},
			{"b", nil, false, nil},
			{"b", []fence.MarkOption{two}, false, core.ErrFingerprintMismatch},
			{"a", []fence.MarkOption{two}, false, nil}, // a mark without a fingerprint
		} {
			if first, err := mark(c.id, c.opts...); first != c.first || !errors.Is(err, c.want) {
				t.Errorf("content %d: %v, %v", i, first, err)
			}
		}
		expect(t, second(db.once(t, "b", func(context.Context, *sql.Tx) ([]byte, error) { return nil, nil }, two)), core.ErrFingerprintMismatch)
	})
}

// A mark that another transaction has made waits for the end of it, and then counts or not.
func TestMarkWaitsForTheFirst(t *testing.T) {
	onEachLevel(t, func(t *testing.T, db *database) {
		for id, commit := range map[string]bool{"committed": true, "rolled back": false} {
			one := db.begin(t)
			if first, err := one.Mark(bounded(t), id); !first || err != nil {
				t.Error(first, err)
			}
			var first bool
			err := waits(t, func() error {
				return db.in(t, func(tx *transaction) (err error) {
					first, err = tx.Mark(bounded(t), id)
					return err
				})
			}, func() {
				if commit {
					must(t, one.Commit())
				} else {
					must(t, one.Rollback())
				}
			})
			check(t, err == nil && first != commit, "%s: the second was first: %v, %v", id, first, err)
		}
	})
}

// once is fence.Once at the database's level.
func (db *database) once(t testing.TB, id string, fn func(context.Context, *sql.Tx) ([]byte, error), opts ...fence.OnceOption) (core.Outcome, error) {
	t.Helper()
	return fence.Once(bounded(t), db.DB, db.dialect, id, fn, append(opts, fence.WithIsolation(db.level))...)
}

// Each message is delivered several times at the same time, and the first tries fail after their effect.
func TestOnceHasOneEffect(t *testing.T) {
	const messages, deliveries = 8, 4
	onEachLevel(t, func(t *testing.T, db *database) {
		db.run(t, `CREATE TABLE effect (message INT, answer INT)`)
		var mu sync.Mutex
		failed := make(map[int]bool)
		answers := make(map[int]string)
		deliver := func(message int) error {
			out, err := db.once(t, fmt.Sprint(message), func(ctx context.Context, tx *sql.Tx) ([]byte, error) {
				answer := rand.IntN(1_000_000)
				_, err := tx.ExecContext(ctx, fmt.Sprintf(`INSERT INTO effect VALUES (%d, %d)`, message, answer))
				if err != nil {
					return nil, err
				}
				mu.Lock()
				defer mu.Unlock()
				if !failed[message] {
					failed[message] = true
					return nil, errors.New("the first try fails, after its effect")
				}
				return fmt.Append(nil, answer), nil
			}, fence.WithAttempts(1000))
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			before, ok := answers[message]
			check(t, !ok || before == string(out.Result), "message %d was answered with %s and %s", message, before, out.Result)
			answers[message] = string(out.Result)
			return nil
		}
		var all sync.WaitGroup
		for message := range messages {
			for range deliveries {
				all.Go(func() {
					for deliver(message) != nil { // it is delivered until it succeeds
						time.Sleep(time.Millisecond)
					}
				})
			}
		}
		all.Wait()
		n := db.number(t, `SELECT count(*) FROM effect`)
		check(t, n == messages && db.number(t, `SELECT count(DISTINCT message) FROM effect`) == messages, "%d effects of %d messages", n, messages)
	})
}

func TestOnceAnswers(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		for name, c := range map[string]struct {
			result []byte
			err    error
			kept   bool
		}{
			"nothing": {nil, nil, true},
			"empty":   {[]byte{}, nil, true},
			"bytes":   {[]byte("\x00ab\xff"), nil, true},
			"large":   {make([]byte, 1<<20), nil, true},
			"skipped": {[]byte("streamed"), core.ErrSkipResult, false},
		} {
			fn := func(ctx context.Context, tx *sql.Tx) ([]byte, error) {
				if found, ok := fence.TxFrom(ctx); !ok || found != tx {
					t.Error("the context has no transaction")
				}
				return c.result, c.err
			}
			out, err := db.once(t, name, fn)
			check(t, err == nil && !out.Duplicate && string(out.Result) == string(c.result) && out.ResultNotKept != c.kept, "%s: %v, %v", name, out.Duplicate, err)
			out, err = db.once(t, name, fn)
			check(t, out.Duplicate && out.ResultNotKept != c.kept, "%s again: %v, %v", name, out.Duplicate, out.ResultNotKept)
			if c.kept && (err != nil || string(out.Result) != string(c.result)) || !c.kept && !errors.Is(err, core.ErrResultNotKept) {
				t.Errorf("%s again: %d bytes, %v", name, len(out.Result), err)
			}
		}
	})
}

// What fails leaves no mark behind, and the pool's only connection comes back.
func TestOnceAfterAFailure(t *testing.T) {
	onEachClient(t, func(t *testing.T, db *database, driver string) {
		db.run(t, `CREATE TABLE effect (n INT)`)
		c := db.connectBy(t, 1, driver, db.DSN())
		once := func(ctx context.Context, end func() error) error {
			return second(c.once(ctx, "id", func(ctx context.Context) ([]byte, error) {
				if err := c.insert(ctx, `INSERT INTO effect VALUES (1)`); err != nil {
					return nil, err
				}
				return nil, end()
			}))
		}
		own := errors.New("own")
		expect(t, once(bounded(t), func() error { return own }), own)
		func() {
			defer func() { _ = recover() }()
			_ = once(bounded(t), func() error { panic("in the middle") })
		}()
		ctx, cancel := context.WithCancel(bounded(t))
		expect(t, once(ctx, func() error { cancel(); return nil }), context.Canceled) // the lease is lost, or the client has gone
		db.hasEffects(t, 0)
		must(t, once(bounded(t), func() error { return nil }))
		db.hasEffects(t, 1)
	})
}

func TestSweep(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		must(t, db.in(t, func(tx *transaction) error {
			for id := range 1200 {
				if _, err := tx.Mark(bounded(t), fmt.Sprint(id)); err != nil {
					return err
				}
			}
			return errors.Join(tx.Lock(bounded(t), "lock"), tx.Check(bounded(t), "resource", 1))
		}))
		sweep := func(olderThan time.Duration) int64 {
			n, err := fence.Sweep(bounded(t), db.DB, db.dialect, olderThan)
			must(t, err)
			return n
		}
		check(t, sweep(time.Hour)+sweep(core.Forever) == 0 && db.number(t, `SELECT count(*) FROM keyturn_row`) == 1, "rows were deleted that are younger than an hour")
		if db.dialect != fence.SQLite { // where Sweep waits for every transaction that writes
			running := db.begin(t)
			must(t, errors.Join(second(running.Mark(bounded(t), "running")), running.Lock(bounded(t), "running")))
			sweep(time.Hour) // it does not wait for what is new
			must(t, running.Rollback())
		}
		const twoDays = 48 * 3600 * 1000
		db.run(t, fmt.Sprintf(`UPDATE keyturn_mark SET at = at - %d`, twoDays), fmt.Sprintf(`UPDATE keyturn_row SET at = at - %d`, twoDays))
		must(t, db.in(t, func(tx *transaction) error {
			_, err := tx.Mark(bounded(t), "new")
			return err
		}))
		n := sweep(24 * time.Hour)
		check(t, n == 1200, "%d old marks of 1200 were deleted", n)
		for table, want := range map[string]int64{"mark": 1, "row": 0, "fence": 1} {
			n := db.number(t, `SELECT count(*) FROM keyturn_`+table)
			check(t, n == want, "%d rows of keyturn_%s are left, want %d", n, table, want)
		}
	})
}
